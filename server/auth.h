// Who is asking, and what they may do.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "proto/config.pb.h"

namespace kiln {

enum class Role {
  kReader,  // look up, fetch, status, statistics
  kWriter,  // compile, put a CallSpec
  kAdmin,   // remove entries, drain
};

struct Principal {
  std::string name;  // "uid:1000" on a unix socket, else "default"; "unknown" for a connection that is gone
  std::set<Role> roles;
};

// Immutable, so thread-safe.
class Auth {
 public:
  // `config` has been checked (config.h).
  explicit Auth(const v1::Config::Auth& config) : config_(config) {}

  // `peer` is what gRPC says of a call's connection: "fd:N" for those of a UnixListener, whose other end's uid the
  // kernel knows; anything else came over TCP.
  Principal Resolve(const std::string& peer) const;

  // PermissionDenied naming the principal and the role it lacks.
  static absl::Status Check(const Principal& principal, Role role);

 private:
  const v1::Config::Auth config_;
};

}  // namespace kiln
