// What every RPC does alike: who asks, the request id, the log line, the metrics, the status.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cache/clock.h"
#include "cache/context.h"
#include "proto/compile.pb.h"
#include "server/admission.h"
#include "server/auth.h"
#include "server/lifecycle.h"
#include "server/logging.h"
#include "server/metrics.h"

namespace kiln {

// The same code and message; a wait that the status carries becomes gRPC's push-back, in the trailing metadata.
grpc::Status ToGrpc(const absl::Status& status, grpc::ServerContext* context);

// All outlive the calls.
struct RpcServices {
  const Auth* auth = nullptr;
  Lifecycle* life = nullptr;
  Metrics* metrics = nullptr;
  RequestMemory* memory = nullptr;
  Clock* clock = nullptr;
  Logger log;
};

// Lives as long as the handler. Keeps the daemon from idling.
class RpcCall {
 public:
  RpcCall(const RpcServices& services, grpc::ServerContext* context, const char* method, const v1::JobInfo& job = {});

  absl::Status Authorize(Role role) const { return Auth::Check(principal_, role); }

  // Writes the log line (info; warn where the fault may be ours) and counts.
  grpc::Status Finish(const absl::Status& status);
  // For the log line: "hit ab12…".
  void Note(const std::string& note) { note_ = note; }

  const Principal& principal() const { return principal_; }
  const std::string& job() const { return job_; }
  const Logger& log() const { return log_; }
  absl::Duration elapsed() const { return services_.clock->Now() - started_; }

  // Up to the client's deadline.
  RequestContext MakeContext() const;

 private:
  const RpcServices& services_;
  grpc::ServerContext* const context_;
  const char* const method_;
  const absl::Time started_;
  const Lifecycle::Scope scope_;
  const Principal principal_;
  const std::string job_;
  const std::string request_id_;
  const Logger log_;
  std::string note_;
};

}  // namespace kiln
