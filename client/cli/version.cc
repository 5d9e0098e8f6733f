// kilnctl version
#include "client/local/version.h"

#include <grpcpp/grpcpp.h>

#include "client/cli/cli.h"
#include "compiler/artifact/abi.h"

namespace kiln {
namespace {

void Run(Cli& cli) {
  v1::StatusReply server;
  bool reached = false;
  // A server that is not there is no failure of this verb.
  if (const std::shared_ptr<grpc::Channel> channel = cli.Connect()) {
    grpc::ClientContext context;
    cli.SetDeadline(&context);
    reached = v1::Admin::NewStub(channel)->GetStatus(&context, {}, &server).ok();
  }
  cli.status = kOk;
  if (cli.json) {
    cli.out << "{\"version\":" << JsonString(kVersion) << ",\"protocol_version\":" << kProtocolVersion
            << ",\"server\":";
    if (reached) {
      cli.out << "{\"version\":" << JsonString(server.version())
              << ",\"protocol_version\":" << server.protocol_version() << ",\"build\":" << JsonString(server.build())
              << "}}\n";
    } else {
      cli.out << "null}\n";
    }
    return;
  }
  cli.out << "kilnctl  " << kVersion << ", protocol " << kProtocolVersion << "\n";
  if (reached) {
    cli.out << "kilnd    " << server.version() << ", protocol " << server.protocol_version() << ", build "
            << server.build() << "\n";
  } else {
    cli.out << "kilnd    cannot be reached\n";
  }
}

}  // namespace

void AddVersion(CLI::App& app, Cli& cli) {
  app.add_subcommand("version", "this program's version and the server's")->callback([&cli] { Run(cli); });
}

}  // namespace kiln
