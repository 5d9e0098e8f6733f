// kilnctl cache ls
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/table.h"

namespace kiln {
namespace {

constexpr size_t kShownDigits = 16;

void PrintEntries(const v1::ListEntriesReply& reply, Cli& cli) {
  using enum Table::Align;
  const int64_t now = absl::GetCurrentTimeNanos() / 1000;
  Table table(
      {{"KEY"}, {"SIZE", kRight}, {"MADE"}, {"USED"}, {"KERNELS", kRight}, {"COST", kRight}, {"TARGET"}, {"JOB"}});
  for (const v1::EntrySummary& e : reply.entries()) {
    table.Add({Hex(e.key(), kShownDigits), Bytes(e.bytes()), Ago(e.created_unix_micros(), now),
               Ago(e.last_used_unix_micros(), now), absl::StrCat(e.num_kernels()), Seconds(e.compile_seconds()),
               e.target(), e.job()});
  }
  cli.out << table.Text(cli.terminal);
}

void PrintNegative(const v1::ListEntriesReply& reply, Cli& cli) {
  const int64_t now = absl::GetCurrentTimeNanos() / 1000;
  Table table({{"KEY"}, {"MADE"}, {"ENDS IN"}, {"ERROR"}});
  for (const v1::EntrySummary& e : reply.entries()) {
    table.Add({Hex(e.key(), kShownDigits), Ago(e.created_unix_micros(), now),
               Seconds(static_cast<double>(e.expires_unix_micros() - now) * 1e-6), e.error()});
  }
  cli.out << table.Text(cli.terminal);
}

void Run(Cli& cli, const v1::ListEntriesRequest& request) {
  v1::ListEntriesReply reply;
  if (!cli.Call(&v1::Admin::Stub::ListEntries, request, &reply)) return;
  if (cli.json) return cli.PrintJson(reply);
  request.negative() ? PrintNegative(reply, cli) : PrintEntries(reply, cli);
  if (reply.truncated()) cli.out << "… and more; see --limit\n";
}

}  // namespace

void AddCacheLs(CLI::App& cache, Cli& cli) {
  auto request = std::make_shared<v1::ListEntriesRequest>();
  CLI::App* verb = cache.add_subcommand("ls", "list entries, in the order of their keys");
  verb->add_flag_callback("--negative", [request] { request->set_negative(true); }, "graphs that are refused");
  verb->add_option_function<uint32_t>(
      "--limit", [request](uint32_t n) { request->set_limit(n); }, "at most so many; the server has a bound too");
  verb->callback([&cli, request] { Run(cli, *request); });
}

}  // namespace kiln
