#include "server/compile_service.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/abi.h"
#include "compiler/artifact/call_spec.h"
#include "server/request_key.h"
#include "server/status.h"
#include "server/wire.h"

namespace kiln {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
constexpr uint32_t kWaitersPerCompile = 16;
constexpr size_t kShownKeyDigits = 12;
constexpr size_t kMaxVariantBytes = 1 << 20;

std::string Shown(const Key& key) { return key.Hex().substr(0, kShownKeyDigits); }

uint64_t InlineBytes(const v1::Done& done) { return done.artifact().size() + done.shared_object().size(); }

v1::Failure FailureOf(const absl::Status& status) {
  v1::Failure failure;
  failure.set_code(static_cast<int>(status.code()));
  failure.set_message(std::string(status.message()));
  failure.set_node(NodeOfStatus(status));
  failure.set_reproducer(ReproducerOf(status));
  return failure;
}

v1::Counters OneLookup(bool hit) {
  v1::Counters c;
  c.set_lookups(1);
  hit ? c.set_hits(1) : c.set_misses(1);
  return c;
}

v1::Counters HitCounters(const v1::Done& done) {
  v1::Counters c = OneLookup(true);
  c.set_seconds_saved(done.record().compile_seconds());
  c.set_bytes_sent(InlineBytes(done));
  return c;
}

}  // namespace

// The answering side of one Compile call.
struct CompileService::Stream {
  const RpcCall& call;
  grpc::ServerWriter<v1::CompileEvent>* const writer;

  // A client that has gone shows elsewhere: by the stop that CancelWatch requests.
  void Write(const v1::CompileEvent& event) { writer->Write(event); }

  void WriteDone(v1::Done done) {
    done.set_server_seconds(absl::ToDoubleSeconds(call.elapsed()));
    v1::CompileEvent event;
    *event.mutable_done() = std::move(done);
    Write(event);
  }

  void WriteFailed(v1::Failure failure) {
    v1::CompileEvent event;
    *event.mutable_failed() = std::move(failure);
    Write(event);
  }
};

CompileService::CompileService(CompileServiceOptions options)
    : BoundedService(options.rpc),
      options_(std::move(options)),
      queue_("compiles waiting or running", options_.limits.queue()),
      waiters_("requests waiting for compiles", kWaitersPerCompile * options_.limits.queue()),
      generalizations_(options_.compile.cache, options_.compile.build) {
  AddUnary("/kiln.v1.Compiler/GetCapabilities", &CompileService::GetCapabilities);
  AddUnary("/kiln.v1.Compiler/Lookup", &CompileService::Lookup);
  AddStreaming("/kiln.v1.Compiler/Compile", &CompileService::Compile);
  AddStreaming("/kiln.v1.Compiler/Fetch", &CompileService::Fetch);
  AddUnary("/kiln.v1.Compiler/PutCallSpec", &CompileService::PutCallSpec);
}

grpc::Status CompileService::GetCapabilities(grpc::ServerContext* context, const v1::CapabilitiesRequest* request,
                                             v1::Capabilities* reply) {
  RpcCall call(options_.rpc, context, "GetCapabilities");
  absl::Status status = call.Authorize(Role::kReader);
  if (status.ok()) status = CheckProtocolVersion(request->protocol_version());
  if (!status.ok()) return call.Finish(status);
  reply->set_protocol_version(kProtocolVersion);
  reply->set_build(options_.compile.build);
  *reply->mutable_targets() = {options_.targets.begin(), options_.targets.end()};
  for (const std::string_view version : TorchVersions()) reply->add_torch_versions(std::string(version));
  reply->set_kiln_abi(kKilnAbi);
  reply->set_max_message_bytes(options_.limits.message_bytes());
  reply->set_max_nodes(options_.limits.nodes());
  reply->set_max_symbols(options_.limits.symbols());
  return call.Finish(status);
}

absl::Status CompileService::Check(const v1::CompileRequest& request) const {
  if (absl::Status s = CheckRequest(request, options_.targets); !s.ok()) return s;
  return CheckBounds(request, options_.limits);
}

