#include "compiler/graph/sym.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kiln {
namespace {

class SymTest : public testing::Test {
 protected:
  Sym C(int64_t v) { return ctx.Const(v); }
  Sym Sum(std::initializer_list<Sym> terms) { return ctx.Add(std::span<const Sym>(terms.begin(), terms.size())); }
  Sym Parse(std::string_view text) {
    absl::StatusOr<Sym> s = ctx.Parse(text);
    EXPECT_TRUE(s.ok()) << s.status();
    return s.value_or(Sym{});
  }
  // What the text becomes when it is read and printed.
  std::string Canonical(std::string_view text) { return ctx.ToString(Parse(text)); }

  SymContext ctx;
  Sym s0 = ctx.Size(0, {2, kSymUnbounded});
  Sym s1 = ctx.Size(1, {2, 1024});
  Sym s2 = ctx.Size(2);  // may be 0
  Sym i0 = ctx.Axis(0, s0);
  Sym i1 = ctx.Axis(1, ctx.Const(768));
  Sym i2 = ctx.Axis(2, ctx.Const(12));
  Sym i3 = ctx.Axis(3, ctx.Const(64));
  Sym i4 = ctx.Axis(4, s2);
  Sym i5 = ctx.Axis(5, s1);
};

TEST_F(SymTest, EqualExpressionsAreOneSym) {
  EXPECT_EQ(ctx.Add(s0, s1), ctx.Add(s1, s0));
  EXPECT_EQ(ctx.Mul(ctx.Add(s0, C(1)), s1), ctx.Add(ctx.Mul(s0, s1), s1));
  EXPECT_EQ(ctx.Sub(s0, s0), C(0));
  EXPECT_EQ(C(0).id, 0u);
  EXPECT_EQ(ctx.Mul(s0, C(0)), C(0));
  EXPECT_EQ(Sum({s0, s1, s0}), ctx.Add(ctx.Mul(s0, C(2)), s1));
}

TEST_F(SymTest, PrintsAsPythonWould) {
  EXPECT_EQ(ctx.ToString(C(0)), "0");
  EXPECT_EQ(ctx.ToString(C(-3)), "-3");
  EXPECT_EQ(Canonical("768*i0 + i1"), "i0*768 + i1");
  EXPECT_EQ(Canonical("(s0+3)//4"), "(s0 + 3)//4");
  EXPECT_EQ(Canonical("s0%8*2 - s1"), "-s1 + (s0 % 8)*2");
  EXPECT_EQ(Canonical("min(s0, 4)"), "min(s0, 4)");
  EXPECT_EQ(Canonical("0 - s0//4"), "-(s0//4)");
  EXPECT_EQ(Canonical("i0*s1*s1 - 1"), "s1*s1*i0 - 1");
}

TEST_F(SymTest, TheFormDoesNotDependOnTheOrderOfConstruction) {
  SymContext other;
  Sym t1 = other.Size(1, {2, 1024});
  Sym t0 = other.Size(0, {2, kSymUnbounded});
  Sym m = other.Mod(t1, other.Const(3));
  Sym d = other.FloorDiv(t0, other.Const(5));
  EXPECT_EQ(other.ToString(other.Add(m, other.Add(d, t0))), Canonical("s0 + s0//5 + s1%3"));
}

TEST_F(SymTest, DivisionTakesAxesApart) {
  Sym flat = Parse("i0*768 + i1");
  EXPECT_EQ(ctx.FloorDiv(flat, C(768)), i0);
  EXPECT_EQ(ctx.Mod(flat, C(768)), i1);
  Sym deep = Parse("(i0*12 + i2)*64 + i3");
  EXPECT_EQ(ctx.FloorDiv(deep, C(64)), Parse("i0*12 + i2"));
  EXPECT_EQ(ctx.Mod(ctx.FloorDiv(deep, C(64)), C(12)), i2);
  EXPECT_EQ(ctx.FloorDiv(ctx.FloorDiv(deep, C(64)), C(12)), i0);
  EXPECT_EQ(ctx.Mod(deep, C(64)), i3);
  // Split at a boundary inside: i2*64 + i3 over 128.
  EXPECT_EQ(ctx.FloorDiv(deep, C(128)), Parse("i0*6 + i2//2"));
  EXPECT_EQ(ctx.Mod(deep, C(128)), Parse("(i2%2)*64 + i3"));
}

TEST_F(SymTest, DivisionTakesSymbolicExtentsApart) {
  Sym flat = Parse("i1*s1 + i5");
  EXPECT_EQ(ctx.FloorDiv(flat, s1), i1);
  EXPECT_EQ(ctx.Mod(flat, s1), i5);
  // s2 may be 0, but not where an axis of that extent has a value.
  Sym maybe_empty = Parse("i1*s2 + i4");
  EXPECT_EQ(ctx.FloorDiv(maybe_empty, s2), i1);
  EXPECT_EQ(ctx.Mod(maybe_empty, s2), i4);
  EXPECT_EQ(ctx.ToString(ctx.FloorDiv(ctx.Mul(s0, s2), s2)), "(s0*s2)//s2");
  // A sum as the divisor.
  Sym n = ctx.Add(s1, C(1));
  Sym i6 = ctx.Axis(6, n);
  Sym rows = ctx.Add(ctx.Mul(i1, n), i6);
  EXPECT_EQ(ctx.FloorDiv(rows, n), i1);
  EXPECT_EQ(ctx.Mod(rows, n), i6);
}

TEST_F(SymTest, NestedDivisionsMerge) {
  EXPECT_EQ(Parse("s0//4//3"), Parse("s0//12"));
  EXPECT_EQ(Parse("(s0 % 12) % 4"), Parse("s0 % 4"));
  EXPECT_EQ(Parse("(s0 % 12) % 12"), Parse("s0 % 12"));
  EXPECT_EQ(Parse("(s0 % 12)//4"), Parse("(s0//4) % 3"));
  EXPECT_EQ(Parse("(s0*6)//(s1*6)"), Parse("s0//s1"));
  EXPECT_EQ(Parse("(s0*s1)//(s1*s1)"), Parse("s0//s1"));
  EXPECT_EQ(Parse("(s0*4 + 3)//4"), s0);
  EXPECT_EQ(Parse("(s0 - 1)//2 + 1"), Parse("(s0 + 1)//2"));
  EXPECT_EQ(Parse("(-s0)//-4"), Parse("s0//4"));
  EXPECT_EQ(Parse("s0 % 1"), C(0));
  EXPECT_EQ(Parse("s0//s0"), C(1));
}

TEST_F(SymTest, QuotientAndRemainderMergeBack) {
  EXPECT_EQ(Parse("(s0//64)*64 + s0 % 64"), s0);
  EXPECT_EQ(Parse("(s0//768)*768 + ((s0//64) % 12)*64 + s0 % 64"), s0);
  EXPECT_EQ(Parse("((s0//64) % 12)*64 + s0 % 64"), Parse("s0 % 768"));
  EXPECT_EQ(Parse("(s0//s1)*s1*7 + (s0 % s1)*7"), Parse("s0*7"));
  EXPECT_EQ(Parse("(s0//64)*128 + s0 % 64"), Parse("s0 % 64 + (s0//64)*128"));  // padded rows stay
  Sym n = ctx.Axis(9, ctx.Mul(s0, C(768)));
  // A permutation of rows that is its own inverse.
  EXPECT_EQ(ctx.Add(ctx.Mul(ctx.FloorDiv(n, C(768)), C(768)), ctx.Mod(n, C(768))), n);
}

TEST_F(SymTest, ConstantsFoldTowardsMinusInfinity) {
  EXPECT_EQ(ctx.FloorDiv(C(-7), C(2)), C(-4));
  EXPECT_EQ(ctx.Mod(C(-7), C(2)), C(1));
  EXPECT_EQ(ctx.FloorDiv(C(7), C(-2)), C(-4));
  EXPECT_EQ(ctx.Mod(C(7), C(-2)), C(-1));
  EXPECT_EQ(ctx.CeilDiv(C(7), C(2)), C(4));
  EXPECT_EQ(ctx.ToString(ctx.FloorDiv(s0, C(0))), "0//0");
  EXPECT_FALSE(ctx.Eval(ctx.FloorDiv(s0, C(0)), [](Var) { return 5; }).ok());
}

TEST_F(SymTest, BoundsBySizesAndExtents) {
  EXPECT_TRUE(ctx.ProvablyLess(i0, s0));
  EXPECT_TRUE(ctx.ProvablyLess(Parse("i0*768 + i1"), Parse("s0*768")));
  EXPECT_FALSE(ctx.ProvablyLess(Parse("i0*768 + i1 + 1"), Parse("s0*768")));
  EXPECT_TRUE(ctx.ProvablyLess(Parse("i1*s1 + i5"), Parse("s1*768")));
  EXPECT_TRUE(ctx.ProvablyLess(Parse("i1*s2 + i4"), Parse("s2*768")));
  EXPECT_TRUE(ctx.ProvablyLess(C(0), s0));
  EXPECT_FALSE(ctx.ProvablyLess(C(0), s2));
  EXPECT_TRUE(ctx.ProvablyLess(s1, C(1025)));
  EXPECT_FALSE(ctx.ProvablyLess(s1, C(1024)));
  EXPECT_TRUE(ctx.ProvablyLessEqual(s1, Parse("s0*s1")));
  EXPECT_FALSE(ctx.ProvablyLessEqual(Parse("s0*s1"), s1));
}

TEST_F(SymTest, BoundsOfQuotientsAndRemainders) {
  Sym n = ctx.Axis(9, ctx.Mul(s0, C(768)));
  EXPECT_TRUE(ctx.ProvablyLess(ctx.FloorDiv(n, C(768)), s0));
  EXPECT_TRUE(ctx.ProvablyLess(Parse("i9 % s1"), s1));
  EXPECT_TRUE(ctx.ProvablyLessEqual(s0, Parse("(s0 + 3)//4*4")));
  EXPECT_TRUE(ctx.ProvablyLess(Parse("(s0 + 3)//4*4"), Parse("s0 + 4")));
  EXPECT_FALSE(ctx.ProvablyLess(Parse("(s0 + 3)//4*4"), Parse("s0 + 3")));
  EXPECT_TRUE(ctx.ProvablyLessEqual(Parse("s0//4*4"), s0));
  EXPECT_TRUE(ctx.ProvablyLessEqual(Parse("min(s0, s1 + 3)"), s0));
  EXPECT_FALSE(ctx.ProvablyLessEqual(s0, Parse("min(s0, s1 + 3)")));
  EXPECT_TRUE(ctx.ProvablyDivisible(Parse("s0*s1*12"), Parse("s1*4")));
  EXPECT_FALSE(ctx.ProvablyDivisible(s0, C(2)));
  EXPECT_TRUE(ctx.ProvablyDivisible(Parse("min(s0*8, s1*4)"), C(4)));
  EXPECT_FALSE(ctx.ProvablyDivisible(Parse("min(s0*8, s1)"), C(4)));
}

TEST_F(SymTest, MinAndMaxByRanges) {
  EXPECT_EQ(Parse("min(s0, 1)"), C(1));
  EXPECT_EQ(Parse("max(s1, 2000)"), C(2000));
  EXPECT_EQ(Parse("min(i0, s0)"), i0);
  EXPECT_EQ(Parse("max(s0, s1)"), Parse("max(s1, s0)"));
  EXPECT_EQ(Canonical("max(s0, 5)"), "max(s0, 5)");
}

TEST_F(SymTest, Ranges) {
  EXPECT_EQ(ctx.RangeOf(Parse("s1*2 - 1")), (SymRange{3, 2047}));
  EXPECT_EQ(ctx.RangeOf(Parse("s0 % 8")), (SymRange{0, 7}));
  EXPECT_EQ(ctx.RangeOf(Parse("s1//100")), (SymRange{0, 10}));
  EXPECT_EQ(ctx.RangeOf(Parse("-s0")).max, -2);
  EXPECT_EQ(ctx.RangeOf(Parse("s0 - 5")).max, kSymUnbounded);
  EXPECT_EQ(ctx.Range({VarKind::kAxis, 1}), (SymRange{0, 767}));
  ctx.Size(1, {4, 2000});
  EXPECT_EQ(ctx.RangeOf(s1), (SymRange{4, 1024}));
}

TEST_F(SymTest, LinearParts) {
  auto linear = ctx.AsLinear(Parse("i0*s1*4 + i0 + s0//4 + 3"), {VarKind::kAxis, 0});
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->coefficient, Parse("s1*4 + 1"));
  EXPECT_EQ(linear->rest, Parse("s0//4 + 3"));
  EXPECT_FALSE(ctx.AsLinear(Parse("i0//3"), {VarKind::kAxis, 0}));
  EXPECT_FALSE(ctx.AsLinear(Parse("i0*i0"), {VarKind::kAxis, 0}));
  EXPECT_EQ(ctx.AsLinear(s0, {VarKind::kAxis, 0})->coefficient, C(0));
  EXPECT_TRUE(ctx.Mentions(Parse("(i0 + 1)//5 + s0"), {VarKind::kAxis, 0}));
  EXPECT_FALSE(ctx.Mentions(s0, {VarKind::kAxis, 0}));
  EXPECT_EQ(ctx.Variables(Parse("(i0 + s1)//5 + s0")),
            (std::vector<Var>{{VarKind::kSize, 0}, {VarKind::kSize, 1}, {VarKind::kAxis, 0}}));
}

