#include "client/cpp/schema.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

using Type = SchemaArg::Type;

TEST(Schema, NameAndOverload) {
  const Schema add = *Schema::Parse("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  EXPECT_EQ(add.name, "aten::add");
  EXPECT_EQ(add.overload, "Tensor");
  ASSERT_EQ(add.args.size(), 3u);
  EXPECT_EQ(add.args[1].name, "other");
  EXPECT_FALSE(add.args[1].keyword_only);
  EXPECT_EQ(add.args[2].type, Type::kScalar);
  EXPECT_TRUE(add.args[2].keyword_only);
  ASSERT_EQ(add.returns.size(), 1u);
  EXPECT_EQ(add.returns[0].type, Type::kTensor);
  EXPECT_EQ(Schema::Parse("aten::mm(Tensor self, Tensor mat2) -> Tensor")->overload, "");
}

TEST(Schema, ListsAndOptionals) {
  const Schema s = *Schema::Parse(
      "aten::f(SymInt[]? a, Tensor?[] b, bool[3] c, float? d, int[2] e=[0, 0], str f=\"a,)\", Scalar?[] g) -> ()");
  ASSERT_EQ(s.args.size(), 7u);
  EXPECT_TRUE(s.args[0].list && s.args[0].optional && !s.args[0].optional_item);
  EXPECT_TRUE(s.args[1].list && !s.args[1].optional && s.args[1].optional_item);
  EXPECT_EQ(s.args[2].list_size, 3);
  EXPECT_TRUE(!s.args[3].list && s.args[3].optional);
  EXPECT_EQ(s.args[4].name, "e");
  EXPECT_EQ(s.args[5].type, Type::kString);
  EXPECT_EQ(s.args[6].type, Type::kScalar);
  EXPECT_TRUE(s.returns.empty());
}

TEST(Schema, AliasAnnotations) {
  const Schema copy = *Schema::Parse("aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)");
  EXPECT_TRUE(copy.args[0].alias && copy.args[0].mutated);
  EXPECT_FALSE(copy.args[1].alias);
  EXPECT_TRUE(copy.returns[0].alias);
  const Schema split =
      *Schema::Parse("aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]");
  EXPECT_TRUE(split.args[0].alias && !split.args[0].mutated);
  EXPECT_TRUE(split.returns[0].list && split.returns[0].alias);
}

TEST(Schema, SeveralReturns) {
  const Schema s = *Schema::Parse("aten::histogramdd(Tensor self) -> (Tensor hist, Tensor[] bin_edges)");
  ASSERT_EQ(s.returns.size(), 2u);
  EXPECT_EQ(s.returns[0].name, "hist");
  EXPECT_TRUE(s.returns[1].list);
}

TEST(Schema, UnknownTypesAreOther) {
  EXPECT_EQ(Schema::Parse("aten::f(Stream s) -> Tensor")->args[0].type, Type::kOther);
  EXPECT_EQ(Schema::Parse("aten::f(Tensor[][] s) -> Tensor")->args[0].type, Type::kOther);
}

TEST(Schema, GarbageIsRefused) {
  for (const char* text :
       {"", "(", "aten::f", "aten::f(", "aten::f(Tensor", "aten::f(Tensor a) ->", "aten::f(Tensor[x] a) -> Tensor",
        "aten::f(Tensor(a a) -> ", "aten::f(int a=[) -> Tensor", "aten::f() -> Tensor x y", ")("}) {
    EXPECT_EQ(Schema::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace kiln
