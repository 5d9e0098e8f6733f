#include "client/cli/format.h"

#include <gtest/gtest.h>

#include "google/protobuf/text_format.h"

namespace kiln {
namespace {

TEST(Format, BytesAndTimes) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(10ull << 30), "10.0 GiB");
  EXPECT_EQ(Seconds(0.0032), "3.2 ms");
  EXPECT_EQ(Seconds(1.5), "1.50 s");
  EXPECT_EQ(Seconds(125), "2m 05s");
  EXPECT_EQ(Seconds(3 * 3600 + 240), "3h 04m");
  EXPECT_EQ(Seconds(86400.0 * 5 + 3600 * 6), "5d 06h");
  EXPECT_EQ(Ago(1'000'000, 4'500'000), "3s ago");
  EXPECT_EQ(Ago(0, 5), "-");
  EXPECT_EQ(Hex(std::string("\x00\xab", 2)), "00ab");
  EXPECT_EQ(Hex("\xab\xcd", 2), "ab");
}

v1::SymTable Table(const std::string& text) {
  v1::SymTable table;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &table));
  return table;
}

TEST(Format, Expressions) {
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

TEST(Format, LongExpressionsAreNamed) {
  v1::SymTable t = Table("exprs { op: SYMBOL }");
  for (uint32_t i = 1; i < 100; ++i) {
    v1::SymExpr* e = t.add_exprs();
    e->set_op(v1::SymExpr::MUL);
    e->add_args(i - 1);
    e->add_args(i - 1);
  }
  EXPECT_LE(SymText(t, 99).size(), 120u);
}

TEST(Format, Types) {
  v1::TensorType type;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "dtype: FLOAT32 device: CPU sizes: 1 sizes: 0 strides: 0 strides: 2", &type));
  EXPECT_EQ(
      TypeText(Table("exprs { op: SYMBOL value: 0 } exprs { op: CONST value: 8 } exprs { op: CONST value: 1 }"), type),
      "float32[8, s0] strides [s0, 1] cpu");
}

}  // namespace
}  // namespace kiln
