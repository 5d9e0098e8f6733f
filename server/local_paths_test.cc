#include "server/local_paths.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace kiln {
namespace {

constexpr char kBuild[] = "0123456789ab";

TEST(LocalPaths, RuntimeDirectoryHoldsTheSocket) {
  const LocalEnv env{"/c", "/run/user/7", "/home/u", 7};
  EXPECT_EQ(LocalCacheDir(env).value(), "/c/kiln");
  EXPECT_EQ(LocalSocketPath(env, kBuild, 1).value(), "/run/user/7/kiln/kiln-0123456789ab-v1.sock");
}

TEST(LocalPaths, WithoutItTheCacheDirectoryDoes) {
  EXPECT_EQ(LocalSocketPath({"/c", "", "/home/u", 7}, kBuild, 2).value(), "/c/kiln/kiln-0123456789ab-v2.sock");
  EXPECT_EQ(LocalSocketPath({"", "", "/home/u", 7}, kBuild, 2).value(),
            "/home/u/.cache/kiln/kiln-0123456789ab-v2.sock");
}

TEST(LocalPaths, RelativeVariablesDoNotCount) {
  EXPECT_EQ(LocalCacheDir({"c", "", "/home/u", 7}).value(), "/home/u/.cache/kiln");
  EXPECT_EQ(LocalCacheDir({"", "", "", 7}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(LocalPaths, LongPathsMoveToTmpAndStayApart) {
  const std::string deep(100, 'd');
  const std::string a = LocalSocketPath({"/" + deep, "", "", 7}, kBuild, 1).value();
  const std::string b = LocalSocketPath({"/e" + deep, "", "", 7}, kBuild, 1).value();
  EXPECT_EQ(a.substr(0, 36), "/tmp/kiln-7/kiln-0123456789ab-v1-" + a.substr(33, 3));
  EXPECT_LE(a.size(), kMaxSocketPath);
  EXPECT_NE(a, b);
}

TEST(LocalPaths, ExactlyTheLimitFits) {
  const size_t fixed = std::string("//kiln/kiln-0123456789ab-v1.sock").size();
  const std::string path =
      LocalSocketPath({"", "/" + std::string(kMaxSocketPath - fixed, 'r'), "", 7}, kBuild, 1).value();
  EXPECT_EQ(path.size(), kMaxSocketPath);
  EXPECT_EQ(path[1], 'r');
}

TEST(PrivateDir, IsMadeWithParentsAndClosedToOthers) {
  char name[] = "/tmp/kiln-paths-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  const std::string path = std::string(name) + "/a/b";
  ASSERT_TRUE(MakePrivateDir(path, geteuid()).ok());
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(MakePrivateDir(path, geteuid()).ok());
  EXPECT_EQ(MakePrivateDir(path, geteuid() + 1).code(), absl::StatusCode::kFailedPrecondition);
  chmod(path.c_str(), 0777);
  EXPECT_EQ(MakePrivateDir(path, geteuid()).code(), absl::StatusCode::kFailedPrecondition);
  rmdir(path.c_str());
  rmdir((std::string(name) + "/a").c_str());
  rmdir(name);
}

TEST(FileLock, OneAtATime) {
  char name[] = "/tmp/kiln-lock-XXXXXX";
  close(mkstemp(name));
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      absl::StatusOr<FileLock> lock = FileLock::Take(name);
      ASSERT_TRUE(lock.ok());
      most = std::max(most.load(), ++inside);
      std::this_thread::yield();
      --inside;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(most, 1);
  unlink(name);
}

}  // namespace
}  // namespace kiln
