#include "compiler/pipeline/pass.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

// A program is a number; it is well formed if it is even.
class Number : public Ir<int> {
 public:
  std::string_view extension() const override { return "num"; }
  std::string Print(const int& n) const override { return absl::StrCat(n, "\n"); }
  absl::Status Verify(const int& n) const override {
    return n % 2 == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat(n, " is odd"));
  }
  absl::Status ReadBack(const int& n, const std::string& text) const override {
    return std::stoi(text) == n ? absl::OkStatus() : absl::InternalError("reads back as another");
  }
  absl::Status Compare(const int& a, const int& b) const override {
    return b < a ? absl::InternalError("shrinks") : absl::OkStatus();
  }
  bool Same(const int& a, const int& b) const override { return a == b; }
};

absl::StatusOr<int> AddOne(int n, const Options&) { return n + 1; }
absl::StatusOr<int> Double(int n, const Options&) { return 2 * n; }
absl::StatusOr<int> Halve(int n, const Options&) { return n / 2; }
absl::StatusOr<int> Refuse(int, const Options&) { return absl::UnimplementedError("no"); }
absl::StatusOr<int> Keep(int n, const Options&) { return n; }
bool IsFast(const Options& options) { return options.precision == Precision::kFast; }

absl::StatusOr<int> Apply(int n, std::vector<Pass<int>> passes, const PassContext& context = {}) {
  return RunPasses<int>(n, passes, Number(), context);
}

TEST(RunPasses, InOrderAndUnderTheirConditions) {
  EXPECT_EQ(*Apply(3, {{"add", AddOne}, {"double", Double}}), 8);
  EXPECT_EQ(*Apply(3, {{"add", AddOne, IsFast}, {"double", Double}}), 6);
  PassContext fast;
  fast.options.precision = Precision::kFast;
  EXPECT_EQ(*Apply(3, {{"add", AddOne, IsFast}, {"double", Double}}, fast), 8);
}

TEST(RunPasses, ErrorsNameThePass) {
  EXPECT_EQ(Apply(2, {{"refuse", Refuse}}).status(), absl::UnimplementedError("refuse: no"));
}

TEST(RunPasses, VerifiesOnlyWhenAsked) {
  EXPECT_TRUE(Apply(2, {{"add", AddOne}}).ok());
  PassContext context;
  context.debug.verify = true;
  EXPECT_EQ(Apply(2, {{"add", AddOne}}, context).status(), absl::InternalError("add: 3 is odd"));
  EXPECT_EQ(Apply(4, {{"halve", Halve}}, context).status(), absl::InternalError("halve: shrinks"));
  EXPECT_EQ(*Apply(3, {{"keep", Keep}}, context), 3);  // unchanged: not checked again
}

TEST(RunPasses, StopsWhenCancelled) {
  int asked = 0;
  PassContext context;
  context.cancelled = [&] { return ++asked == 2; };
  absl::Status status = Apply(2, {{"double", Double}, {"add", AddOne}}, context).status();
  EXPECT_EQ(status, absl::CancelledError("cancelled before add"));
}

TEST(RunPasses, Times) {
  StageTimes times;
  PassContext context;
  context.times = &times;
  ASSERT_TRUE(Apply(2, {{"double", Double}, {"add", AddOne}, {"double", Double}}, context).ok());
  const std::string report = times.Report();
  EXPECT_LT(report.find("double"), report.find("add"));
  EXPECT_EQ(std::count(report.begin(), report.end(), '\n'), 2);
  ASSERT_EQ(times.stages().size(), 2u);
  EXPECT_DOUBLE_EQ(times.stages()[0].second + times.stages()[1].second, times.total());
}

TEST(RunPasses, DumpsIntoADirectory) {
  PassContext context;
  context.subject = "forward";
  context.debug.dump = ParseDumpRules("add@forward,double@backward");
  context.debug.dump_dir = std::getenv("TEST_TMPDIR") ? std::getenv("TEST_TMPDIR") : "/tmp";
  ASSERT_TRUE(Apply(2, {{"double", Double}, {"add", AddOne}}, context).ok());
  std::ifstream added(context.debug.dump_dir + "/forward.02-add.num");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(added), {}), "5\n");
  EXPECT_FALSE(std::ifstream(context.debug.dump_dir + "/forward.01-double.num").good());
}

// A program that can only be moved.
class Boxed : public Ir<std::unique_ptr<int>> {
 public:
  std::string_view extension() const override { return "num"; }
  std::string Print(const std::unique_ptr<int>& n) const override { return absl::StrCat(*n); }
  absl::Status Verify(const std::unique_ptr<int>& n) const override { return Number().Verify(*n); }
  absl::Status ReadBack(const std::unique_ptr<int>&, const std::string&) const override { return absl::OkStatus(); }
};

TEST(RunPasses, ProgramsNeedNotBeCopyable) {
  Pass<std::unique_ptr<int>> pass{"add",
                                  [](std::unique_ptr<int> n, const Options&) -> absl::StatusOr<std::unique_ptr<int>> {
                                    ++*n;
                                    return n;
                                  }};
  PassContext context;
  context.debug.verify = true;
  auto out = RunPasses<std::unique_ptr<int>>(std::make_unique<int>(3), std::span(&pass, 1), Boxed(), context);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(**out, 4);
}

}  // namespace
}  // namespace kiln
