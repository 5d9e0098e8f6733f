#include "compiler/ops/schema.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

Schema Parsed(std::string_view text) {
  absl::StatusOr<Schema> schema = ParseSchema(text);
  EXPECT_TRUE(schema.ok()) << schema.status();
  return schema.ok() ? *schema : Schema{};
}

TEST(ParseSchema, ReadsKindsMarksAndDefaults) {
  const Schema s = Parsed(
      "aten::index_put_(Tensor(a!) self, Tensor?[] indices, SymInt[2]? size=[0, 1], *, str mode='none', "
      "ScalarType? dtype=None, Generator? generator) -> (Tensor(a!) out, Tensor(a -> *)[])");
  EXPECT_EQ(s.name, "aten::index_put_");
  ASSERT_EQ(s.args.size(), 6u);
  EXPECT_TRUE(s.args[0].written);
  EXPECT_TRUE(s.args[1].list && s.args[1].optional_item && !s.args[1].optional);
  EXPECT_TRUE(s.args[2].list && s.args[2].optional);
  EXPECT_EQ(s.args[2].kind, ArgKind::kInt);
  EXPECT_EQ(s.args[2].default_text, "[0, 1]");
  EXPECT_FALSE(s.args[2].keyword_only);
  EXPECT_TRUE(s.args[3].keyword_only);
  EXPECT_EQ(s.args[3].default_text, "'none'");
  EXPECT_EQ(s.args[5].kind, ArgKind::kGenerator);
  ASSERT_EQ(s.results.size(), 2u);
  EXPECT_FALSE(s.results[0].list);
  EXPECT_TRUE(s.results[1].list);
}

TEST(ParseSchema, RefusesWhatIsNoSchema) {
  for (const char* text :
       {"", "relu", "relu(", "relu(Tensor self", "relu(Tensor self) ->", "relu(Foo self) -> Tensor",
        "relu(Tensor) -> Tensor", "relu(Tensor self) -> Tensor x y", "relu(Tensor a Tensor b) -> Tensor"}) {
    EXPECT_EQ(ParseSchema(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(Accepts, TakesWhatIsNoWider) {
  const Schema ours = Parsed("add(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor");
  EXPECT_TRUE(Accepts(ours, Parsed("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")));
  EXPECT_TRUE(Accepts(ours, Parsed("aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor")));
  EXPECT_FALSE(Accepts(ours, Parsed("aten::add(Tensor self, Tensor other) -> Tensor")));
  EXPECT_FALSE(Accepts(ours, Parsed("aten::add(Tensor self, Tensor? other, *, Scalar alpha=1) -> Tensor")));
  EXPECT_FALSE(Accepts(ours, Parsed("aten::add(Tensor self, Tensor other, *, str alpha) -> Tensor")));
  EXPECT_FALSE(Accepts(ours, Parsed("aten::add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor[]")));
  EXPECT_TRUE(Accepts(Parsed("f(Tensor? a) -> Tensor"), Parsed("f(Tensor(x) a) -> Tensor")));
}

TEST(CheckArgs, NamesTheArgumentThatDoesNotFit) {
  SymContext syms;
  const Schema s = Parsed("f(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor");
  const Arg tensor{ValueRef{0}}, one{syms.Const(1)};
  EXPECT_TRUE(CheckArgs(s, {tensor, Arg{ArgList{one, one}}, Arg{true}, Arg{}}).ok());
  EXPECT_TRUE(CheckArgs(s, {tensor, one, Arg{true}, Arg{DType::kFloat32}}).ok());  // a lone int for int[1]
  EXPECT_TRUE(CheckArgs(s, {tensor, Arg{}, Arg{true}, Arg{}}).ok());
  const absl::Status status = CheckArgs(s, {tensor, Arg{}, Arg{1.5}, Arg{}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "f: argument 2 (keepdim) is of the wrong kind");
  EXPECT_EQ(CheckArgs(s, {tensor}).message(), "f takes 4 arguments, not 1");
  EXPECT_FALSE(CheckArgs(s, {Arg{}, one, Arg{true}, Arg{}}).ok());
  EXPECT_TRUE(CheckArgs(s, {Arg{}, one, Arg{true}, Arg{}}, /*undefined=*/true).ok());
}

TEST(DefaultArg, MakesTheArgument) {
  SymContext syms;
  const Schema s = Parsed(
      "f(int a=-3, float b=2, str c='tanh', int[] d=[1, 2], bool e=True, Tensor? f=None, ScalarType g=bf16) -> Tensor");
  const Arg wanted[] = {
      Arg{syms.Const(-3)}, Arg{2.0}, Arg{std::string("tanh")}, Arg{ArgList{Arg{syms.Const(1)}, Arg{syms.Const(2)}}},
      Arg{true},           Arg{},    Arg{DType::kBFloat16}};
  for (size_t i = 0; i < s.args.size(); ++i) {
    const absl::StatusOr<Arg> arg = DefaultArg(s.args[i], syms);
    ASSERT_TRUE(arg.ok()) << arg.status();
    EXPECT_EQ(*arg, wanted[i]) << i;
  }
}

}  // namespace
}  // namespace kiln
