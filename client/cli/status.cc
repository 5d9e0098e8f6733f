// kilnctl status
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/table.h"

namespace kiln {
namespace {

void PrintStatus(const v1::StatusReply& s, Cli& cli) {
  cli.out << "kilnd " << s.version() << ", build " << s.build() << ", protocol " << s.protocol_version() << "\n"
          << "state      " << s.state() << ", up " << Seconds(s.uptime_seconds()) << ", pid " << s.pid() << "\n"
          << "addresses  " << absl::StrJoin(s.addresses(), ", ") << "\n"
          << "cache      " << (s.data_dir().empty() ? "in memory only" : s.data_dir()) << "\n"
          << "targets    " << absl::StrJoin(s.targets(), ", ") << "\n"
          << "load       " << s.running() << " compiles running, " << s.queued() << " jobs waiting\n\n";
  using enum Table::Align;
  Table table({{"WORKER", kRight}, {"STATE"}, {"JOB"}, {"FOR", kRight}, {"JOBS DONE", kRight}});
  for (const v1::WorkerStatus& w : s.workers()) {
    const bool busy = w.state() == "busy";
    table.Add({w.pid() == 0 ? "-" : absl::StrCat(w.pid()), w.state(), busy ? w.job() : "-",
               busy ? Seconds(w.job_seconds()) : "-", absl::StrCat(w.jobs_done())});
  }
  cli.out << table.Text(cli.terminal);
}

void Run(Cli& cli) {
  v1::StatusReply reply;
  if (!cli.Call(&v1::Admin::Stub::GetStatus, v1::StatusRequest(), &reply)) return;
  cli.json ? cli.PrintJson(reply) : PrintStatus(reply, cli);
}

}  // namespace

void AddStatus(CLI::App& app, Cli& cli) {
  app.add_subcommand("status", "workers with their pids, queue, build")->callback([&cli] { Run(cli); });
}

}  // namespace kiln
