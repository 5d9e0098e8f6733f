// kilnctl ops
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/table.h"

namespace kiln {
namespace {

void Run(Cli& cli) {
  v1::ListOpsReply reply;
  if (!cli.Call(&v1::Admin::Stub::ListOps, v1::ListOpsRequest(), &reply)) return;
  if (cli.json) return cli.PrintJson(reply);
  Table table({{"OP"}, {"KIND"}, {"GRADIENT"}, {"TORCH"}});
  for (const v1::OpInfo& op : reply.ops()) {
    table.Add({op.name(), op.kind(), op.gradient(), absl::StrJoin(op.torch(), ", ")});
  }
  cli.out << table.Text(cli.terminal);
}

}  // namespace

void AddOps(CLI::App& app, Cli& cli) {
  app.add_subcommand("ops", "the operators that the server compiles itself")->callback([&cli] { Run(cli); });
}

}  // namespace kiln
