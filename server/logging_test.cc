#include "server/logging.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace kiln {
namespace {

class Logging : public testing::Test {
 protected:
  void SetUp() override { close(mkstemp(name_)); }
  void TearDown() override { unlink(name_); }

  std::string Read() const {
    std::ifstream in(name_);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  v1::Config::Logging Config(bool json) const {
    v1::Config::Logging c;
    c.set_file(name_);
    c.set_json(json);
    return c;
  }

  char name_[32] = "/tmp/kiln-log-XXXXXX";
};

TEST_F(Logging, TextCarriesTheRequestId) {
  const Logger base = MakeLogger(Config(false)).value();
  base->info("up");
  ForRequest(base, "job-7")->warn("key {} missed", "ab");
  const std::string text = Read();
  EXPECT_NE(text.find(" [-] up\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" [job-7] key ab missed\n"), std::string::npos) << text;
}

TEST_F(Logging, JsonIsEscaped) {
  const Logger base = MakeLogger(Config(true)).value();
  ForRequest(base, "r1")->error("a \"b\"\nc\x01");
  const std::string text = Read();
  EXPECT_EQ(text.substr(0, 9), "{\"time\":\"");
  EXPECT_NE(text.find(R"(,"level":"error","request":"r1","message":"a \"b\"\nc\u0001"})"), std::string::npos) << text;
}

TEST_F(Logging, LevelIsKept) {
  v1::Config::Logging c = Config(false);
  c.set_level("warn");
  const Logger base = MakeLogger(c).value();
  ForRequest(base, "r1")->info("quiet");
  EXPECT_EQ(Read(), "");
}

TEST(LoggingFile, UnwritableFileIsAnError) {
  v1::Config::Logging c;
  c.set_file("/nonexistent/x/log");
  // spdlog makes missing folders where it may.
  c.set_file("/proc/nonexistent/log");
  EXPECT_EQ(MakeLogger(c).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RequestIds, KeepsWhatIsFit) {
  EXPECT_EQ(RequestId("train-3/rank:0"), "train-3/rank:0");
  EXPECT_NE(RequestId("two lines\n"), "two lines\n");
  EXPECT_NE(RequestId(""), RequestId(""));
  EXPECT_EQ(RequestId(std::string(65, 'a'))[0], 'r');
}

}  // namespace
}  // namespace kiln
