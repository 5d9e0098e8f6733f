#include "server/unix_listener.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/service.grpc.pb.h"

namespace kiln {
namespace {

// Answers with the peer that it sees.
class PeerService final : public v1::Compiler::Service {
  grpc::Status GetCapabilities(grpc::ServerContext* context, const v1::CapabilitiesRequest*,
                               v1::Capabilities* reply) override {
    reply->set_build(context->peer());
    return grpc::Status::OK;
  }
};

class Listener : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_), nullptr);
    path_ = std::string(folder_) + "/s.sock";
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  void TearDown() override {
    server_->Shutdown(std::chrono::system_clock::now());
    unlink(path_.c_str());
    rmdir(folder_);
  }
  bool Exists() const { return access(path_.c_str(), F_OK) == 0; }

  std::string AskPeer() {
    const auto channel = grpc::CreateChannel("unix:" + path_, grpc::InsecureChannelCredentials());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::Capabilities reply;
    const grpc::Status s = v1::Compiler::NewStub(channel)->GetCapabilities(&context, {}, &reply);
    return s.ok() ? reply.build() : s.error_message();
  }

  char folder_[32] = "/tmp/kiln-unix-XXXXXX";
  std::string path_;
  PeerService service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(Listener, ServesAndNamesTheDescriptor) {
  std::unique_ptr<UnixListener> listener = UnixListener::Bind(path_, 0600).value();
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  listener->Serve(server_.get());
  EXPECT_EQ(AskPeer().substr(0, 3), "fd:");
  listener->Stop();
  listener.reset();
  EXPECT_FALSE(Exists());
}

TEST_F(Listener, ALiveSocketIsLeftAlone) {
  const std::unique_ptr<UnixListener> first = UnixListener::Bind(path_, 0600).value();
  EXPECT_EQ(UnixListener::Bind(path_, 0600).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Exists());
}

TEST_F(Listener, ADeadSocketIsReplaced) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(fd);  // as after kill -9: the file stays
  ASSERT_TRUE(Exists());
  const absl::StatusOr<std::unique_ptr<UnixListener>> listener = UnixListener::Bind(path_, 0600);
  EXPECT_TRUE(listener.ok()) << listener.status();
}

TEST_F(Listener, AFileIsNotASocket) {
  close(open(path_.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(UnixListener::Bind(path_, 0600).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Exists());
}

TEST_F(Listener, AnotherOnesSocketIsNotRemoved) {
  std::unique_ptr<UnixListener> first = UnixListener::Bind(path_, 0600).value();
  unlink(path_.c_str());
  const std::unique_ptr<UnixListener> second = UnixListener::Bind(path_, 0600).value();
  first.reset();
  EXPECT_TRUE(Exists());
}

TEST(ListenerPaths, BadPathsAreRefused) {
  EXPECT_EQ(UnixListener::Bind("x.sock", 0600).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(UnixListener::Bind("/" + std::string(107, 'x'), 0600).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(UnixListener::Bind("/nonexistent/x.sock", 0600).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace kiln
