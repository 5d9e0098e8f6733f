#include "server/config.h"

#include <gtest/gtest.h>

#include <thread>

namespace kiln {
namespace {

TEST(Config, UnknownFieldIsNamedWithItsLine) {
  const absl::Status s = ParseConfig("listen: \"unix:/x\"\nworkers {\n  cuont: 3\n}\n", "kilnd.textproto").status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(s.message(), "kilnd.textproto:3: Message type \"kiln.v1.Config.Workers\" has no field named \"cuont\".");
}

TEST(Config, SyntaxErrorIsNamedWithItsLine) {
  const absl::Status s = ParseConfig("\n\nlisten = 3", "c").status();
  EXPECT_EQ(std::string(s.message()).substr(0, 4), "c:3:");
}

TEST(Config, MissingFile) {
  EXPECT_EQ(LoadConfig("/nonexistent/kilnd.textproto").status().code(), absl::StatusCode::kNotFound);
}

TEST(Config, DefaultsAreThoseOfTheManual) {
  v1::Config c;
  ASSERT_TRUE(CompleteConfig(&c).ok());
  EXPECT_EQ(c.drain_seconds(), 30);
  EXPECT_EQ(c.idle_exit_seconds(), 0);
  EXPECT_EQ(c.workers().count(), std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_EQ(c.workers().job_seconds(), 120);
  EXPECT_EQ(c.workers().memory_mib(), 4096u);
  EXPECT_EQ(c.workers().jobs_per_worker(), 10000u);
  EXPECT_EQ(c.cache().byte_cap(), 10ull << 30);
  EXPECT_EQ(c.cache().negative_ttl_seconds(), 600);
  EXPECT_EQ(c.limits().message_bytes(), 64u << 20);
  EXPECT_EQ(c.limits().nodes(), 200000u);
  EXPECT_EQ(c.limits().symbols(), 10000u);
  EXPECT_EQ(c.limits().queue(), 256u);
  EXPECT_EQ(c.limits().compile_seconds(), 600);
  EXPECT_EQ(c.logging().level(), "info");
  EXPECT_EQ(c.socket_mode(), 0600u);
}

TEST(Config, GivenValuesStay) {
  absl::StatusOr<v1::Config> c = ParseConfig("workers { count: 3 } socket_mode: 0660 drain_seconds: 1.5", "c");
  ASSERT_TRUE(c.ok()) << c.status();
  ASSERT_TRUE(CompleteConfig(&*c).ok());
  EXPECT_EQ(c->workers().count(), 3u);
  EXPECT_EQ(c->socket_mode(), 0660u);
  EXPECT_EQ(c->drain_seconds(), 1.5);
}

TEST(Config, TheExampleIsGood) {
  absl::StatusOr<v1::Config> c = LoadConfig("deploy/kilnd.example.textproto");
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_TRUE(CompleteConfig(&*c).ok());
  EXPECT_EQ(c->socket_mode(), 0666u);
}

TEST(Config, BadValuesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"drain_seconds: -1", "config: drain_seconds:"},
      {"idle_exit_seconds: nan", "config: idle_exit_seconds:"},
      {"workers { job_seconds: inf }", "config: workers.job_seconds:"},
      {"workers { count: 100000 }", "config: workers.count:"},
      {"workers { memory_mib: 1 }", "config: workers.memory_mib:"},
      {"limits { message_bytes: 99999999999 }", "config: limits.message_bytes:"},
      {"listen: 'unix:/a' listen: '127.0.0.1:99999'", "config: listen[1]: '127.0.0.1:99999'"},
      {"listen: 'somewhere'", "config: listen[0]: 'somewhere'"},
      {"socket_mode: 01777", "config: socket_mode:"},
      {"logging { level: \"loud\" }", "config: logging.level: 'loud'"},
      {"auth { roles { principal: \"bob\" } }", "config: auth.roles[0].principal: 'bob'"},
      {"auth { roles { principal: \"*\" roles: \"king\" } }", "config: auth.roles[0].roles: 'king'"},
  };
  for (const auto& [text, want] : cases) {
    absl::StatusOr<v1::Config> c = ParseConfig(text, "c");
    ASSERT_TRUE(c.ok()) << text << c.status();
    const absl::Status s = CompleteConfig(&*c);
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(std::string(s.message()).substr(0, std::string(want).size()), want) << s;
  }
}

}  // namespace
}  // namespace kiln
