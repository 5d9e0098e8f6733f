// All parts of a running kilnd, put together in order and taken apart in the reverse one.
#pragma once

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/claims.h"
#include "cache/clock.h"
#include "cache/mutex.h"
#include "cache/singleflight.h"
#include "cache/store_options.h"
#include "proto/admin.pb.h"
#include "proto/config.pb.h"
#include "server/action_cache.h"
#include "server/admin_service.h"
#include "server/auth.h"
#include "server/cancel_watch.h"
#include "server/compile_service.h"
#include "server/cuda_tools.h"
#include "server/lazy_worker_pool.h"
#include "server/lifecycle.h"
#include "server/logging.h"
#include "server/metrics.h"
#include "server/open_store.h"
#include "server/stats.h"
#include "server/unix_listener.h"
#include "server/worker_pool.h"

namespace kiln {

struct DaemonOptions {
  v1::Config config;  // completed (config.h); `listen` and `data_dir` are set
  std::string build;
  std::string worker_program;  // see WorkerCommand
  std::vector<std::string> targets;
  std::function<std::vector<std::string>(const std::string& target)> assemble_for;  // see Compiler (kilnd_main.h)
  CudaTools cuda;
  std::vector<v1::OpInfo> ops;
  Clock* clock = Clock::Real();
  PublishHook publish_hook = nullptr;
  absl::Duration store_patience = absl::Seconds(5);  // see OpenStore
  Logger log;
};

class Daemon {
 public:
  // Serving when it returns. Errors say which part could not start, and nothing is left behind.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(DaemonOptions options);

  // Accepts nothing more, cancels the calls that are still there, ends the workers, closes the store.
  ~Daemon();

  // What is listened on, ports chosen by the kernel filled in.
  const std::vector<std::string>& addresses() const { return addresses_; }
  int metrics_port() const { return metrics_server_ ? metrics_server_->port() : 0; }

  // To be told to leave from another thread: RequestExit.
  Lifecycle& life() { return life_; }

  // Until it is told to leave, or idle for idle_exit_seconds; then drains for up to drain_seconds. False if there were
  // still compiles in flight after that.
  bool Run();

 private:
  using Listeners = std::vector<std::unique_ptr<UnixListener>>;
  static absl::StatusOr<Listeners> BindSockets(const v1::Config& config);

  Daemon(DaemonOptions options, Listeners listeners);
  absl::Status StartWorkers();
  absl::Status StartServices();
  absl::Status StartMetrics();
  void MaintainLoop();

  const DaemonOptions options_;
  Metrics metrics_;
  Stats stats_;
  const Auth auth_;
  Lifecycle life_;
  RequestMemory request_memory_;
  OpenedStore store_;
  ActionCache cache_;
  std::unique_ptr<Claims> claims_;
  SingleFlight action_flights_;
  SingleFlight kernel_flights_;
  CancelWatch watch_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<LazyWorkerPool> assemblers_;
  std::unique_ptr<CompileService> compile_service_;
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<grpc::Server> server_;
  Listeners listeners_;
  std::unique_ptr<MetricsServer> metrics_server_;
  std::vector<std::string> addresses_;
  bool delivers_ = false;  // compiles ended while the daemon was draining

  Mutex mu_;
  CondVar stop_changed_;
  bool stop_maintaining_ ABSL_GUARDED_BY(mu_) = false;
  std::thread maintainer_;
};

}  // namespace kiln
