#include "server/command_line.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

namespace kiln {
namespace {

struct Parsed {
  std::variant<CommandLine, int> result;
  std::string out, err;
  const CommandLine& line() const { return std::get<CommandLine>(result); }
  int status() const { return std::get<int>(result); }
};

Parsed Parse(std::vector<const char*> args) {
  args.insert(args.begin(), "kilnd");
  std::ostringstream out, err;
  std::variant<CommandLine, int> result = ParseCommandLine(static_cast<int>(args.size()), args.data(), out, err);
  return {std::move(result), out.str(), err.str()};
}

class ConfigFile : public testing::Test {
 protected:
  void Write(const std::string& text) {
    close(mkstemp(name_));
    std::ofstream(name_) << text;
    flag_ = std::string("--config=") + name_;
  }
  void TearDown() override { unlink(name_); }
  char name_[32] = "/tmp/kiln-config-XXXXXX";
  std::string flag_;
};

TEST_F(ConfigFile, FlagsOverrideIt) {
  Write("listen: \"unix:/a\" workers { count: 3 job_seconds: 9 } logging { level: \"warn\" }");
  const Parsed p = Parse({flag_.c_str(), "--workers=5", "--listen=unix:/b", "--listen=127.0.0.1:0"});
  EXPECT_EQ(p.line().config.workers().count(), 5u);
  EXPECT_EQ(p.line().config.workers().job_seconds(), 9);
  EXPECT_EQ(p.line().config.logging().level(), "warn");
  ASSERT_EQ(p.line().config.listen_size(), 2);
  EXPECT_EQ(p.line().config.listen(0), "unix:/b");
}

TEST_F(ConfigFile, ItsErrorsAreUsageErrors) {
  Write("lisen: \"unix:/a\"");
  const Parsed p = Parse({flag_.c_str()});
  EXPECT_EQ(p.status(), 2);
  EXPECT_NE(p.err.find(":1: Message type \"kiln.v1.Config\" has no field named \"lisen\""), std::string::npos) << p.err;
}

TEST(CommandLine, TheLastOfAFlagCounts) {
  EXPECT_EQ(Parse({"--workers=5", "--workers=6"}).line().config.workers().count(), 6u);
}

TEST(CommandLine, HelpAndVersionLeaveWithZero) {
  EXPECT_EQ(Parse({"--help"}).status(), 0);
  EXPECT_NE(Parse({"--help"}).out.find("--idle-exit-seconds"), std::string::npos);
  EXPECT_EQ(Parse({"--version"}).out.substr(0, 6), "kilnd ");
}

TEST(CommandLine, UnknownFlagIsNamed) {
  const Parsed p = Parse({"--wrokers=3"});
  EXPECT_EQ(p.status(), 2);
  EXPECT_NE(p.err.find("--wrokers"), std::string::npos);
  EXPECT_EQ(Parse({"--workers=many"}).status(), 2);
  EXPECT_EQ(Parse({"--foreground"}).status(), 2);
}

TEST(CommandLine, Modes) {
  using Mode = CommandLine::Mode;
  EXPECT_EQ(Parse({}).line().mode, Mode::kServe);
  EXPECT_EQ(Parse({"--local"}).line().mode, Mode::kLocal);
  EXPECT_EQ(Parse({"--local", "--foreground"}).line().mode, Mode::kLocalServe);
  EXPECT_EQ(Parse({"--local-address"}).line().mode, Mode::kLocalAddress);
  EXPECT_EQ(Parse({"--print-build"}).line().mode, Mode::kPrintBuild);
}

}  // namespace
}  // namespace kiln
