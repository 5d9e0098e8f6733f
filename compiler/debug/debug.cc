#include "compiler/debug/debug.h"

#include <algorithm>
#include <cstdlib>

namespace kiln {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool Flag(const char* name) {
  const std::string value = Variable(name);
  return !value.empty() && value != "0";
}

}  // namespace

std::vector<DumpRule> ParseDumpRules(std::string_view text) {
  std::vector<DumpRule> rules;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    const size_t at = std::min(item.find('@'), item.size());
    if (at > 0) {
      rules.push_back({std::string(item.substr(0, at)), std::string(item.substr(std::min(at + 1, item.size())))});
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return rules;
}

bool DebugOptions::ShouldDump(std::string_view pass, std::string_view subject) const {
  return std::any_of(dump.begin(), dump.end(), [&](const DumpRule& rule) {
    return (rule.pass == "all" || rule.pass == pass) && (rule.subject.empty() || rule.subject == subject);
  });
}

DebugOptions DebugFromEnvironment() {
  DebugOptions options;
  options.verify = Flag("KILN_VERIFY");
  options.time = Flag("KILN_TIME");
  options.dump = ParseDumpRules(Variable("KILN_DUMP"));
  options.dump_dir = Variable("KILN_DUMP_DIR");
  return options;
}

}  // namespace kiln
