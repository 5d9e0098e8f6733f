// kilnctl cache inspect KEY
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/table.h"
#include "compiler/artifact/guard_text.h"

namespace kiln {
namespace {

std::string Date(int64_t unix_micros) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixMicros(unix_micros), absl::UTCTimeZone());
}

void PrintKeyParts(const v1::ActionRecord& record, Cli& cli) {
  Table table({{"KEY PART"}, {"VALUE"}});
  for (const v1::KeyPart& part : record.key_parts()) {
    table.Add({part.name(), part.value().empty() ? absl::StrCat("sha256 ", Hex(part.sha256(), 16)) : part.value()});
  }
  cli.out << "\n" << table.Text(cli.terminal);
}

std::string GuardText(const v1::GuardSpec& guards, const v1::GuardSpec::InputGuard& input) {
  if (input.kind() == v1::GuardSpec::InputGuard::SYMINT)
    return absl::StrCat("int ", SymText(guards.syms(), input.type()));
  std::string text = "?";
  if (input.type() < static_cast<uint32_t>(guards.types_size())) {
    text = TypeText(guards.syms(), guards.types(static_cast<int>(input.type())));
  }
  if (input.requires_grad()) text += " requires_grad";
  if (input.is_static()) text += " static";
  if (input.alias_group() != 0) absl::StrAppend(&text, " alias group ", input.alias_group());
  return text;
}

void PrintGuards(const v1::GuardSpec& guards, Cli& cli) {
  Table table({{"GUARD"}, {"HOLDS"}});
  for (int i = 0; i < guards.inputs_size(); ++i) {
    table.Add({absl::StrCat("input ", i), GuardText(guards, guards.inputs(i))});
  }
  for (int i = 0; i < guards.syms().symbols_size(); ++i) {
    const v1::Symbol& s = guards.syms().symbols(i);
    table.Add({absl::StrCat("s", i),
               s.max() == INT64_MAX ? absl::StrCat("at least ", s.min()) : absl::StrCat(s.min(), " to ", s.max())});
  }
  const std::vector<std::string> sizes = SymTexts(guards.syms());
  for (const v1::Predicate& p : guards.predicates()) table.Add({"sizes", PredicateText(sizes, p)});
  for (const auto& global : guards.globals()) table.Add({global.name(), global.value()});
  if (!table.empty()) cli.out << "\n" << table.Text(cli.terminal);
}

void PrintKernels(const v1::Provenance& p, bool texts, Cli& cli) {
  if (p.kernels().empty()) return;
  Table table({{"KERNEL"}, {"KEY"}, {"MADE"}});
  for (const auto& k : p.kernels()) table.Add({k.symbol(), Hex(k.key(), 16), k.cached() ? "before" : "here"});
  cli.out << "\n" << table.Text(cli.terminal);
  if (!texts) return;
  for (const auto& k : p.kernels()) cli.out << "\n" << k.symbol() << ":\n" << k.text() << "\n";
}

void PrintEntry(const v1::InspectEntryReply& e, bool texts, Cli& cli) {
  const v1::Provenance& p = e.provenance();
  cli.out << "key        " << Hex(e.summary().key()) << "\n"
          << "made       " << Date(e.summary().created_unix_micros());
  if (!p.build().empty()) cli.out << " on " << p.host() << " by build " << p.build() << " for " << p.principal();
  cli.out << "\n";
  if (!e.summary().error().empty()) {
    cli.out << "refused    " << Printable(e.summary().error()) << "\n"
            << "until      " << Date(e.summary().expires_unix_micros()) << "\n";
    return;
  }
  cli.out << "used       " << Date(e.summary().last_used_unix_micros()) << "\n"
          << "job        " << Printable(p.job()) << "\n"
          << "size       " << Bytes(e.summary().bytes()) << "\n"
          << "artifact   " << Hex(e.record().artifact().sha256()) << ", " << Bytes(e.record().artifact().size())
          << "\n";
  if (e.record().has_shared_object()) {
    cli.out << "object     " << Hex(e.record().shared_object().sha256()) << ", "
            << Bytes(e.record().shared_object().size()) << "\n";
  }
  cli.out << "cost       " << Seconds(e.record().compile_seconds()) << " of workers "
          << absl::StrJoin(p.worker_pids(), ", ") << ": plan " << Seconds(p.plan_seconds()) << ", codegen "
          << Seconds(p.codegen_seconds()) << ", link " << Seconds(p.link_seconds()) << "; waited "
          << Seconds(p.queue_seconds()) << "\n";
  PrintKeyParts(e.record(), cli);
  PrintGuards(e.guards(), cli);
  PrintKernels(p, texts, cli);
}

void Run(Cli& cli, const std::string& key, bool texts) {
  v1::InspectEntryRequest request;
  request.set_key_prefix(key);
  v1::InspectEntryReply reply;
  if (!cli.Call(&v1::Admin::Stub::InspectEntry, request, &reply)) return;
  cli.json ? cli.PrintJson(reply) : PrintEntry(reply, texts, cli);
}

}  // namespace

void AddCacheInspect(CLI::App& cache, Cli& cli) {
  auto key = std::make_shared<std::string>();
  auto texts = std::make_shared<bool>(false);
  CLI::App* verb = cache.add_subcommand("inspect", "an entry's key parts, guards, kernels and provenance");
  verb->add_option("KEY", *key, "at least 4 first digits of the key")->required();
  verb->add_flag("--kernels", *texts, "the kernels' loop nests too");
  verb->callback([&cli, key, texts] { Run(cli, *key, *texts); });
}

}  // namespace kiln
