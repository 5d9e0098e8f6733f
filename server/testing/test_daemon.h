// A daemon within a test's process, with fake workers, on a unix socket.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "google/protobuf/text_format.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/testing/test_client.h"

namespace kiln {

class DaemonTest : public testing::Test {
 protected:
  // `config` is a text proto; listen and data_dir are set here.
  void StartDaemon(const std::string& config = "", PublishHook hook = nullptr,
                   const std::string& build = "0123456789ab") {
    DaemonOptions options;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(config, &options.config));
    if (options.config.workers().count() == 0) options.config.mutable_workers()->set_count(2);
    if (options.config.workers().memory_mib() == 0) options.config.mutable_workers()->set_memory_mib(1024);
    options.config.add_listen("unix:" + folder_.File("s.sock"));
    options.config.set_data_dir(folder_.File("data"));
    ASSERT_TRUE(CompleteConfig(&options.config).ok());
    options.build = build;
    options.worker_program = TestProgram("fake_worker");
    options.targets = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "sm_90", "sm_120"};
    options.assemble_for = [](const std::string& target) {
      return target.starts_with("sm_") ? std::vector<std::string>{target} : std::vector<std::string>();
    };
    options.cuda = cuda_;
    options.publish_hook = std::move(hook);
    options.log = NullLogger();
    absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(std::move(options));
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    client_ = std::make_unique<TestClient>(Address());
  }
  void StopDaemon() { daemon_.reset(); }

  std::string Address() const { return "unix:" + folder_.File("s.sock"); }
  CompileAnswer Compile(const std::vector<std::string>& ops, const std::string& job = "test") {
    return client_->Compile(TestRequest(ops, job));
  }
  v1::Counters Totals() { return client_->Stats().totals(); }

  TestFolder folder_;
  CudaTools cuda_;  // none
  std::unique_ptr<Daemon> daemon_;
  std::unique_ptr<TestClient> client_;
};

}  // namespace kiln
