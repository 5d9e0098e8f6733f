// kilnctl stats
#include "absl/strings/str_cat.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/table.h"

namespace kiln {
namespace {

void AddRow(const std::string& name, const v1::Counters& c, Table* table) {
  const auto n = [](uint64_t value) { return absl::StrCat(value); };
  table->Add({name, n(c.lookups()), n(c.hits()), n(c.misses()), n(c.compiles()), n(c.joined()), n(c.failures()),
              n(c.kernels()), n(c.kernel_hits()), Seconds(c.seconds_spent()), Seconds(c.seconds_saved()),
              Bytes(c.bytes_sent())});
}

void PrintStats(const v1::StatsReply& s, Cli& cli) {
  using enum Table::Align;
  Table table({{"JOB"},
               {"LOOKUPS", kRight},
               {"HITS", kRight},
               {"MISSES", kRight},
               {"COMPILES", kRight},
               {"JOINED", kRight},
               {"FAILURES", kRight},
               {"KERNELS", kRight},
               {"KERNEL HITS", kRight},
               {"SPENT", kRight},
               {"SAVED", kRight},
               {"SENT", kRight}});
  for (const v1::StatsReply::Job& job : s.jobs()) AddRow(job.job(), job.counters(), &table);
  AddRow("all", s.totals(), &table);
  cli.out << table.Text(cli.terminal) << "\n"
          << "cache      " << s.entries() << " entries, " << s.negative() << " negative, " << s.blobs() << " blobs, "
          << Bytes(s.bytes()) << " of " << (s.byte_cap() == 0 ? "any" : Bytes(s.byte_cap())) << "\n"
          << "lost       " << s.evictions() << " evicted, " << s.corrupt() << " corrupt\n"
          << "workers    " << s.worker_restarts() << " restarted\n";
}

void Run(Cli& cli) {
  v1::StatsReply reply;
  if (!cli.Call(&v1::Admin::Stub::GetStats, v1::StatsRequest(), &reply)) return;
  cli.json ? cli.PrintJson(reply) : PrintStats(reply, cli);
}

}  // namespace

void AddStats(CLI::App& app, Cli& cli) {
  app.add_subcommand("stats", "what was served since the daemon's start, in all and by job")->callback([&cli] {
    Run(cli);
  });
}

}  // namespace kiln