absl::StatusOr<CompileService::Keyed> CompileService::Admit(const v1::CompileRequest& request) const {
  if (absl::Status s = Check(request); !s.ok()) return s;
  Keyed keyed;
  keyed.canonical = CanonicalRequest(request);
  absl::StatusOr<KeyParts> parts = RequestKey(keyed.canonical, options_.compile.build);
  if (!parts.ok()) return parts.status();
  keyed.parts = *std::move(parts);
  keyed.key = keyed.parts.ToKey();
  return keyed;
}

grpc::Status CompileService::Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                                    v1::LookupReply* reply) {
  RpcCall call(options_.rpc, context, "Lookup", request->job());
  return call.Finish(DoLookup(call, *request, reply));
}

absl::Status CompileService::DoLookup(RpcCall& call, const v1::LookupRequest& request, v1::LookupReply* reply) {
  if (absl::Status s = call.Authorize(Role::kReader); !s.ok()) return s;
  if (absl::Status s = CheckProtocolVersion(request.protocol_version()); !s.ok()) return s;
  if (request.has_request_digest()) {
    v1::Digest named;
    named.set_sha256(request.request_digest());
    const absl::StatusOr<Digest> digest = FromProto(named, "request_digest");
    if (!digest.ok()) return digest.status();
    LookupVariant(call, CaptureKey(*digest, options_.compile.build), request, reply);
    return absl::OkStatus();
  }
  if (!request.has_request()) return absl::InvalidArgumentError("request, request_digest: want one of them");
  if (request.request().graph().level() == v1::Graph::TORCH) {
    if (absl::Status s = Check(request.request()); !s.ok()) return s;
    const Digest digest = Digest::Of(RequestBytes(request.request()));
    LookupVariant(call, CaptureKey(digest, options_.compile.build), request, reply);
    return absl::OkStatus();
  }
  const absl::StatusOr<Keyed> keyed = Admit(request.request());
  if (!keyed.ok()) return keyed.status();
  LookupAction(call, keyed->key, reply);
  return absl::OkStatus();
}

void CompileService::LookupAction(RpcCall& call, const Key& key, v1::LookupReply* reply) {
  const RequestContext ctx = call.MakeContext();
  reply->set_key(std::string(key.bytes()));
  if (std::optional<v1::Done> done = options_.compile.cache->LookupAction(ctx, key)) {
    options_.stats->Add(call.job(), HitCounters(*done));
    done->set_server_seconds(absl::ToDoubleSeconds(call.elapsed()));
    reply->set_hit(true);
    *reply->mutable_done() = *std::move(done);
    call.Note("hit " + Shown(key));
    return;
  }
  const std::optional<v1::Failure> failure = options_.compile.cache->LookupNegative(ctx, key);
  options_.stats->Add(call.job(), OneLookup(false));
  reply->set_reason(failure ? absl::StrCat("it failed before: ", failure->message()) : "not in the cache");
  call.Note("miss " + Shown(key));
}

// A miss is no miss of Stats: the Compile that follows is counted.
void CompileService::LookupVariant(RpcCall& call, const Key& key, const v1::LookupRequest& request,
                                   v1::LookupReply* reply) {
  reply->set_key(std::string(key.bytes()));
  const std::span hints(request.hints().data(), static_cast<size_t>(request.hints_size()));
  const RequestContext ctx = call.MakeContext();
  std::optional<v1::Variant> variant = options_.compile.cache->LookupVariant(ctx, key, hints);
  if (!variant) {
    reply->set_reason("not in the cache");
    if (request.has_request()) {
      if (auto general = generalizations_.Find(ctx, CanonicalRequest(request.request()))) {
        *reply->mutable_generalization() = *std::move(general);
      }
    }
    call.Note((reply->has_generalization() ? "generalized " : "miss ") + Shown(key));
    return;
  }
  if (!variant->refused().empty()) {
    reply->set_reason(variant->refused());
    call.Note("refused " + Shown(key));
  } else {
    reply->set_hit(true);
    v1::Done* done = reply->mutable_done();
    done->set_outcome(v1::Done::HIT);
    done->set_key(variant->record().key());
    *done->mutable_record() = std::move(*variant->mutable_record());
    if (options_.rpc.life->draining()) options_.compile.cache->InlineAll(ctx, done);
    options_.stats->Add(call.job(), HitCounters(*done));
    done->set_server_seconds(absl::ToDoubleSeconds(call.elapsed()));
    call.Note("hit " + Shown(key));
  }
  variant->clear_record();
  variant->clear_key_parts();  // for `kilnctl explain` alone
  *reply->mutable_variant() = *std::move(variant);
}

