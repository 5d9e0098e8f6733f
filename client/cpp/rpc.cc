#include "client/cpp/rpc.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/digest.h"
#include "compiler/artifact/abi.h"
#include "compiler/artifact/call_spec.h"
#include "proto/service.grpc.pb.h"

namespace kiln {
namespace {

constexpr absl::Duration kCancelPoll = absl::Milliseconds(50);
constexpr int kMaxReceivedBytes = 64 << 20;
constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 30;
constexpr size_t kBlobCacheBytes = size_t{64} << 20;

absl::Status FromGrpc(const grpc::Status& s) {
  return s.ok() ? absl::OkStatus() : absl::Status(static_cast<absl::StatusCode>(s.error_code()), s.error_message());
}

// One call in flight: a context with the deadline, and a queue on which the calling thread waits for its operations one
// by one, looking now and then whether it is to be cancelled.
class Call {
 public:
  explicit Call(const CallOptions& options) : options_(options) {
    if (options.deadline != absl::InfiniteFuture()) context_.set_deadline(absl::ToChronoTime(options.deadline));
  }
  ~Call() {
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  grpc::ClientContext* context() { return &context_; }
  grpc::CompletionQueue* queue() { return &queue_; }

  // The outcome of the one operation that was started last. Ends always: a cancelled operation ends soon.
  bool Wait() {
    void* tag;
    bool ok = false;
    if (!options_.cancelled) return queue_.Next(&tag, &ok) && ok;
    while (queue_.AsyncNext(&tag, &ok, absl::ToChronoTime(absl::Now() + kCancelPoll)) ==
           grpc::CompletionQueue::TIMEOUT) {
      if (options_.cancelled()) context_.TryCancel();
    }
    return ok;
  }

 private:
  const CallOptions& options_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
};

template <typename Reply, typename Request, typename Start>
absl::StatusOr<Reply> Unary(const Request& request, const CallOptions& options, Start start) {
  Call call(options);
  Reply reply;
  grpc::Status status;
  auto reader = start(call.context(), request, call.queue());
  reader->Finish(&reply, &status, nullptr);
  call.Wait();
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

// Calls on_message for each message; false cancels the rest.
template <typename Message, typename Request, typename Start, typename OnMessage>
absl::Status Stream(const Request& request, const CallOptions& options, Start start, OnMessage on_message) {
  Call call(options);
  auto reader = start(call.context(), request, call.queue());
  bool more = call.Wait();
  bool stopped = false;
  while (more) {
    Message message;
    reader->Read(&message, nullptr);
    more = call.Wait();
    if (more && !on_message(message)) {
      stopped = true;
      call.context()->TryCancel();
      break;
    }
  }
  grpc::Status status;
  reader->Finish(&status, nullptr);
  call.Wait();
  return stopped ? absl::OkStatus() : FromGrpc(status);
}

// A server may be wrong, or an entry may have been made by another client than this one.
absl::Status CheckVariant(const v1::LookupReply& reply) {
  if (!reply.has_variant()) return absl::OkStatus();
  v1::Artifact artifact;
  if (!artifact.ParseFromString(reply.done().artifact())) return absl::DataLossError("the artifact cannot be parsed");
  absl::Status status = CheckPredicates(reply.variant());
  if (status.ok()) status = CheckCallSpec(reply.variant().spec(), ShapeOf(artifact));
  if (status.ok()) return status;
  return absl::DataLossError(absl::StrCat("the entry does not fit its code: ", std::string(status.message())));
}

absl::Status FromFailure(const v1::Failure& failure) {
  absl::StatusCode code = static_cast<absl::StatusCode>(failure.code());
  if (failure.code() <= 0 || failure.code() > 16) code = absl::StatusCode::kUnknown;
  absl::Status status(code, failure.message());
  status.SetPayload(kFailurePayload, absl::Cord(failure.SerializeAsString()));
  return status;
}

// gRPC's default poller is an epoll set, which a forked child shares with its parent: each would be given the other's
// events, and abort. With poll() there is nothing to share. The choice is read from the environment, once.
void StartGrpc() {
  static const bool started = [] {
    setenv("GRPC_POLL_STRATEGY", "poll", 0);  // unless the user chose
    grpc_init();                              // never shut down: the choice would be made again
    return true;
  }();
  static_cast<void>(started);
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  StartGrpc();
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10000);  // how long a handshake may take: a busy machine is slow
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // or a new channel would wait out an old one's back-off
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  args.SetMaxSendMessageSize(-1);  // the server's bound holds, and its refusal names it
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

std::optional<v1::Failure> FailureOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kFailurePayload);
  v1::Failure failure;
  if (!payload || !failure.ParseFromString(std::string(*payload))) return std::nullopt;
  return failure;
}

struct Client::Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Compiler::Stub> stub;
  std::mutex mutex;
  std::optional<v1::Capabilities> capabilities;  // guarded by mutex
};

struct Client::State {
  const pid_t pid = getpid();
  BlobCache blobs{kBlobCacheBytes};
  std::mutex mutex;
  std::shared_ptr<Connection> connection;  // guarded by mutex
};

Client::~Client() {
  State* state = state_.load();
  if (state != nullptr && state->pid == getpid()) delete state;
}

// gRPC's threads do not exist in a forked child, and a lock may have been held at the fork: the parent's state is
// neither used nor destroyed there.
Client::State& Client::state() {
  State* state = state_.load(std::memory_order_acquire);
  if (state != nullptr && state->pid == getpid()) return *state;
  auto fresh = std::make_unique<State>();
  if (state_.compare_exchange_strong(state, fresh.get())) return *fresh.release();
  return *state;
}

std::shared_ptr<Client::Connection> Client::connection() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  // A channel that failed would refuse calls until its next attempt; a new one attempts at once.
  if (s.connection == nullptr || s.connection->channel->GetState(false) == GRPC_CHANNEL_TRANSIENT_FAILURE) {
    s.connection = std::make_shared<Connection>();
    s.connection->channel = MakeChannel(address_);
    s.connection->stub = v1::Compiler::NewStub(s.connection->channel);
  }
  return s.connection;
}

