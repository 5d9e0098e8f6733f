#include "server/assemble.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "server/testing/test_client.h"

namespace kiln {
namespace {

class AssembleTest : public testing::Test {
 protected:
  AssembleTest() {
    std::filesystem::create_directory(folder_.File("tmp"));
    setenv("TMPDIR", folder_.File("tmp").c_str(), 1);
  }
  ~AssembleTest() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_.File("tmp")));
    unsetenv("TMPDIR");
  }

  // Of the PTX "ptx of a kernel", by a ptxas that is this shell script.
  absl::StatusOr<v1::AssembleResult> Run(const std::string& script, const std::vector<std::string>& archs = {"sm_90"}) {
    const std::string path = folder_.File("ptxas");
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0700);
    v1::AssembleJob job;
    job.set_ptx("ptx of a kernel");
    *job.mutable_archs() = {archs.begin(), archs.end()};
    job.set_ptxas(path);
    return Assemble(job);
  }

  TestFolder folder_;
};

TEST_F(AssembleTest, TheCubinIsWhatPtxasMakes) {
  const absl::StatusOr<v1::AssembleResult> result = Run(R"((echo "$@"; cat kernel.ptx) > kernel.cubin)");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->cubin(), "--gpu-name=sm_90 -O3 -o kernel.cubin kernel.ptx\nptx of a kernel");
}

constexpr char kOnlySm90[] = R"(
  case $1 in
    *sm_90) echo "$1" > kernel.cubin ;;
    *) echo "ptxas fatal   : Value 'sm_999' is not defined for option 'gpu-name'"; exit 1 ;;
  esac)";

TEST_F(AssembleTest, TheFirstArchThatPtxasKnows) {
  EXPECT_EQ(Run(kOnlySm90, {"sm_999", "sm_90"})->cubin(), "--gpu-name=sm_90\n");
  const absl::StatusOr<v1::AssembleResult> none = Run(kOnlySm90, {"sm_999"});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->cubin(), "");
}

TEST_F(AssembleTest, FailuresKeepWhatPtxasSays) {
  EXPECT_EQ(Run("echo 'line 7: bad operand' >&2; exit 255").status(),
            absl::InternalError("ptxas for sm_90 ended with status 255: line 7: bad operand\n"));
  EXPECT_EQ(Run("kill -KILL $$").status(), absl::InternalError("ptxas for sm_90 ended with status 137: "));
  EXPECT_EQ(Run("exit 0").status(), absl::InternalError("ptxas for sm_90 made no cubin"));
}

TEST_F(AssembleTest, APtxasThatIsNotThereIsNoBugOfOurs) {
  v1::AssembleJob job;
  job.add_archs("sm_90");
  job.set_ptxas(folder_.File("none"));
  EXPECT_EQ(Assemble(job).status(), absl::UnavailableError(folder_.File("none") + ": cannot be run"));
}

}  // namespace
}  // namespace kiln
