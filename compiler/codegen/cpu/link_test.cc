#include "compiler/codegen/cpu/link.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <thread>

#include "compiler/codegen/cpu/native_run.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/loop/text.h"

namespace kiln {
namespace {

// Stores the constant `value` to its only buffer.
std::string ObjectThatStores(const std::string& symbol, const std::string& value) {
  const auto kernel =
      loop::ParseKernel("kernel {\n  buffer b0: i64[1] write\n  parallel i0 in 0..1 grain 1 {\n    v0: i64 = const " +
                        value + "\n    store b0[0] = v0\n  }\n}\n");
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  const auto object = CompileObject(*kernel, symbol, "x86-64-v2");
  EXPECT_TRUE(object.ok()) << object.status();
  return object.value_or("");
}

int64_t StoredBy(const std::string& shared_object, const std::string& symbol) {
  const auto native = NativeKernel::Load(shared_object, symbol);
  EXPECT_TRUE(native.ok()) << native.status();
  if (!native.ok()) return -1;
  int64_t result = 0, error = 0;
  void* buffers[] = {&result};
  native->function()(buffers, nullptr, 0, 1, &error);
  return result;
}

TEST(LinkShared, LinksManyObjectsIntoOne) {
  std::vector<std::string> objects, symbols;
  for (int i = 0; i < 20; ++i) {
    symbols.push_back("k_" + std::to_string(i));
    objects.push_back(ObjectThatStores(symbols.back(), std::to_string(100 + i)));
  }
  const auto linked = LinkShared(objects, symbols);
  ASSERT_TRUE(linked.ok()) << linked.status();
  EXPECT_EQ(StoredBy(*linked, "k_0"), 100);
  EXPECT_EQ(StoredBy(*linked, "k_19"), 119);
  EXPECT_TRUE(LinkShared(objects, symbols).value() == *linked);
}

TEST(LinkShared, ExportsWhatItIsTold) {
  const std::string objects[] = {ObjectThatStores("shown", "1"), ObjectThatStores("hidden", "2")};
  const std::string symbols[] = {"shown"};
  const auto linked = LinkShared(objects, symbols);
  ASSERT_TRUE(linked.ok()) << linked.status();
  EXPECT_EQ(StoredBy(*linked, "shown"), 1);
  EXPECT_EQ(NativeKernel::Load(*linked, "hidden").status().code(), absl::StatusCode::kInternal);
}

TEST(LinkShared, RefusesWrongInput) {
  const std::string good[] = {ObjectThatStores("k", "1")};
  const std::string k[] = {"k"};
  const auto code = [](const absl::StatusOr<std::string>& result) { return result.status().code(); };
  EXPECT_EQ(code(LinkShared({}, k)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(LinkShared(good, {})), absl::StatusCode::kInvalidArgument);
  const std::string absent[] = {"absent"};
  EXPECT_EQ(code(LinkShared(good, absent)), absl::StatusCode::kInvalidArgument);
  const std::string injected[] = {"k; local: *; }; {"};
  EXPECT_EQ(LinkShared(good, injected).status(), absl::InvalidArgumentError("symbols[0]: not a C identifier"));
  const std::string twice[] = {good[0], good[0]};
  EXPECT_EQ(code(LinkShared(twice, k)), absl::StatusCode::kInvalidArgument);
  const auto shared_object = LinkShared(good, k);
  ASSERT_TRUE(shared_object.ok());
  EXPECT_EQ(LinkShared(std::span(&*shared_object, 1), k).status(),
            absl::InvalidArgumentError("objects[0]: not an x86-64 relocatable"));
  EXPECT_TRUE(LinkShared(good, k).ok());
}

TEST(LinkShared, SurvivesGarbage) {
  const std::string k[] = {"k"};
  const std::string good = ObjectThatStores("k", "1");
  const std::vector<std::string> garbage = {"",
                                            "garbage",
                                            std::string(64, '\0'),
                                            "\177ELF" + good,
                                            good.substr(0, 40),
                                            good.substr(0, 64),
                                            good.substr(0, good.size() / 2),
                                            "INPUT(/etc/passwd)",
                                            "!<arch>\n"};
  for (const std::string& bad : garbage) {
    EXPECT_FALSE(LinkShared(std::span(&bad, 1), k).ok());
  }
  EXPECT_TRUE(LinkerIsUsable());
  EXPECT_TRUE(LinkShared(std::span(&good, 1), k).ok());
}

TEST(LinkShared, ThreadsTakeTurns) {
  const std::string objects[] = {ObjectThatStores("k", "7")};
  const std::string symbols[] = {"k"};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto linked = LinkShared(objects, symbols);
      EXPECT_TRUE(linked.ok()) << linked.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln
