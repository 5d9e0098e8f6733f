#include "server/run_tool.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "server/testing/test_client.h"

namespace kiln {
namespace {

absl::StatusOr<ToolResult> Shell(const std::string& script, absl::Time deadline = absl::Now() + kTestPatience) {
  return RunTool({"/bin/sh", "-c", script}, "/", deadline);
}

TEST(RunTool, KeepsWhatIsSaidAndTheStatus) {
  const absl::StatusOr<ToolResult> result = Shell("pwd; echo wrong >&2; exit 3");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, "/\nwrong\n");
  EXPECT_EQ(result->exit_status, 3);
}

TEST(RunTool, ASignalIsAStatus) {
  const absl::StatusOr<ToolResult> result = Shell("kill -SEGV $$");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_status, 128 + 11);
}

TEST(RunTool, OutputIsBounded) {
  const absl::StatusOr<ToolResult> result = Shell("head -c 1000000 /dev/zero");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output.size(), 65536u);
  EXPECT_EQ(result->exit_status, 0);
}

TEST(RunTool, WhatIsNotThereCannotBeRun) {
  EXPECT_EQ(RunTool({"/no/such/tool"}, "/").status(), absl::UnavailableError("/no/such/tool: cannot be run"));
}

TEST(RunTool, WhatTakesTooLongIsKilled) {
  EXPECT_EQ(Shell("exec sleep 1000", absl::Now() + absl::Milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace kiln
