// The service that training jobs talk to: validate, look up, join or compile, hand out blobs.
#pragma once

#include <string>
#include <vector>

#include "cache/singleflight.h"
#include "cache/store.h"
#include "proto/config.pb.h"
#include "proto/service.grpc.pb.h"
#include "server/action_cache.h"
#include "server/admission.h"
#include "server/bounded_service.h"
#include "server/cancel_watch.h"
#include "server/compile_flow.h"
#include "server/generalizations.h"
#include "server/rpc_call.h"
#include "server/stats.h"

namespace kiln {

struct CompileServiceOptions {
  RpcServices rpc;
  CompileServices compile;
  Store* store = nullptr;
  SingleFlight* actions = nullptr;  // one key, one compile at a time
  Stats* stats = nullptr;
  CancelWatch* watch = nullptr;
  v1::Config::Limits limits;
  std::vector<std::string> targets;
};

// Thread-safe. Every call holds a thread of gRPC's until it ends.
class CompileService final : public BoundedService {
 public:
  // What the options point to outlives the service.
  explicit CompileService(CompileServiceOptions options);

  grpc::Status GetCapabilities(grpc::ServerContext* context, const v1::CapabilitiesRequest* request,
                               v1::Capabilities* reply);
  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request, v1::LookupReply* reply);
  grpc::Status Compile(grpc::ServerContext* context, const v1::CompileRequest* request,
                       grpc::ServerWriter<v1::CompileEvent>* writer);
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::Chunk>* writer);
  grpc::Status PutCallSpec(grpc::ServerContext* context, const v1::PutCallSpecRequest* request,
                           v1::PutCallSpecReply* reply);

  uint32_t compiles_in_flight() const { return static_cast<uint32_t>(queue_.inside()); }

 private:
  // A checked request with its key.
  struct Keyed {
    v1::CompileRequest canonical;
    KeyParts parts;
    Key key;
  };
  struct Stream;  // one Compile call

  absl::Status Check(const v1::CompileRequest& request) const;
  absl::StatusOr<Keyed> Admit(const v1::CompileRequest& request) const;
  absl::Status DoLookup(RpcCall& call, const v1::LookupRequest& request, v1::LookupReply* reply);
  void LookupAction(RpcCall& call, const Key& key, v1::LookupReply* reply);
  void LookupVariant(RpcCall& call, const Key& key, const v1::LookupRequest& request, v1::LookupReply* reply);
  absl::Status DoCompile(RpcCall& call, grpc::ServerContext* context, const v1::CompileRequest& request,
                         grpc::ServerWriter<v1::CompileEvent>* writer);
  absl::Status CompileMissing(RpcCall& call, grpc::ServerContext* context, Keyed keyed, Stream& stream);
  absl::StatusOr<std::string> Lead(SingleFlight::Lead& lead, const CompileTask& task, v1::Counters* counters);
  absl::Status Remember(const CompileTask& task, absl::Status failure);
  absl::Status DoFetch(RpcCall& call, const v1::FetchRequest& request, grpc::ServerWriter<v1::Chunk>* writer);
  absl::Status DoPutCallSpec(RpcCall& call, const v1::PutCallSpecRequest& request, v1::PutCallSpecReply* reply);
  absl::StatusOr<v1::Variant> CheckedVariant(RpcCall& call, const v1::PutCallSpecRequest& request);

  const CompileServiceOptions options_;
  Gate queue_;    // compiles
  Gate waiters_;  // calls that compile or wait for another's compile
  Generalizations generalizations_;
};

}  // namespace kiln
