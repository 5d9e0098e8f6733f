// kilnctl drain
#include "client/cli/cli.h"

namespace kiln {
namespace {

void Run(Cli& cli) {
  v1::DrainReply reply;
  if (!cli.Call(&v1::Admin::Stub::Drain, v1::DrainRequest(), &reply)) return;
  if (reply.in_flight() > 0) cli.status = kFailed;
  if (cli.json) return cli.PrintJson(reply);
  if (reply.in_flight() == 0) {
    cli.out << "drained: no compile is in flight, none is begun\n";
  } else {
    cli.out << "draining: " << reply.in_flight() << " compiles are still in flight\n";
  }
}

}  // namespace

void AddDrain(CLI::App& app, Cli& cli) {
  app.add_subcommand("drain", "begin no compile; wait, up to --timeout, for those in flight")->callback([&cli] {
    Run(cli);
  });
}

}  // namespace kiln
