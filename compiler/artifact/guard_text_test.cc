#include "compiler/artifact/guard_text.h"

#include <gtest/gtest.h>

#include "google/protobuf/text_format.h"

namespace kiln {
namespace {

v1::SymTable Table(const std::string& text) {
  v1::SymTable table;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &table));
  return table;
}

TEST(GuardText, Expressions) {
  const v1::SymTable t = Table(
      "exprs { op: SYMBOL value: 0 } exprs { op: CONST value: 2 } exprs { op: ADD args: 0 args: 1 } "
      "exprs { op: FLOOR_DIV args: 2 args: 1 } exprs { op: MAX args: 3 args: 0 } exprs { op: ADD args: 9 args: 1 }");
  EXPECT_EQ(SymText(t, 0), "s0");
  EXPECT_EQ(SymText(t, 2), "s0 + 2");
  EXPECT_EQ(SymText(t, 3), "(s0 + 2)//2");
  EXPECT_EQ(SymText(t, 4), "max((s0 + 2)//2, s0)");
  EXPECT_EQ(SymText(t, 5), "? + 2");
  EXPECT_EQ(SymText(t, 6), "e6");
}

TEST(GuardText, LongExpressionsAreNamed) {
  v1::SymTable t = Table("exprs { op: SYMBOL }");
  for (uint32_t i = 1; i < 100; ++i) {
    v1::SymExpr* e = t.add_exprs();
    e->set_op(v1::SymExpr::MUL);
    e->add_args(i - 1);
    e->add_args(i - 1);
  }
  EXPECT_LE(SymText(t, 99).size(), 120u);
}

TEST(GuardText, Types) {
  v1::TensorType type;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "dtype: FLOAT32 device: CPU sizes: 1 sizes: 0 strides: 0 strides: 2", &type));
  EXPECT_EQ(
      TypeText(Table("exprs { op: SYMBOL value: 0 } exprs { op: CONST value: 8 } exprs { op: CONST value: 1 }"), type),
      "float32[8, s0] strides [s0, 1] cpu");
}

TEST(GuardText, SymbolsMayHaveNames) {
  const v1::SymTable t =
      Table("exprs { op: SYMBOL value: 1 } exprs { op: SYMBOL value: 2 } exprs { op: MUL args: 0 args: 1 }");
  const std::vector<std::string> names = {"a", "b"};
  EXPECT_EQ(SymTexts(t, names)[2], "b*s2");
}

TEST(GuardText, Predicates) {
  v1::Predicate p;
  p.set_op(v1::Predicate::LT);
  p.set_rhs(7);
  EXPECT_EQ(PredicateText({"s0"}, p), "s0 < e7");
}

}  // namespace
}  // namespace kiln