grpc::Status CompileService::Compile(grpc::ServerContext* context, const v1::CompileRequest* request,
                                     grpc::ServerWriter<v1::CompileEvent>* writer) {
  RpcCall call(options_.rpc, context, "Compile", request->job());
  return call.Finish(DoCompile(call, context, *request, writer));
}

absl::Status CompileService::DoCompile(RpcCall& call, grpc::ServerContext* context, const v1::CompileRequest& request,
                                       grpc::ServerWriter<v1::CompileEvent>* writer) {
  if (absl::Status s = call.Authorize(Role::kWriter); !s.ok()) return s;
  if (request.graph().level() == v1::Graph::TORCH) {
    return absl::InvalidArgumentError(
        "graph.level: graphs of level TORCH are looked up; what AOTAutograd makes of them is compiled");
  }
  absl::StatusOr<Keyed> keyed = Admit(request);
  if (!keyed.ok()) return keyed.status();
  Stream stream{call, writer};
  const RequestContext ctx = call.MakeContext();
  if (std::optional<v1::Done> done = options_.compile.cache->LookupAction(ctx, keyed->key)) {
    options_.stats->Add(call.job(), HitCounters(*done));
    call.Note("hit " + Shown(keyed->key));
    if (options_.rpc.life->draining()) options_.compile.cache->InlineAll(ctx, &*done);
    stream.WriteDone(*std::move(done));
    return absl::OkStatus();
  }
  if (std::optional<v1::Failure> failure = options_.compile.cache->LookupNegative(ctx, keyed->key)) {
    v1::Counters counters = OneLookup(false);
    counters.set_failures(1);
    options_.stats->Add(call.job(), counters);
    call.Note("negative " + Shown(keyed->key));
    stream.WriteFailed(*std::move(failure));
    return absl::OkStatus();
  }
  return CompileMissing(call, context, *std::move(keyed), stream);
}

absl::Status CompileService::CompileMissing(RpcCall& call, grpc::ServerContext* context, Keyed keyed, Stream& stream) {
  absl::StatusOr<Lifecycle::Scope> scope = options_.rpc.life->EnterCompile();
  if (!scope.ok()) return scope.status();
  absl::StatusOr<Gate::Ticket> waiter = waiters_.Enter();
  if (!waiter.ok()) return waiter.status();
  const CancelWatch::Watched watched(options_.watch, context);

  CompileTask task;
  task.request = std::move(keyed.canonical);
  task.parts = std::move(keyed.parts);
  task.key = keyed.key;
  task.principal = call.principal().name;
  task.job = call.job();
  task.deadline = options_.rpc.clock->Now() + absl::Seconds(options_.limits.compile_seconds());
  task.log = call.log();
  task.ctx = call.MakeContext();
  task.ctx.stop = watched.stop();
  task.ctx.deadline = std::min(task.ctx.deadline, task.deadline);

  v1::Counters counters = OneLookup(false);
  const SingleFlight::Outcome outcome = options_.actions->Run(
      task.ctx, task.key, [&](SingleFlight::Lead& lead) { return Lead(lead, task, &counters); },
      [&](const std::string& bytes) {
        v1::CompileEvent event;
        if (event.ParseFromString(bytes)) stream.Write(event);
      });
  if (outcome.joined) counters.set_joined(1);
  v1::Done done;
  absl::Status status = outcome.value.status();
  if (status.ok() && !done.ParseFromString(*outcome.value)) status = absl::InternalError("an answer without a shape");
  if (status.ok()) {
    const bool hit = done.outcome() == v1::Done::HIT;  // somebody else had published meanwhile
    if (hit) counters = HitCounters(done);
    if (outcome.joined && !hit) {
      done.set_outcome(v1::Done::JOINED);
      counters.set_seconds_saved(done.record().compile_seconds());
    }
    // This daemon may be gone before the client fetches.
    if (options_.rpc.life->draining()) options_.compile.cache->InlineAll(task.ctx, &done);
    counters.set_bytes_sent(InlineBytes(done));
    stream.WriteDone(std::move(done));
  } else if (!RetryAfter(status)) {
    counters.set_failures(1);
    stream.WriteFailed(FailureOf(status));
  }
  options_.stats->Add(call.job(), counters);
  call.Note(absl::StrCat(outcome.joined ? "joined " : "led ", Shown(task.key),
                         status.ok() ? "" : absl::StrCat(" failed: ", OneLine(std::string(status.message()), 500))));
  return RetryAfter(status) ? status : absl::OkStatus();
}

