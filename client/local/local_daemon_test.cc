#include "client/local/local_daemon.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

namespace kiln {
namespace {

// A folder of its own with a script in place of kilnd.
class LocalDaemon : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/kiln-local-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    unlink((folder_ + "/kilnd").c_str());
    rmdir(folder_.c_str());
  }

  std::string Script(const std::string& body) {
    const std::string path = folder_ + "/kilnd";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    chmod(path.c_str(), 0700);
    return path;
  }

  std::string folder_;
};

TEST_F(LocalDaemon, FirstLineIsTheAddress) {
  const std::string kilnd = Script("echo note >&2; echo unix:/run/x.sock; echo more");
  EXPECT_EQ(StartLocalDaemon(kilnd).value(), "unix:/run/x.sock");
}

TEST_F(LocalDaemon, TheTwoQuestionsDiffer) {
  const std::string kilnd = Script("echo $1");
  EXPECT_EQ(StartLocalDaemon(kilnd).value(), "--local");
  EXPECT_EQ(LocalAddress(kilnd).value(), "--local-address");
}

TEST_F(LocalDaemon, FailureTellsWhatItWrote) {
  const std::string kilnd = Script("echo no room >&2; exit 1");
  const absl::Status s = StartLocalDaemon(kilnd).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(s.message()).find("no room"), std::string::npos);
}

TEST_F(LocalDaemon, SilenceIsAFailure) {
  EXPECT_EQ(StartLocalDaemon(Script("exit 0")).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(LocalDaemon, ASlowOneIsEnded) {
  const std::string kilnd = Script("exec sleep 100");
  EXPECT_EQ(StartLocalDaemon(kilnd, absl::Milliseconds(200)).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LocalDaemon, NoProgram) {
  EXPECT_EQ(StartLocalDaemon(folder_ + "/kilnd").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StartLocalDaemon("").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LocalDaemon, FoundOnPath) {
  const std::string kilnd = Script("exit 0");
  setenv("PATH", ("relative:" + folder_ + ":/usr/bin").c_str(), 1);
  EXPECT_EQ(FindKilnd(), kilnd);
}

}  // namespace
}  // namespace kiln
