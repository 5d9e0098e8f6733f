#include "server/daemon.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "cache/memory_claims.h"
#include "client/local/version.h"
#include "server/wire.h"

namespace kiln {
namespace {

constexpr char kUnixScheme[] = "unix:";
constexpr absl::Duration kMaintenance = absl::Minutes(1);
constexpr absl::Duration kTimeToFinish = absl::Seconds(2);  // for calls that are no compiles
constexpr std::chrono::milliseconds kTimeToFlush(100);      // for their last bytes
constexpr std::chrono::milliseconds kTimeToDeliver(2000);   // likewise, where there may be artifacts among them
constexpr int kKeepaliveMs = 30'000;
constexpr int kMinClientPingMs = 5'000;  // clients may look after their connections too
constexpr int kMaxPollers = 4;
// Each call that waits for a compile holds a thread; compile_service.h bounds those.
constexpr int kThreadsPerCompile = 16;
constexpr int kThreadsBesides = 256;

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// gRPC's plugins are registered once for the process.
void InitGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Never undone: the library's own shutdown, at the end of the last server, can take ten seconds.
    grpc_init();
    // Debian's Abseil looks for cycles of locks at each lock of gRPC's, under one lock of its own.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

void SetLimits(const v1::Config& config, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(config.limits().message_bytes()));
  builder->SetMaxSendMessageSize(-1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, kMaxPollers);
  grpc::ResourceQuota quota("kilnd");
  quota.SetMaxThreads(kThreadsPerCompile * static_cast<int>(config.limits().queue()) + kThreadsBesides);
  builder->SetResourceQuota(quota);
  // A client whose host vanished is noticed, and what only it waits for is given up.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinClientPingMs);
  // Two daemons on one port would each get a part of the clients.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

}  // namespace

Daemon::Daemon(DaemonOptions options, Listeners listeners)
    : options_(std::move(options)),
      metrics_(options_.build, kVersion),
      auth_(options_.config.auth()),
      life_(options_.clock),
      request_memory_(options_.config.limits().memory_bytes()),
      store_(OpenStore(options_.config.data_dir(), options_.config.cache(), options_.clock, &metrics_,
                       options_.publish_hook, options_.store_patience, options_.log)),
      cache_(store_.store.get(), &metrics_, options_.clock,
             absl::Seconds(options_.config.cache().negative_ttl_seconds()), options_.log),
      claims_(std::make_unique<MemoryClaims>(options_.clock)),
      action_flights_({.owner = "actions"}, claims_.get(), options_.clock),
      kernel_flights_({.owner = "kernels"}, claims_.get(), options_.clock),
      listeners_(std::move(listeners)) {}

absl::StatusOr<Daemon::Listeners> Daemon::BindSockets(const v1::Config& config) {
  Listeners out;
  for (const std::string& address : config.listen()) {
    if (!absl::StartsWith(address, kUnixScheme)) continue;
    absl::StatusOr<std::unique_ptr<UnixListener>> listener = UnixListener::Bind(
        std::string(absl::StripPrefix(address, kUnixScheme)), static_cast<mode_t>(config.socket_mode()));
    if (!listener.ok()) return listener.status();
    out.push_back(*std::move(listener));
  }
  return out;
}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options) {
  InitGrpc();
  // First of all: where another daemon serves already, this one is not to touch the cache.
  absl::StatusOr<Listeners> listeners = BindSockets(options.config);
  if (!listeners.ok()) return listeners.status();
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(options), *std::move(listeners)));
  absl::Status status = daemon->StartWorkers();
  if (status.ok()) status = daemon->StartServices();
  if (status.ok()) status = daemon->StartMetrics();
  if (!status.ok()) return status;
  daemon->maintainer_ = std::thread([d = daemon.get()] { d->MaintainLoop(); });
  for (const std::string& address : daemon->addresses_) daemon->options_.log->info("listening on {}", address);
  return daemon;
}

absl::Status Daemon::StartWorkers() {
  const v1::Config::Workers& config = options_.config.workers();
  WorkerPoolOptions pool;
  pool.count = config.count();
  pool.command = {options_.worker_program, config.memory_mib() << 20};
  pool.job_limit = absl::Seconds(config.job_seconds());
  pool.jobs_per_worker = config.jobs_per_worker();
  WorkerPoolOptions assemblers = pool;
  assemblers.command.assembles = true;
  assemblers_ = std::make_unique<LazyWorkerPool>(std::move(assemblers), options_.log);
  absl::StatusOr<std::unique_ptr<WorkerPool>> started = WorkerPool::Start(std::move(pool), options_.log);
  if (!started.ok()) return started.status();
  pool_ = *std::move(started);
  return absl::OkStatus();
}

