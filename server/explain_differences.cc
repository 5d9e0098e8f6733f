#include "server/explain_differences.h"

#include "server/wire.h"

namespace kiln {

void Differences::Add(const std::string& part, const std::string& what, const std::string& before,
                      const std::string& after, std::string_view advice) {
  if (out_->count++ >= kMaxDifferences) return;
  v1::Difference& d = out_->differences.emplace_back();
  d.set_part(OneLine(part, kShownText));
  d.set_what(OneLine(what, kShownText));
  d.set_before(OneLine(before, kShownText));
  d.set_after(OneLine(after, kShownText));
  d.set_advice(std::string(advice));
}

void Differences::AddFlag(const std::string& what, bool before, bool after, std::string_view advice) {
  if (before != after) Add("guards", what, before ? "True" : "False", after ? "True" : "False", advice);
}

}  // namespace kiln