TEST_F(SymTest, SubstitutionSimplifies) {
  Sym s = Parse("(i0*5 + s1)//5 + i0");
  EXPECT_EQ(ctx.Substitute(s, [&](Var v) { return v == Var{VarKind::kSize, 1} ? std::optional(C(10)) : std::nullopt; }),
            Parse("i0*2 + 2"));
  EXPECT_EQ(ctx.Substitute(s, [](Var) { return std::nullopt; }), s);
}

TEST_F(SymTest, ImportRebuildsInAnotherContext) {
  SymContext other;
  Sym t = other.Size(7);
  Sym s = other.Import(ctx, Parse("(s0 + 3)//4*2"), [&](Var) { return t; });
  EXPECT_EQ(other.ToString(s), "((s7 + 3)//4)*2");
}

TEST_F(SymTest, NodesSpellTheExpression) {
  SymNode sum = ctx.Node(Parse("s0*768 + (s1//4)*2 + 5"));
  ASSERT_EQ(sum.op, SymNode::Op::kAdd);
  ASSERT_EQ(sum.args.size(), 3u);
  SymNode product = ctx.Node(sum.args[0]);
  ASSERT_EQ(product.op, SymNode::Op::kMul);
  EXPECT_EQ(product.args[0], s0);
  EXPECT_EQ(product.args[1], C(768));
  EXPECT_EQ(ctx.Node(ctx.Node(sum.args[1]).args[0]).op, SymNode::Op::kFloorDiv);
  EXPECT_EQ(ctx.Node(sum.args[2]).value, 5);
  EXPECT_EQ(ctx.Node(s1).var, (Var{VarKind::kSize, 1}));
}