absl::StatusOr<std::string> CompileService::Lead(SingleFlight::Lead& lead, const CompileTask& task,
                                                 v1::Counters* counters) {
  // An earlier leader may have published between the look-up and now.
  if (std::optional<v1::Done> done = options_.compile.cache->LookupAction(task.ctx, task.key)) {
    return done->SerializeAsString();
  }
  const absl::StatusOr<Gate::Ticket> ticket = queue_.Enter();
  if (!ticket.ok()) return ticket.status();
  CompileFlow flow(options_.compile, task, lead);
  absl::StatusOr<v1::Done> done = flow.Run();
  AddTo(counters, flow.counters());
  counters->set_compiles(counters->compiles() + 1);
  if (!done.ok()) return Remember(task, done.status());
  return done->SerializeAsString();
}

absl::Status CompileService::Remember(const CompileTask& task, absl::Status failure) {
  // Other failures are as quick to find again as to look up, or may not happen again.
  if (!IsCrashed(failure) && !absl::IsInternal(failure)) return failure;
  SetReproducer(failure, options_.compile.cache->PublishNegative(task.ctx, task.key, FailureOf(failure),
                                                                 SerializeDeterministic(task.request)));
  task.log->error("{} failed: {} (request {})", Shown(task.key), OneLine(std::string(failure.message()), 1000),
                  ReproducerOf(failure));
  return failure;
}

grpc::Status CompileService::Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                                   grpc::ServerWriter<v1::Chunk>* writer) {
  RpcCall call(options_.rpc, context, "Fetch");
  return call.Finish(DoFetch(call, *request, writer));
}

absl::Status CompileService::DoFetch(RpcCall& call, const v1::FetchRequest& request,
                                     grpc::ServerWriter<v1::Chunk>* writer) {
  if (absl::Status s = call.Authorize(Role::kReader); !s.ok()) return s;
  const absl::StatusOr<Digest> digest = FromProto(request.digest(), "digest");
  if (!digest.ok()) return digest.status();
  const absl::StatusOr<std::string> blob = options_.store->GetBlob(call.MakeContext(), *digest);
  if (!blob.ok()) return blob.status();
  if (request.offset() > blob->size()) {
    return absl::OutOfRangeError(absl::StrCat("offset: ", request.offset(), ", the blob has ", blob->size(), " bytes"));
  }
  v1::Chunk chunk;
  uint64_t sent = 0;
  for (size_t at = request.offset(); at < blob->size(); at += kChunkBytes) {
    chunk.set_data(blob->substr(at, kChunkBytes));
    if (!writer->Write(chunk)) return absl::CancelledError("the client has gone");
    sent += chunk.data().size();
  }
  v1::Counters counters;
  counters.set_bytes_sent(sent);
  options_.stats->AddUnattributed(counters);
  call.Note(absl::StrCat(sent, " bytes of ", digest->Hex().substr(0, kShownKeyDigits)));
  return absl::OkStatus();
}