absl::Status Daemon::StartServices() {
  const RpcServices rpc{&auth_, &life_, &metrics_, &request_memory_, options_.clock, options_.log};
  compile_service_ =
      std::make_unique<CompileService>(CompileServiceOptions{.rpc = rpc,
                                                             .compile = {.cache = &cache_,
                                                                         .pool = pool_.get(),
                                                                         .assemblers = assemblers_.get(),
                                                                         .assemble_for = options_.assemble_for,
                                                                         .cuda = &options_.cuda,
                                                                         .kernels = &kernel_flights_,
                                                                         .metrics = &metrics_,
                                                                         .clock = options_.clock,
                                                                         .build = options_.build,
                                                                         .host = HostName()},
                                                             .store = store_.store.get(),
                                                             .actions = &action_flights_,
                                                             .stats = &stats_,
                                                             .watch = &watch_,
                                                             .limits = options_.config.limits(),
                                                             .targets = options_.targets});
  admin_service_ = std::make_unique<AdminService>(AdminServiceOptions{.rpc = rpc,
                                                                      .store = store_.store.get(),
                                                                      .stats = &stats_,
                                                                      .pool = pool_.get(),
                                                                      .assemblers = assemblers_.get(),
                                                                      .compiles = compile_service_.get(),
                                                                      .build = options_.build,
                                                                      .data_dir = store_.dir,
                                                                      .targets = options_.targets,
                                                                      .ops = options_.ops,
                                                                      .started = options_.clock->Now()});
  grpc::ServerBuilder builder;
  SetLimits(options_.config, &builder);
  builder.RegisterService(compile_service_.get());
  builder.RegisterService(admin_service_.get());
  std::vector<int> ports(static_cast<size_t>(options_.config.listen_size()), 0);
  for (int i = 0; i < options_.config.listen_size(); ++i) {
    const std::string& address = options_.config.listen(i);
    if (absl::StartsWith(address, kUnixScheme)) continue;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &ports[static_cast<size_t>(i)]);
  }
  server_ = builder.BuildAndStart();
  for (int i = 0; i < options_.config.listen_size(); ++i) {
    const std::string& address = options_.config.listen(i);
    const bool is_unix = absl::StartsWith(address, kUnixScheme);
    const int port = ports[static_cast<size_t>(i)];
    if (!is_unix && (server_ == nullptr || port == 0)) {
      return absl::UnavailableError(absl::StrCat("listen: cannot listen on ", address));
    }
    addresses_.push_back(is_unix ? address : absl::StrCat(address.substr(0, address.rfind(':')), ":", port));
  }
  if (server_ == nullptr) return absl::UnavailableError("the gRPC server did not start");
  admin_service_->SetAddresses(addresses_);
  life_.SetOnDrain([this] { server_->GetHealthCheckService()->SetServingStatus(false); });
  for (const std::unique_ptr<UnixListener>& listener : listeners_) listener->Serve(server_.get());
  return absl::OkStatus();
}

absl::Status Daemon::StartMetrics() {
  if (options_.config.metrics_listen().empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<MetricsServer>> started = MetricsServer::Start(
      options_.config.metrics_listen(), metrics_, [this] { return admin_service_->TakeSnapshot(); });
  if (!started.ok()) return started.status();
  metrics_server_ = *std::move(started);
  options_.log->info("metrics on port {}", metrics_server_->port());
  return absl::OkStatus();
}

void Daemon::MaintainLoop() {
  MutexLock lock(&mu_);
  while (!stop_maintaining_) {
    stop_changed_.WaitFor(&mu_, kMaintenance);
    if (stop_maintaining_) return;
    mu_.Unlock();
    const absl::Status status = store_.store->Maintain(RequestContext());
    if (!status.ok()) options_.log->warn("cache maintenance: {}", OneLine(status.ToString()));
    mu_.Lock();
  }
}

bool Daemon::Run() {
  life_.WaitForExit(absl::Seconds(options_.config.idle_exit_seconds()));
  life_.Drain();
  const int64_t in_flight = life_.compiles_in_flight();
  if (in_flight > 0) options_.log->info("draining: {} compiles in flight", in_flight);
  delivers_ = in_flight > 0;
  return life_.WaitForCompiles(options_.clock->Now() + absl::Seconds(options_.config.drain_seconds()));
}

Daemon::~Daemon() {
  {
    MutexLock lock(&mu_);
    stop_maintaining_ = true;
    stop_changed_.NotifyAll();
  }
  if (maintainer_.joinable()) maintainer_.join();
  listeners_.clear();
  if (server_ != nullptr) {
    // gRPC would wait for clients to close their connections, which idle ones don't. What is still running after this
    // is cancelled, which the watch turns into the end of its jobs.
    life_.WaitForCalls(options_.clock->Now() + kTimeToFinish);
    server_->Shutdown(std::chrono::system_clock::now() + (delivers_ ? kTimeToDeliver : kTimeToFlush));
    server_->Wait();
  }
  metrics_server_.reset();
  server_.reset();
}

}  // namespace kiln
