// A unix socket whose connections are accepted here and handed to gRPC, because gRPC does not say who is at the other
// end of those that it accepts itself. A call's peer is then "fd:N" (auth.h).
#pragma once

#include <grpcpp/server.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace kiln {

class UnixListener {
 public:
  // Binds `path` with permissions `mode`. A socket that is there is removed if nobody listens on it; else
  // AlreadyExists. InvalidArgument for a path that is relative or too long, Unavailable where the kernel refuses.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Bind(const std::string& path, mode_t mode);

  // Stops, and removes the socket if it is still this one's.
  ~UnixListener();

  // Starts the accepting thread. `server` must outlive this or the call of Stop. Once.
  void Serve(grpc::Server* server);

  // No connection is accepted after this; those that are open stay. From one thread.
  void Stop();

  const std::string& path() const { return path_; }

 private:
  UnixListener(std::string path, int fd, int wake, dev_t dev, ino_t ino)
      : path_(std::move(path)), fd_(fd), wake_(wake), dev_(dev), ino_(ino) {}
  void AcceptLoop(grpc::Server* server);

  const std::string path_;
  const int fd_;
  const int wake_;  // eventfd: readable once it is time to stop
  const dev_t dev_;
  const ino_t ino_;
  std::thread thread_;
};

}  // namespace kiln
