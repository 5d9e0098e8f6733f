#include "server/admin_service.h"

#include <unistd.h>

#include "client/local/version.h"
#include "compiler/artifact/abi.h"
#include "server/entries.h"
#include "server/explain_entry.h"

namespace kiln {
namespace {

constexpr absl::Duration kTimeToAnswer = absl::Milliseconds(250);

}  // namespace

AdminService::AdminService(AdminServiceOptions options) : BoundedService(options.rpc), options_(std::move(options)) {
  AddUnary("/kiln.v1.Admin/GetStatus", &AdminService::GetStatus);
  AddUnary("/kiln.v1.Admin/GetStats", &AdminService::GetStats);
  AddUnary("/kiln.v1.Admin/ListEntries", &AdminService::ListEntries);
  AddUnary("/kiln.v1.Admin/InspectEntry", &AdminService::InspectEntry);
  AddUnary("/kiln.v1.Admin/Explain", &AdminService::Explain);
  AddUnary("/kiln.v1.Admin/RemoveEntries", &AdminService::RemoveEntries);
  AddUnary("/kiln.v1.Admin/ListOps", &AdminService::ListOps);
  AddUnary("/kiln.v1.Admin/Drain", &AdminService::Drain);
}

grpc::Status AdminService::GetStatus(grpc::ServerContext* context, const v1::StatusRequest*, v1::StatusReply* reply) {
  RpcCall call(options_.rpc, context, "GetStatus");
  const absl::Status status = call.Authorize(Role::kReader);
  if (status.ok()) FillStatus(reply);
  return call.Finish(status);
}

std::vector<const WorkerPool*> AdminService::Pools() const {
  std::vector<const WorkerPool*> pools = {options_.pool};
  if (const WorkerPool* assemblers = options_.assemblers->started()) pools.push_back(assemblers);
  return pools;
}

void AdminService::FillStatus(v1::StatusReply* reply) const {
  reply->set_pid(getpid());
  reply->set_build(options_.build);
  reply->set_version(kVersion);
  reply->set_protocol_version(kProtocolVersion);
  reply->set_uptime_seconds(absl::ToDoubleSeconds(options_.rpc.clock->Now() - options_.started));
  reply->set_state(std::string(options_.rpc.life->StateName()));
  size_t queued = 0;
  for (const WorkerPool* pool : Pools()) {
    for (v1::WorkerStatus& worker : pool->Workers()) *reply->add_workers() = std::move(worker);
    queued += pool->queued();
  }
  reply->set_queued(static_cast<uint32_t>(queued));
  reply->set_running(options_.compiles->compiles_in_flight());
  *reply->mutable_addresses() = {addresses_.begin(), addresses_.end()};
  reply->set_data_dir(options_.data_dir);
  *reply->mutable_targets() = {options_.targets.begin(), options_.targets.end()};
}

grpc::Status AdminService::GetStats(grpc::ServerContext* context, const v1::StatsRequest*, v1::StatsReply* reply) {
  RpcCall call(options_.rpc, context, "GetStats");
  absl::Status status = call.Authorize(Role::kReader);
  if (status.ok()) status = FillStats(call.MakeContext(), reply);
  return call.Finish(status);
}

absl::Status AdminService::FillStats(const RequestContext& ctx, v1::StatsReply* reply) const {
  options_.stats->Fill(reply);
  uint64_t restarts = 0;
  for (const WorkerPool* pool : Pools()) restarts += pool->restarts();
  reply->set_worker_restarts(restarts);
  const absl::StatusOr<StoreStats> stats = options_.store->Stats(ctx);
  if (!stats.ok()) return stats.status();
  const auto records = [&](Table table) {
    const auto it = stats->records.find(table);
    return it == stats->records.end() ? uint64_t{0} : it->second;
  };
  reply->set_entries(records(Table::kActions));
  reply->set_negative(records(Table::kNegative));
  reply->set_blobs(stats->blobs);
  reply->set_bytes(stats->bytes);
  reply->set_byte_cap(stats->max_bytes);
  reply->set_evictions(stats->evicted);
  reply->set_corrupt(stats->corrupt);
  return absl::OkStatus();
}

grpc::Status AdminService::ListEntries(grpc::ServerContext* context, const v1::ListEntriesRequest* request,
                                       v1::ListEntriesReply* reply) {
  RpcCall call(options_.rpc, context, "ListEntries");
  if (absl::Status s = call.Authorize(Role::kReader); !s.ok()) return call.Finish(s);
  absl::StatusOr<v1::ListEntriesReply> entries =
      kiln::ListEntries(*options_.store, call.MakeContext(), request->negative(), request->limit());
  if (entries.ok()) *reply = *std::move(entries);
  return call.Finish(entries.status());
}

grpc::Status AdminService::InspectEntry(grpc::ServerContext* context, const v1::InspectEntryRequest* request,
                                        v1::InspectEntryReply* reply) {
  RpcCall call(options_.rpc, context, "InspectEntry");
  if (absl::Status s = call.Authorize(Role::kReader); !s.ok()) return call.Finish(s);
  absl::StatusOr<v1::InspectEntryReply> entry =
      kiln::InspectEntry(*options_.store, call.MakeContext(), request->key_prefix());
  if (entry.ok()) *reply = *std::move(entry);
  return call.Finish(entry.status());
}

grpc::Status AdminService::Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                                   v1::ExplainReply* reply) {
  RpcCall call(options_.rpc, context, "Explain");
  if (absl::Status s = call.Authorize(Role::kReader); !s.ok()) return call.Finish(s);
  absl::StatusOr<v1::ExplainReply> why = ExplainEntry(*options_.store, call.MakeContext(), *request);
  if (why.ok()) *reply = *std::move(why);
  return call.Finish(why.status());
}

grpc::Status AdminService::RemoveEntries(grpc::ServerContext* context, const v1::RemoveEntriesRequest* request,
                                         v1::RemoveEntriesReply* reply) {
  RpcCall call(options_.rpc, context, "RemoveEntries");
  if (absl::Status s = call.Authorize(Role::kAdmin); !s.ok()) return call.Finish(s);
  const absl::StatusOr<uint64_t> removed = kiln::RemoveEntries(*options_.store, call.MakeContext(), *request);
  if (removed.ok()) reply->set_removed(*removed);
  return call.Finish(removed.status());
}

grpc::Status AdminService::ListOps(grpc::ServerContext* context, const v1::ListOpsRequest*, v1::ListOpsReply* reply) {
  RpcCall call(options_.rpc, context, "ListOps");
  const absl::Status status = call.Authorize(Role::kReader);
  if (status.ok()) *reply->mutable_ops() = {options_.ops.begin(), options_.ops.end()};
  return call.Finish(status);
}

grpc::Status AdminService::Drain(grpc::ServerContext* context, const v1::DrainRequest*, v1::DrainReply* reply) {
  RpcCall call(options_.rpc, context, "Drain");
  if (absl::Status s = call.Authorize(Role::kAdmin); !s.ok()) return call.Finish(s);
  call.log()->info("draining, as {} asks", call.principal().name);
  options_.rpc.life->Drain();
  options_.rpc.life->WaitForCompiles(absl::FromChrono(context->deadline()) - kTimeToAnswer,
                                     [context] { return context->IsCancelled(); });
  reply->set_in_flight(static_cast<uint32_t>(options_.rpc.life->compiles_in_flight()));
  return call.Finish(absl::OkStatus());
}

Snapshot AdminService::TakeSnapshot() const {
  Snapshot now;
  FillStatus(&now.status);
  FillStats(RequestContext(), &now.stats).IgnoreError();
  return now;
}

}  // namespace kiln
