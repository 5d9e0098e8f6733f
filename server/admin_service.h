// The service that kilnctl talks to: reads what the other parts know, removes entries, drains.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cache/store.h"
#include "proto/admin.grpc.pb.h"
#include "server/bounded_service.h"
#include "server/compile_service.h"
#include "server/lazy_worker_pool.h"
#include "server/metrics.h"
#include "server/rpc_call.h"
#include "server/stats.h"
#include "server/worker_pool.h"

namespace kiln {

struct AdminServiceOptions {
  RpcServices rpc;
  Store* store = nullptr;
  Stats* stats = nullptr;
  WorkerPool* pool = nullptr;
  LazyWorkerPool* assemblers = nullptr;
  const CompileService* compiles = nullptr;
  std::string build;
  std::string data_dir;  // empty: the cache is in memory
  std::vector<std::string> targets;
  std::vector<v1::OpInfo> ops;
  absl::Time started;
};

// Thread-safe. Reading verbs need the reader's role; RemoveEntries and Drain the admin's.
class AdminService final : public BoundedService {
 public:
  // What the options point to outlives the service.
  explicit AdminService(AdminServiceOptions options);

  // Told once they are known, before the first call.
  void SetAddresses(std::vector<std::string> addresses) { addresses_ = std::move(addresses); }

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::StatusRequest* request, v1::StatusReply* reply);
  grpc::Status GetStats(grpc::ServerContext* context, const v1::StatsRequest* request, v1::StatsReply* reply);
  grpc::Status ListEntries(grpc::ServerContext* context, const v1::ListEntriesRequest* request,
                           v1::ListEntriesReply* reply);
  grpc::Status InspectEntry(grpc::ServerContext* context, const v1::InspectEntryRequest* request,
                            v1::InspectEntryReply* reply);
  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request, v1::ExplainReply* reply);
  grpc::Status RemoveEntries(grpc::ServerContext* context, const v1::RemoveEntriesRequest* request,
                             v1::RemoveEntriesReply* reply);
  grpc::Status ListOps(grpc::ServerContext* context, const v1::ListOpsRequest* request, v1::ListOpsReply* reply);
  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest* request, v1::DrainReply* reply);

  // The daemon as it is, for the metrics too. Without the store's numbers if it is in trouble.
  Snapshot TakeSnapshot() const;

 private:
  std::vector<const WorkerPool*> Pools() const;  // those that have started
  void FillStatus(v1::StatusReply* reply) const;
  absl::Status FillStats(const RequestContext& ctx, v1::StatsReply* reply) const;

  const AdminServiceOptions options_;
  std::vector<std::string> addresses_;
};

}  // namespace kiln
