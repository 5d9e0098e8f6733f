// kilnctl explain
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/table.h"

namespace kiln {
namespace {

constexpr size_t kShownDigits = 16;

constexpr char kFooter[] =
    R"(Compares an entry with those of its kind, and shows up to three: first with the same graph, then with the same
operations, then with fewest differences. WAS is the other entry's, IS that of the one explained.
KEY: of compiled code, as `kilnctl cache ls` shows it, or of a look-up of Dynamo's graph, as the server logs it.
Only the newest 1000 entries are compared, those made after it too.

  kilnctl explain 3fa9              by the first digits of its key
  kilnctl explain --last trainer    the newest entry that the job (KILN_JOB) had compiled
  kilnctl explain --last trainer --json | jq '.nearest[0].differences[].advice')";

std::string Described(const v1::ExplainReply::Entry& entry) {
  const int64_t now = absl::GetCurrentTimeNanos() / 1000;
  const std::string job = entry.job().empty() ? "" : absl::StrCat(", job ", Printable(entry.job()));
  return absl::StrCat(Hex(entry.key(), kShownDigits), ", made ", Ago(entry.created_unix_micros(), now), job);
}

void PrintNeighbour(const v1::ExplainReply::Entry& entry, const v1::ExplainReply::Neighbour& neighbour, Cli& cli) {
  const bool later = neighbour.entry().created_unix_micros() > entry.created_unix_micros();
  cli.out << "\nbeside " << Described(neighbour.entry()) << (later ? ", after it\n" : "\n");
  Table table({{"PART"}, {"WHAT"}, {"WAS"}, {"IS"}});
  std::vector<std::string> advice;
  const auto shown = [](const std::string& text) { return text.empty() ? "-" : text; };
  for (const v1::Difference& d : neighbour.differences()) {
    table.Add({d.part(), shown(d.what()), shown(d.before()), shown(d.after())});
    if (std::find(advice.begin(), advice.end(), d.advice()) == advice.end()) advice.push_back(d.advice());
  }
  if (table.empty()) {
    cli.out << "nothing differs that a key is made of\n";
    return;
  }
  cli.out << table.Text(cli.terminal);
  if (neighbour.omitted() > 0) cli.out << "… and " << neighbour.omitted() << " more\n";
  for (const std::string& line : advice) cli.out << "  -> " << Printable(line) << "\n";
}

void PrintReply(const v1::ExplainReply& reply, Cli& cli) {
  cli.out << (reply.lookup() ? "look-up " : "code ") << Described(reply.entry()) << "\n";
  if (reply.nearest().empty()) cli.out << "there is no other entry of its kind\n";
  for (const v1::ExplainReply::Neighbour& neighbour : reply.nearest()) PrintNeighbour(reply.entry(), neighbour, cli);
  if (reply.truncated()) cli.out << "\ncompared with the newest " << reply.compared() << " entries only\n";
}

void Run(Cli& cli, const v1::ExplainRequest& request) {
  v1::ExplainReply reply;
  if (!cli.Call(&v1::Admin::Stub::Explain, request, &reply)) return;
  cli.json ? cli.PrintJson(reply) : PrintReply(reply, cli);
}

}  // namespace

void AddExplain(CLI::App& app, Cli& cli) {
  auto request = std::make_shared<v1::ExplainRequest>();
  CLI::App* verb = app.add_subcommand("explain", "why an entry was not served from another, and what to do about it");
  CLI::Option_group* which = verb->add_option_group("which", "the entry");
  which->add_option_function<std::string>(
      "KEY", [request](const std::string& key) { request->set_key_prefix(key); }, "at least 4 first digits of the key");
  which
      ->add_option_function<std::string>(
          "--last", [request](const std::string& job) { request->set_last_of_job(job); },
          "the newest entry that the job had compiled")
      ->type_name("JOB");
  which->require_option(1);
  verb->footer(kFooter);
  verb->callback([&cli, request] { Run(cli, *request); });
}

}  // namespace kiln