TEST_F(SymTest, OverflowIsNeverSilent) {
  Sym big = C(INT64_MAX);
  auto value = [](Var) { return 3; };
  EXPECT_FALSE(ctx.Eval(ctx.Mul(big, C(2)), value).ok());
  EXPECT_FALSE(ctx.Eval(ctx.Add(big, C(1)), value).ok());
  EXPECT_EQ(*ctx.Eval(ctx.Sub(ctx.Add(big, s0), s0), value), INT64_MAX);
  EXPECT_FALSE(ctx.Eval(ctx.Mul(ctx.Mul(s0, big), s1), value).ok());
  EXPECT_EQ(ctx.Eval(s0, [](Var) { return std::nullopt; }).status().code(), absl::StatusCode::kInvalidArgument);
  for (std::string_view text :
       {"-9223372036854775808", "s0*-9223372036854775808 + s1", "s1*s1 + s0*-9223372036854775808"}) {
    EXPECT_EQ(Parse(ctx.ToString(Parse(text))), Parse(text)) << text;
  }
  EXPECT_EQ(ctx.ToString(ctx.Sub(C(0), C(INT64_MIN))), "((-9223372036854775808)*(-1))");
}

TEST_F(SymTest, GrowthIsBounded) {
  // (x0 + … + x19)^k would have millions of terms.
  Sym sum;
  for (int i = 0; i < 20; ++i) sum = ctx.Add(sum, ctx.Size(100 + i));
  Sym power = sum;
  for (int i = 0; i < 20; ++i) power = ctx.Mul(power, sum);
  EXPECT_LT(ctx.footprint(), 200000u);
  EXPECT_EQ(ctx.Eval(power, [](Var v) { return v.index == 100 ? 2 : 0; }).value_or(0), 1 << 21);
  Sym square = s0;
  for (int i = 0; i < 40; ++i) square = ctx.Mul(square, square);
  EXPECT_LT(ctx.footprint(), 200000u);
  EXPECT_EQ(ctx.Eval(square, [](Var) { return 1; }).value_or(0), 1);
  // A chain that doubles in text at every step.
  Sym twice = s0;
  for (int i = 0; i < 100; ++i) twice = ctx.Add(ctx.FloorDiv(twice, s2), ctx.Mod(twice, s2));
  EXPECT_GT(ctx.Weight(twice), uint64_t{1} << 60);
  EXPECT_GE(ctx.Depth(twice), 100u);
  EXPECT_EQ(ctx.Eval(twice, [](Var) { return 1; }).value_or(0), 1);
}

TEST_F(SymTest, ParseErrorsNameTheOffset) {
  for (std::string_view text : {"", "s0 +", "s99", "(s0", "min(s0)", "s0 s1", "99999999999999999999", "s0 ** 2", "$"}) {
    absl::StatusOr<Sym> s = ctx.Parse(text);
    ASSERT_FALSE(s.ok()) << text;
    EXPECT_EQ(s.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(s.status().message()).find("offset"), std::string::npos);
  }
  EXPECT_FALSE(ctx.Parse(std::string(100000, '(')).ok());
  EXPECT_FALSE(ctx.Parse(std::string(100000, '-')).ok());
}

}  // namespace
}  // namespace kiln
