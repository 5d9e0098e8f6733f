// The one client of kilnd's Compiler service, for C++ and for Python.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/blob_cache.h"
#include "proto/compile.pb.h"

namespace grpc {
class Channel;
}

namespace kiln {

// A channel to "unix:/path" or "host:port": lazy, reconnecting at once (gRPC's own back-off begins with a second, which
// is felt when a daemon is just starting), sharing nothing with other channels.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address);

struct CallOptions {
  absl::Time deadline = absl::InfiniteFuture();
  // Asked every 50 ms or so; true ends the call with Cancelled. May be empty.
  std::function<bool()> cancelled = nullptr;
};

// The payload of a status that came from a `failed` event: a serialised v1.Failure.
inline constexpr char kFailurePayload[] = "type.kiln.dev/kiln.v1.Failure";
std::optional<v1::Failure> FailureOf(const absl::Status& status);

// Thread-safe. Connects at the first call. After a fork the child gets a connection and a cache of its own.
//
// Errors carry the server's code and message; Unavailable: there is no server, or it went away; DeadlineExceeded and
// Cancelled as in CallOptions.
class Client {
 public:
  explicit Client(std::string address) : address_(std::move(address)) {}
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const std::string& address() const { return address_; }

  // Asked of the server once a connection. FailedPrecondition: it speaks another protocol version.
  absl::StatusOr<v1::Capabilities> GetCapabilities(const CallOptions& options);

  // Hit or miss; on a hit, with both blobs, as from Compile, and a CallSpec that fits them (DataLoss if it does not).
  absl::StatusOr<v1::LookupReply> Lookup(const v1::LookupRequest& request, const CallOptions& options);

  // Looks up, joins or compiles. `on_event` sees each event but the last, on the calling thread. The result has both
  // blobs, fetched if the server did not send them along, and checked against the record's digests (DataLoss).
  // A `failed` event becomes a status with kFailurePayload.
  absl::StatusOr<v1::Done> Compile(const v1::CompileRequest& request, const CallOptions& options,
                                   const std::function<void(const v1::CompileEvent&)>& on_event);

  // A blob; checked. From memory if this client has it.
  absl::StatusOr<std::shared_ptr<const std::string>> Fetch(const v1::Digest& digest, const CallOptions& options);

  absl::StatusOr<v1::PutCallSpecReply> PutCallSpec(const v1::PutCallSpecRequest& request, const CallOptions& options);

  // Drops the connection; the next call makes one.
  void Reset();

 private:
  struct Connection;  // a channel, its stub, what was asked of it
  struct State;       // of one process

  State& state();
  std::shared_ptr<Connection> connection();
  // Fills in what `done` names but does not hold.
  absl::Status FetchBlobs(v1::Done* done, const CallOptions& options);
  absl::Status FillBlob(const v1::Digest& digest, std::string* blob, const CallOptions& options);

  const std::string address_;
  std::atomic<State*> state_{nullptr};
};

}  // namespace kiln
