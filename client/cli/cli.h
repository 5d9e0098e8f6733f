// What every verb of kilnctl works with.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <CLI/App.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "client/cli/json.h"
#include "proto/admin.grpc.pb.h"

namespace kiln {

enum ExitStatus { kOk = 0, kFailed = 1, kUsage = 2, kUnreachable = 3 };

struct Cli {
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;  // `out` is one: colour and progress are welcome
  // Set by the global flags.
  std::string server = {};  // "unix:/path" or "host:port"; empty: the local daemon
  bool json = false;
  double timeout_seconds = 30;
  int status = kOk;  // of the verb that ran

  // A channel to the server; null, with a message on `err` and status kUnreachable, where there is no address.
  std::shared_ptr<grpc::Channel> Connect();

  // The flag's deadline.
  void SetDeadline(grpc::ClientContext* context) const;

  // What a call's failure means: writes it to `err`, sets `status`, returns false. True for OK.
  bool Check(const grpc::Status& call);

  // One call to the admin service. False if it failed; then all is said.
  template <typename Request, typename Reply>
  bool Call(grpc::Status (v1::Admin::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
            const Request& request, Reply* reply) {
    const std::shared_ptr<grpc::Channel> channel = Connect();
    if (channel == nullptr) return false;
    grpc::ClientContext context;
    SetDeadline(&context);
    return Check((*v1::Admin::NewStub(channel).*method)(&context, request, reply));
  }

  void PrintJson(const google::protobuf::Message& message) { out << ToJson(message) << "\n"; }
};

// One verb each: adds a subcommand to `app` which runs when the line is parsed. `cli` outlives the app.
void AddStatus(CLI::App& app, Cli& cli);
void AddStats(CLI::App& app, Cli& cli);
void AddCacheLs(CLI::App& cache, Cli& cli);
void AddCacheInspect(CLI::App& cache, Cli& cli);
void AddCacheRm(CLI::App& cache, Cli& cli);
void AddExplain(CLI::App& app, Cli& cli);
void AddOps(CLI::App& app, Cli& cli);
void AddVersion(CLI::App& app, Cli& cli);
void AddDrain(CLI::App& app, Cli& cli);
void AddPrewarm(CLI::App& app, Cli& cli);

// kilnctl itself, but for the streams. The exit status.
int RunKilnctl(int argc, const char* const* argv, std::ostream& out, std::ostream& err, bool terminal);

}  // namespace kiln
