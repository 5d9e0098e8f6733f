#include "server/auth.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

namespace kiln {
namespace {

v1::Config::Auth Config(const std::string& text) {
  v1::Config::Auth config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  return config;
}

class SocketPair : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds_), 0); }
  void TearDown() override {
    close(fds_[0]);
    close(fds_[1]);
  }
  std::string Peer() const { return absl::StrCat("fd:", fds_[0]); }
  std::string Me() const { return absl::StrCat("uid:", geteuid()); }
  int fds_[2];
};

TEST_F(SocketPair, UnixPeerIsItsUid) { EXPECT_EQ(Auth({}).Resolve(Peer()).name, Me()); }

TEST_F(SocketPair, RolesOfTheUidAndOfEverybodyAddUp) {
  const Auth auth(Config(absl::StrCat("roles { principal: '", Me(), "' roles: 'admin' } ",
                                      "roles { principal: '*' roles: 'reader' } ",
                                      "roles { principal: 'default' roles: 'writer' }")));
  EXPECT_EQ(auth.Resolve(Peer()).roles, (std::set<Role>{Role::kReader, Role::kAdmin}));
  EXPECT_EQ(auth.Resolve("ipv4:127.0.0.1:3").roles, (std::set<Role>{Role::kReader, Role::kWriter}));
}

TEST(Auth, WithoutRolesEverybodyHasAll) {
  const Principal p = Auth({}).Resolve("ipv4:127.0.0.1:3");
  EXPECT_EQ(p.name, "default");
  EXPECT_EQ(p.roles.size(), 3u);
}

TEST(Auth, AConnectionThatIsGoneMayNothing) {
  for (const char* peer : {"fd:1000000", "fd:x", "fd:", "fd:-1"}) {
    const Principal p = Auth({}).Resolve(peer);
    EXPECT_EQ(p.name, "unknown") << peer;
    EXPECT_TRUE(p.roles.empty()) << peer;
  }
}

TEST(Auth, RefusalNamesPrincipalAndRole) {
  const absl::Status s = Auth::Check({"uid:7", {Role::kReader}}, Role::kAdmin);
  EXPECT_EQ(s.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(s.message(), "principal 'uid:7' lacks the role 'admin'");
  EXPECT_TRUE(Auth::Check({"uid:7", {Role::kReader}}, Role::kReader).ok());
}

}  // namespace
}  // namespace kiln
