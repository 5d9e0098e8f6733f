// The process ends in the middle: at each step of a publication, and at any moment. Nothing acknowledged is lost,
// nothing is torn.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "cache/store_testing.h"

namespace kiln {
namespace {

constexpr int kExitCode = 42;

// Runs one of the disabled tests below, which end before their time, in a process of its own. Gives its wait status.
int RunChild(const std::string& test, const std::string& dir, int argument) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "KILN_CRASH_DIR='" + dir + "' KILN_CRASH_ARGUMENT=" + std::to_string(argument) +
                              " exec '" + self + "' --gtest_also_run_disabled_tests --gtest_filter=Child.DISABLED_" +
                              test + " >/dev/null";
  return std::system(command.c_str());
}
std::string ChildDir() { return getenv("KILN_CRASH_DIR"); }
int ChildArgument() { return atoi(getenv("KILN_CRASH_ARGUMENT")); }

// Room for two entries.
StoreOptions SmallCap() {
  StoreOptions options;
  options.max_bytes = 2 * (100 + 10 + 2 * sizeof(Digest) + 2 * sizeof(Key));
  return options;
}

// Publishes c, which evicts the older of two, and dies at the step given.
TEST(Child, DISABLED_DiesAtAStep) {
  StoreOptions options = SmallCap();
  options.publish_hook = [](PublishStep step) {
    if (static_cast<int>(step) == ChildArgument()) _exit(kExitCode);
    return absl::OkStatus();
  };
  OpenRocksDbStore(ChildDir(), options).value()->Publish(RequestContext(), Entry("c")).IgnoreError();
}

TEST(RocksDbCrash, AtEachStepAllOrNothing) {
  const RequestContext ctx;
  for (PublishStep at : {PublishStep::kPlanned, PublishStep::kBlobsStaged, PublishStep::kRecordsStaged,
                         PublishStep::kCommitted, PublishStep::kAcknowledged}) {
    TempDir dir;
    {
      std::unique_ptr<Store> store = OpenRocksDbStore(dir.path(), SmallCap()).value();
      for (const char* name : {"a", "b"}) EXPECT_TRUE(store->Publish(ctx, Entry(name)).ok());
    }
    const int status = RunChild("DiesAtAStep", dir.path(), static_cast<int>(at));
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitCode) << status;
    std::unique_ptr<Store> store = OpenRocksDbStore(dir.path(), SmallCap()).value();
    const bool published = at >= PublishStep::kCommitted;
    EXPECT_EQ(store->GetRecord(ctx, Id("a")).ok(), !published) << "the eviction is part of the same step";
    EXPECT_TRUE(store->GetRecord(ctx, Id("b")).ok());
    EXPECT_EQ(store->GetRecord(ctx, Id("c")).ok(), published);
    EXPECT_EQ(store->GetBlob(ctx, BlobOf("c").digest).ok(), published);
    EXPECT_EQ(store->Stats(ctx)->bytes, SmallCap().max_bytes);
    EXPECT_EQ(store->Stats(ctx)->incomplete, 0u);
  }
}

Publication Nth(int n) { return Entry(std::to_string(n), 100 + static_cast<size_t>(n) % 7 * 3000); }

void KillSoon() {
  std::thread([] {
    std::mt19937 random(static_cast<unsigned>(ChildArgument()));
    absl::SleepFor(absl::Microseconds(random() % 100000));
    raise(SIGKILL);
  }).detach();
}

// Publishes without end, writes each one acknowledged down, and is killed after some time: of opening, every other
// time, else of publishing.
TEST(Child, DISABLED_IsKilled) {
  if (ChildArgument() % 2 == 0) KillSoon();
  std::unique_ptr<Store> store = OpenRocksDbStore(ChildDir() + "/store", StoreOptions()).value();
  if (ChildArgument() % 2 == 1) KillSoon();
  std::ofstream acknowledged(ChildDir() + "/acknowledged", std::ios::app);
  for (int n = ChildArgument() * 100000;; ++n) {
    if (store->Publish(RequestContext(), Nth(n)).ok()) acknowledged << n << std::endl;
    if (n % 10 == 0) store->Maintain(RequestContext()).IgnoreError();
  }
}

TEST(RocksDbCrash, AtAnyMomentNothingAcknowledgedIsLost) {
  const RequestContext ctx;
  TempDir dir;
  size_t checked = 0;
  for (int round = 1; round <= 8; ++round) {
    const int status = RunChild("IsKilled", dir.path(), round);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    OpenReport report;
    std::unique_ptr<Store> store = OpenRocksDbStore(dir.path() + "/store", StoreOptions(), &report).value();
    EXPECT_FALSE(report.lost);
    EXPECT_EQ(store->Stats(ctx)->incomplete, 0u);
    std::ifstream acknowledged(dir.path() + "/acknowledged");
    checked = 0;
    for (int n; acknowledged >> n; ++checked) {
      EXPECT_EQ(store->GetRecord(ctx, Nth(n).records[0].id)->value, Nth(n).records[0].value);
      EXPECT_EQ(store->GetBlob(ctx, Nth(n).blobs[0].digest).value(), Nth(n).blobs[0].bytes);
    }
    const uint64_t entries = store->Stats(ctx)->records[Table::kActions];
    EXPECT_GE(entries, checked);
    EXPECT_LE(entries, checked + static_cast<size_t>(round)) << "at most one in flight a round";
    EXPECT_EQ(entries, store->Stats(ctx)->blobs);
  }
  EXPECT_GT(checked, 0u);
}

}  // namespace
}  // namespace kiln
