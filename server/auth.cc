#include "server/auth.h"

#include <sys/socket.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr char kFdPeer[] = "fd:";
constexpr char kUnknown[] = "unknown";

std::string NameOf(const std::string& peer) {
  if (peer.rfind(kFdPeer, 0) != 0) return "default";
  int fd = -1;
  ucred peer_of_socket{};
  socklen_t size = sizeof peer_of_socket;
  if (!absl::SimpleAtoi(peer.substr(sizeof kFdPeer - 1), &fd) ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer_of_socket, &size) != 0) {
    return kUnknown;
  }
  return absl::StrCat("uid:", peer_of_socket.uid);
}

Role ParseRole(const std::string& role) {
  return role == "admin" ? Role::kAdmin : role == "writer" ? Role::kWriter : Role::kReader;
}

std::string_view NameOf(Role role) {
  return role == Role::kAdmin ? "admin" : role == Role::kWriter ? "writer" : "reader";
}

}  // namespace

Principal Auth::Resolve(const std::string& peer) const {
  Principal principal{NameOf(peer), {}};
  if (principal.name == kUnknown) return principal;
  if (config_.roles().empty()) {
    principal.roles = {Role::kReader, Role::kWriter, Role::kAdmin};
    return principal;
  }
  for (const v1::Config::Auth::Role& entry : config_.roles()) {
    if (entry.principal() != "*" && entry.principal() != principal.name) continue;
    for (const std::string& role : entry.roles()) principal.roles.insert(ParseRole(role));
  }
  return principal;
}

absl::Status Auth::Check(const Principal& principal, Role role) {
  if (principal.roles.contains(role)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("principal '", principal.name, "' lacks the role '", std::string(NameOf(role)), "'"));
}

}  // namespace kiln
