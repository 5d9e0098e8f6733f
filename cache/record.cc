#include "cache/record.h"

#include "absl/strings/str_cat.h"

namespace kiln {

std::string_view TableName(Table table) {
  switch (table) {
    case Table::kActions:
      return "actions";
    case Table::kVariants:
      return "variants";
    case Table::kKernels:
      return "kernels";
    case Table::kNegative:
      return "negative";
    case Table::kJobs:
      return "jobs";
    case Table::kSkeletons:
      return "skeletons";
  }
  return "unknown";
}

std::string RecordId::ToString() const {
  std::string out = absl::StrCat(std::string(TableName(table)), "/", ns, "/", key.Hex());
  if (item != Key()) absl::StrAppend(&out, "/", item.Hex());
  return out;
}

}  // namespace kiln
