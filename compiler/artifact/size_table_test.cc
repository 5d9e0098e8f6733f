#include "compiler/artifact/size_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace kiln {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

class Table {
 public:
  explicit Table(std::vector<std::pair<int64_t, int64_t>> ranges = {}) {
    for (auto [min, max] : ranges) {
      v1::Symbol* s = proto_.add_symbols();
      s->set_min(min);
      s->set_max(max);
    }
  }
  uint32_t Const(int64_t v) { return Add(v1::SymExpr::CONST, v, {}); }
  uint32_t Symbol(int64_t v) { return Add(v1::SymExpr::SYMBOL, v, {}); }
  uint32_t Op(v1::SymExpr::Op op, std::vector<uint32_t> args) { return Add(op, 0, args); }
  absl::StatusOr<SizeTable> Build() const { return SizeTable::Create(proto_); }

 private:
  uint32_t Add(v1::SymExpr::Op op, int64_t value, const std::vector<uint32_t>& args) {
    v1::SymExpr* e = proto_.add_exprs();
    e->set_op(op);
    e->set_value(value);
    for (uint32_t a : args) e->add_args(a);
    return static_cast<uint32_t>(proto_.exprs_size() - 1);
  }
  v1::SymTable proto_;
};

// The value of OP(a, b), both as constants and as symbols, which must agree.
absl::StatusOr<int64_t> Binary(v1::SymExpr::Op op, int64_t a, int64_t b) {
  Table constant;
  constant.Const(a);
  constant.Const(b);
  constant.Op(op, {0, 1});
  absl::StatusOr<SizeTable> folded = constant.Build();

  Table dynamic({{kMin, kMax}, {kMin, kMax}});
  dynamic.Symbol(0);
  dynamic.Symbol(1);
  dynamic.Op(op, {0, 1});
  const SizeTable table = *dynamic.Build();
  std::vector<int64_t> values = table.constants();
  const int64_t symbols[] = {a, b};
  absl::Status status = table.Evaluate(symbols, values);
  EXPECT_EQ(folded.status(), status);
  if (!status.ok()) return status;
  EXPECT_TRUE(folded->IsConstant(2));
  EXPECT_FALSE(table.IsConstant(2));
  EXPECT_EQ(folded->constants()[2], values[2]);
  return values[2];
}

TEST(SizeTable, RoundsTowardsMinusInfinity) {
  for (auto [a, b, quotient, rest] : {std::array<int64_t, 4>{7, 2, 3, 1},
                                      {-7, 2, -4, 1},
                                      {7, -2, -4, -1},
                                      {-7, -2, 3, -1},
                                      {6, -3, -2, 0},
                                      {0, 5, 0, 0}}) {
    EXPECT_EQ(*Binary(v1::SymExpr::FLOOR_DIV, a, b), quotient) << a << " // " << b;
    EXPECT_EQ(*Binary(v1::SymExpr::MOD, a, b), rest) << a << " % " << b;
  }
}

TEST(SizeTable, MinMaxAddMul) {
  EXPECT_EQ(*Binary(v1::SymExpr::MIN, -3, 4), -3);
  EXPECT_EQ(*Binary(v1::SymExpr::MAX, -3, 4), 4);
  EXPECT_EQ(*Binary(v1::SymExpr::ADD, -3, 4), 1);
  EXPECT_EQ(*Binary(v1::SymExpr::MUL, -3, 4), -12);
}

TEST(SizeTable, OverflowIsAnError) {
  EXPECT_FALSE(Binary(v1::SymExpr::ADD, kMax, 1).ok());
  EXPECT_FALSE(Binary(v1::SymExpr::MUL, kMax, 2).ok());
  EXPECT_FALSE(Binary(v1::SymExpr::FLOOR_DIV, kMin, -1).ok());
  EXPECT_EQ(*Binary(v1::SymExpr::MOD, kMin, -1), 0);
  EXPECT_FALSE(Binary(v1::SymExpr::FLOOR_DIV, 1, 0).ok());
  EXPECT_FALSE(Binary(v1::SymExpr::MOD, 1, 0).ok());
}

TEST(SizeTable, SymbolsKeepTheirRange) {
  Table t({{2, 100}});
  t.Symbol(0);
  const SizeTable table = *t.Build();
  std::vector<int64_t> values = table.constants();
  const int64_t in[] = {2}, out[] = {1};
  EXPECT_TRUE(table.Evaluate(in, values).ok());
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(table.Evaluate(out, values).message(), "symbol s0 is 1; the plan is for [2, 100]");
}

TEST(SizeTable, MalformedTablesAreRefused) {
  const auto refused = [](const Table& t) { return std::string(t.Build().status().message()); };
  Table forward;
  forward.Op(v1::SymExpr::ADD, {0, 1});
  EXPECT_EQ(refused(forward), "syms.exprs[0]: an operand is not an earlier entry");
  Table arity;
  arity.Const(1);
  arity.Op(v1::SymExpr::MOD, {0});
  EXPECT_EQ(refused(arity), "syms.exprs[1]: wrong number of operands");
  Table symbol;
  symbol.Symbol(0);
  EXPECT_EQ(refused(symbol), "syms.exprs[0]: no such symbol");
  Table op;
  op.Op(v1::SymExpr::OP_UNSPECIFIED, {});
  EXPECT_EQ(refused(op), "syms.exprs[0]: unknown op");
  EXPECT_EQ(refused(Table({{3, 2}})), "syms.symbols[0]: empty range [3, 2]");
}

}  // namespace
}  // namespace kiln
