#include "compiler/ops/named_args.h"

#include <algorithm>

namespace kiln {
namespace {

std::string_view Trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

}  // namespace

NamedArgs::NamedArgs(std::string_view text) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    const size_t equals = item.find('=');
    items_.emplace_back(Trimmed(item.substr(0, equals)), Trimmed(item.substr(equals + 1)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

const std::string* NamedArgs::Find(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (key == name) return &value;
  }
  return nullptr;
}

absl::StatusOr<Arg> NamedArgs::Make(SchemaArg arg, SymContext& syms) const {
  if (const std::string* value = Find(arg.name)) arg.default_text = *value;
  if (!arg.default_text && arg.optional) return Arg{};
  return DefaultArg(arg, syms);
}

}  // namespace kiln
