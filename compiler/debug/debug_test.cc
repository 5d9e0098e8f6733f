#include "compiler/debug/debug.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(DebugOptions, DumpRules) {
  DebugOptions options;
  options.dump = ParseDumpRules("fuse,lower@kernel_3,,@x");
  EXPECT_EQ(options.dump.size(), 2u);
  EXPECT_TRUE(options.ShouldDump("fuse", "forward"));
  EXPECT_TRUE(options.ShouldDump("lower", "kernel_3"));
  EXPECT_FALSE(options.ShouldDump("lower", "kernel_4"));
  EXPECT_FALSE(options.ShouldDump("decompose", "forward"));
  options.dump = ParseDumpRules("all@backward");
  EXPECT_TRUE(options.ShouldDump("decompose", "backward"));
  EXPECT_FALSE(options.ShouldDump("decompose", "forward"));
}

TEST(DebugOptions, FromTheEnvironment) {
  setenv("KILN_VERIFY", "0", 1);
  setenv("KILN_TIME", "1", 1);
  setenv("KILN_DUMP", "decompose", 1);
  setenv("KILN_DUMP_DIR", "/tmp/x", 1);
  DebugOptions options = DebugFromEnvironment();
  EXPECT_FALSE(options.verify);
  EXPECT_TRUE(options.time);
  EXPECT_TRUE(options.ShouldDump("decompose", ""));
  EXPECT_EQ(options.dump_dir, "/tmp/x");
  unsetenv("KILN_DUMP");
  EXPECT_TRUE(DebugFromEnvironment().dump.empty());
}

}  // namespace
}  // namespace kiln