grpc::Status CompileService::PutCallSpec(grpc::ServerContext* context, const v1::PutCallSpecRequest* request,
                                         v1::PutCallSpecReply* reply) {
  RpcCall call(options_.rpc, context, "PutCallSpec", request->request().job());
  return call.Finish(DoPutCallSpec(call, *request, reply));
}

absl::Status CompileService::DoPutCallSpec(RpcCall& call, const v1::PutCallSpecRequest& request,
                                           v1::PutCallSpecReply* reply) {
  if (absl::Status s = call.Authorize(Role::kWriter); !s.ok()) return s;
  if (absl::Status s = CheckProtocolVersion(request.protocol_version()); !s.ok()) return s;
  if (request.request().graph().level() != v1::Graph::TORCH) {
    return absl::InvalidArgumentError("request.graph.level: CallSpecs are for graphs of level TORCH");
  }
  absl::StatusOr<Keyed> keyed = Admit(request.request());
  if (!keyed.ok()) return keyed.status();
  absl::StatusOr<v1::Variant> variant = CheckedVariant(call, request);
  if (!variant.ok()) return variant.status();
  for (const KeyPart& part : keyed->parts.parts) *variant->add_key_parts() = ToProto(part);
  std::string bytes = RequestBytes(request.request());
  const Key key = CaptureKey(Digest::Of(bytes), options_.compile.build);
  reply->set_key(std::string(key.bytes()));
  call.Note("put " + Shown(key));
  // It rests on the client's word, so it stays in the client's namespace.
  const RequestContext ctx = call.MakeContext();
  const bool compiled = variant->refused().empty();
  absl::Status status = options_.compile.cache->PublishVariant(ctx, key, *std::move(variant), std::move(bytes));
  if (status.ok() && compiled) generalizations_.Remember(ctx, keyed->canonical);
  return status;
}

// The variant as it is kept, fit for its compiled code.
absl::StatusOr<v1::Variant> CompileService::CheckedVariant(RpcCall& call, const v1::PutCallSpecRequest& request) {
  v1::Variant variant = request.variant();
  if (variant.version() != kVariantVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("variant.version: the client's is ", variant.version(), ", the server's is ", kVariantVersion));
  }
  if (variant.ByteSizeLong() > kMaxVariantBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("variant: bytes: ", variant.ByteSizeLong(), ", the server's bound is ", kMaxVariantBytes));
  }
  variant.DiscardUnknownFields();
  variant.clear_record();
  variant.clear_request();
  variant.clear_key_parts();
  if (absl::Status s = CheckPredicates(variant); !s.ok()) return s;
  if (!variant.refused().empty()) {
    variant.clear_spec();
    return variant;
  }
  const absl::StatusOr<Key> action = Key::FromBytes(request.action());
  if (!action.ok()) return absl::InvalidArgumentError(absl::StrCat("action: ", action.status().message()));
  const RequestContext ctx = call.MakeContext();
  std::optional<v1::Done> done = options_.compile.cache->LookupAction(ctx, *action);
  if (!done) return absl::FailedPreconditionError("action: there is no such compiled code in the cache");
  const absl::StatusOr<Digest> digest = FromProto(done->record().artifact(), "record.artifact");
  if (!digest.ok()) return digest.status();
  const absl::StatusOr<std::string> bytes = options_.store->GetBlob(ctx, *digest);
  if (!bytes.ok()) return bytes.status();
  v1::Artifact artifact;
  if (!artifact.ParseFromString(*bytes)) return absl::DataLossError("action: its artifact cannot be parsed");
  const int inputs = request.request().graph().inputs_size();
  if (static_cast<uint32_t>(inputs) != artifact.signature().num_inputs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("request.graph: has ", inputs, " inputs, the compiled code ", artifact.signature().num_inputs()));
  }
  if (absl::Status s = CheckCallSpec(variant.spec(), ShapeOf(artifact)); !s.ok()) return s;
  *variant.mutable_record() = std::move(*done->mutable_record());
  return variant;
}

}  // namespace kiln