void Client::Reset() {
  State& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.connection = nullptr;
}

absl::StatusOr<v1::Capabilities> Client::GetCapabilities(const CallOptions& options) {
  const std::shared_ptr<Connection> c = connection();
  {
    const std::lock_guard<std::mutex> lock(c->mutex);
    if (c->capabilities) return *c->capabilities;
  }
  v1::CapabilitiesRequest request;
  request.set_protocol_version(kProtocolVersion);
  absl::StatusOr<v1::Capabilities> reply = Unary<v1::Capabilities>(
      request, options,
      [&](auto* context, const auto& r, auto* queue) { return c->stub->AsyncGetCapabilities(context, r, queue); });
  if (!reply.ok()) return reply;
  if (reply->protocol_version() != kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the server at ", address_, " speaks protocol version ",
                                                      reply->protocol_version(), ", this client ", kProtocolVersion));
  }
  const std::lock_guard<std::mutex> lock(c->mutex);
  c->capabilities = *reply;
  return reply;
}

absl::StatusOr<v1::LookupReply> Client::Lookup(const v1::LookupRequest& request, const CallOptions& options) {
  const std::shared_ptr<Connection> c = connection();
  absl::StatusOr<v1::LookupReply> reply = Unary<v1::LookupReply>(
      request, options,
      [&](auto* context, const auto& r, auto* queue) { return c->stub->AsyncLookup(context, r, queue); });
  if (!reply.ok() || !reply->hit()) return reply;
  if (absl::Status s = FetchBlobs(reply->mutable_done(), options); !s.ok()) return s;
  if (absl::Status s = CheckVariant(*reply); !s.ok()) return s;
  return reply;
}

absl::StatusOr<v1::Done> Client::Compile(const v1::CompileRequest& request, const CallOptions& options,
                                         const std::function<void(const v1::CompileEvent&)>& on_event) {
  const std::shared_ptr<Connection> c = connection();
  // The stream is read to its end: to cancel it would look like a client that gave up.
  absl::StatusOr<v1::Done> result = absl::UnavailableError("the server's answer ended before the compile did");
  bool ended = false;
  const absl::Status status = Stream<v1::CompileEvent>(
      request, options,
      [&](auto* context, const auto& r, auto* queue) { return c->stub->AsyncCompile(context, r, queue, nullptr); },
      [&](v1::CompileEvent& event) {
        if (ended) return true;
        ended = event.has_done() || event.has_failed();
        if (event.has_done()) {
          result = std::move(*event.mutable_done());
        } else if (event.has_failed()) {
          result = FromFailure(event.failed());
        } else if (on_event) {
          on_event(event);
        }
        return true;
      });
  if (!ended && !status.ok()) return status;
  if (!result.ok()) return result;
  if (absl::Status s = FetchBlobs(&*result, options); !s.ok()) return s;
  return result;
}

absl::Status Client::FetchBlobs(v1::Done* done, const CallOptions& options) {
  const v1::ActionRecord& record = done->record();
  if (absl::Status s = FillBlob(record.artifact(), done->mutable_artifact(), options); !s.ok()) return s;
  if (!record.has_shared_object() || record.shared_object().size() == 0) return absl::OkStatus();
  return FillBlob(record.shared_object(), done->mutable_shared_object(), options);
}

absl::Status Client::FillBlob(const v1::Digest& digest, std::string* blob, const CallOptions& options) {
  if (!blob->empty()) {
    if (Matches(digest, *blob)) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("the server sent other bytes than blob ", Hex(digest)));
  }
  absl::StatusOr<std::shared_ptr<const std::string>> fetched = Fetch(digest, options);
  if (fetched.ok()) *blob = **fetched;
  return fetched.status();
}

absl::StatusOr<std::shared_ptr<const std::string>> Client::Fetch(const v1::Digest& digest, const CallOptions& options) {
  if (digest.size() > kMaxBlobBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("blob ", Hex(digest), " has ", digest.size(), " bytes"));
  }
  BlobCache& blobs = state().blobs;
  if (std::shared_ptr<const std::string> known = blobs.Get(digest); known != nullptr) return known;
  const std::shared_ptr<Connection> c = connection();
  v1::FetchRequest request;
  *request.mutable_digest() = digest;
  auto blob = std::make_shared<std::string>();
  const absl::Status status = Stream<v1::Chunk>(
      request, options,
      [&](auto* context, const auto& r, auto* queue) { return c->stub->AsyncFetch(context, r, queue, nullptr); },
      [&](const v1::Chunk& chunk) {
        blob->append(chunk.data());
        return blob->size() <= digest.size();  // more is not what was asked for
      });
  if (!status.ok()) return status;
  if (!Matches(digest, *blob)) {
    return absl::DataLossError(absl::StrCat("the server sent other bytes than blob ", Hex(digest)));
  }
  blobs.Put(digest, blob);
  return blob;
}

absl::StatusOr<v1::PutCallSpecReply> Client::PutCallSpec(const v1::PutCallSpecRequest& request,
                                                         const CallOptions& options) {
  const std::shared_ptr<Connection> c = connection();
  return Unary<v1::PutCallSpecReply>(request, options, [&](auto* context, const auto& r, auto* queue) {
    return c->stub->AsyncPutCallSpec(context, r, queue);
  });
}

}  // namespace kiln
