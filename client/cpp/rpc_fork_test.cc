// A client in a process that forks. The server is a process of its own, started before this one uses gRPC.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "client/cpp/rpc.h"
#include "proto/service.grpc.pb.h"

namespace kiln {
namespace {

// Looks nothing up, compiles for ever.
class Server : public v1::Compiler::Service {
  grpc::Status GetCapabilities(grpc::ServerContext*, const v1::CapabilitiesRequest*, v1::Capabilities* reply) override {
    reply->set_protocol_version(1);
    return grpc::Status::OK;
  }
  grpc::Status Lookup(grpc::ServerContext*, const v1::LookupRequest*, v1::LookupReply*) override {
    return grpc::Status::OK;
  }
  grpc::Status Compile(grpc::ServerContext* context, const v1::CompileRequest*,
                       grpc::ServerWriter<v1::CompileEvent>*) override {
    while (!context->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    return grpc::Status::OK;
  }
};

class RpcForkTest : public testing::Test {
 protected:
  void SetUp() override {
    char dir[] = "/tmp/kilnXXXXXX";  // a socket's path is at most 107 bytes
    ASSERT_NE(mkdtemp(dir), nullptr);
    dir_ = dir;
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    server_ = fork();
    ASSERT_GE(server_, 0);
    if (server_ == 0) Serve(ready[1]);
    close(ready[1]);
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  void TearDown() override {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
    unlink((dir_ + "/s").c_str());
    rmdir(dir_.c_str());
  }
  [[noreturn]] void Serve(int ready) {
    alarm(120);
    Server service;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (server == nullptr || write(ready, "r", 1) != 1) _exit(1);
    server->Wait();
    _exit(0);
  }
  std::string address() const { return "unix:" + dir_ + "/s"; }

  static CallOptions In(absl::Duration timeout) { return CallOptions{.deadline = absl::Now() + timeout}; }

  // 0 if all is as it should be.
  int Child(Client& client) const {
    alarm(30);
    for (int i = 0; i < 20; ++i) {
      if (!client.Lookup({}, In(absl::Seconds(10))).ok()) return 1;
    }
    const absl::Status late = client.Compile({}, In(absl::Milliseconds(200)), nullptr).status();
    if (late.code() != absl::StatusCode::kDeadlineExceeded) return 2;
    Client nobody("unix:" + dir_ + "/nobody");
    const absl::Status refused = nobody.GetCapabilities(In(absl::Seconds(10))).status();
    return refused.code() == absl::StatusCode::kUnavailable ? 0 : 3;
  }

  std::string dir_;
  pid_t server_ = -1;
};

TEST_F(RpcForkTest, ParentAndChildBothGoOn) {
  Client client(address());
  ASSERT_TRUE(client.GetCapabilities(In(absl::Seconds(10))).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::thread busy([&] {
    while (!stop) bad += !client.Lookup({}, In(absl::Seconds(10))).ok();
  });
  for (int i = 0; i < 3; ++i) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) _exit(Child(client));
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(client.Lookup({}, In(absl::Seconds(10))).ok());
  }
  stop = true;
  busy.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace kiln
