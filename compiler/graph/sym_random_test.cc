// Random expressions against direct evaluation of the operations that built them.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/graph/sym.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

using Values = std::map<Var, int64_t>;

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

// Sizes s0-s3 and axes i0-i4, small enough for every assignment to be drawn often.
class RandomExpressions : public testing::TestWithParam<int> {
 protected:
  RandomExpressions() : rng(GetParam()) {
    const SymRange ranges[] = {{0, 6}, {1, 9}, {2, kSymUnbounded}, {3, 3}};
    for (uint32_t i = 0; i < 4; ++i) sizes.push_back(ctx.Size(i, ranges[i]));
    const Sym extents[] = {sizes[0], sizes[1], ctx.Const(6), ctx.Mul(sizes[1], sizes[2]),
                           ctx.Add(sizes[2], ctx.Const(1))};
    for (uint32_t i = 0; i < 5; ++i) axes.push_back(ctx.Axis(i, extents[i]));
    for (int i = 0; i < 24; ++i) assignments.push_back(Draw());
    for (Sym s : sizes) Push(s);
    for (Sym s : axes) Push(s);
  }

  int64_t Pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); }

  Values Draw() {
    while (true) {
      Values v = {{{VarKind::kSize, 0}, Pick(0, 6)},
                  {{VarKind::kSize, 1}, Pick(1, 9)},
                  {{VarKind::kSize, 2}, Pick(2, 12)},
                  {{VarKind::kSize, 3}, 3}};
      auto size = [&](uint32_t i) { return v[{VarKind::kSize, i}]; };
      const int64_t extents[] = {size(0), size(1), 6, size(1) * size(2), size(2) + 1};
      if (size(0) == 0) continue;  // an axis has no value then
      for (uint32_t i = 0; i < 5; ++i) v[{VarKind::kAxis, i}] = Pick(0, 1) ? Pick(0, extents[i] - 1) : extents[i] - 1;
      return v;
    }
  }

  static std::function<std::optional<int64_t>(Var)> Lookup(const Values& values) {
    return [&values](Var v) { return std::optional<int64_t>(values.at(v)); };
  }

  void Push(Sym s) {
    std::vector<int64_t> direct;
    for (const Values& v : assignments) direct.push_back(v.at(*ctx.AsVar(s)));
    pool.push_back({s, direct, ""});
  }

  struct Known {
    Sym sym;
    std::vector<int64_t> direct;  // one an assignment
    std::string how;
  };

  const Known& Any() { return pool[Pick(0, static_cast<int64_t>(pool.size()) - 1)]; }
  Known Constant() {
    int64_t c = Pick(-4, 12);
    return {ctx.Const(c), std::vector<int64_t>(assignments.size(), c), ""};
  }

  // One operation on known expressions; nothing if an assignment divides by zero or values grow large.
  std::optional<Known> Step() {
    Known a = Any();
    Known b = Pick(0, 1) ? Any() : Constant();
    int64_t op = Pick(0, 7);
    Known out;
    switch (op) {
      case 0:
      case 1:
        out.sym = ctx.Add(a.sym, b.sym);
        break;
      case 2:
        out.sym = ctx.Sub(a.sym, b.sym);
        break;
      case 3:
        out.sym = ctx.Mul(a.sym, b.sym);
        break;
      case 4:
      case 5: {
        if (std::count(b.direct.begin(), b.direct.end(), 0) > 0) return std::nullopt;
        out.sym = op == 4 ? ctx.FloorDiv(a.sym, b.sym) : ctx.Mod(a.sym, b.sym);
        break;
      }
      default:
        out.sym = op == 6 ? ctx.Min(a.sym, b.sym) : ctx.Max(a.sym, b.sym);
    }
    for (size_t i = 0; i < assignments.size(); ++i) {
      int64_t x = a.direct[i], y = b.direct[i];
      int64_t r = op <= 1   ? x + y
                  : op == 2 ? x - y
                  : op == 3 ? x * y
                  : op == 4 ? FloorDiv(x, y)
                  : op == 5 ? x - y * FloorDiv(x, y)
                  : op == 6 ? std::min(x, y)
                            : std::max(x, y);
      if (r > 1000000 || r < -1000000) return std::nullopt;
      out.direct.push_back(r);
    }
    out.how = ctx.ToString(a.sym) + " <" + std::to_string(op) + "> " + ctx.ToString(b.sym);
    if (ctx.Weight(out.sym) > 60) return std::nullopt;
    return out;
  }

  std::mt19937_64 rng;
  SymContext ctx;
  std::vector<Sym> sizes, axes;
  std::vector<Values> assignments;
  std::vector<Known> pool;
};

TEST_P(RandomExpressions, EvalEqualsDirectEvaluation) {
  for (int i = 0; i < 600; ++i) {
    std::optional<Known> next = Step();
    if (!next) continue;
    SymRange range = ctx.RangeOf(next->sym);
    for (size_t k = 0; k < assignments.size(); ++k) {
      absl::StatusOr<int64_t> value = ctx.Eval(next->sym, Lookup(assignments[k]));
      ASSERT_TRUE(value.ok()) << ctx.ToString(next->sym) << ": " << value.status();
      ASSERT_EQ(*value, next->direct[k]) << ctx.ToString(next->sym) << " from " << next->how;
      ASSERT_GE(*value, range.min) << ctx.ToString(next->sym);
      ASSERT_LE(*value, range.max) << ctx.ToString(next->sym);
    }
    pool.push_back(*next);
  }
  EXPECT_GT(pool.size(), 100u);
}

TEST_P(RandomExpressions, ProofsHold) {
  int proved = 0;
  for (int i = 0; i < 400; ++i) {
    if (std::optional<Known> next = Step()) pool.push_back(*next);
    const Known a = Any(), b = Any();
    const bool less = ctx.ProvablyLess(a.sym, b.sym);
    const bool less_equal = ctx.ProvablyLessEqual(a.sym, b.sym);
    const bool divisible = ctx.ProvablyDivisible(a.sym, b.sym);
    proved += less;
    for (size_t k = 0; k < assignments.size(); ++k) {
      const int64_t x = a.direct[k], y = b.direct[k];
      if (less) {
        ASSERT_LT(x, y) << ctx.ToString(a.sym) << " < " << ctx.ToString(b.sym);
      }
      if (less_equal) {
        ASSERT_LE(x, y) << ctx.ToString(a.sym) << " <= " << ctx.ToString(b.sym);
      }
      if (divisible) {
        ASSERT_EQ(x % y, 0) << ctx.ToString(a.sym) << " by " << ctx.ToString(b.sym);
      }
    }
  }
  EXPECT_GT(proved, 5);
}

TEST_P(RandomExpressions, TextReadsBackToTheSameSym) {
  SymContext fresh;
  for (int i = 0; i < 400; ++i) {
    std::optional<Known> next = Step();
    if (!next) continue;
    pool.push_back(*next);
    const std::string text = ctx.ToString(next->sym);
    absl::StatusOr<Sym> again = ctx.Parse(text);
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, next->sym) << text << " became " << ctx.ToString(*again);
  }
  // And in another context, declared alike but used in another order.
  for (uint32_t i = 0; i < 4; ++i) fresh.Size(i, ctx.Range({VarKind::kSize, i}));
  for (uint32_t i = 0; i < 5; ++i) {
    fresh.Axis(i, *fresh.Parse(ctx.ToString(*ctx.Extent({VarKind::kAxis, i}))));
  }
  for (auto it = pool.rbegin(); it != pool.rend(); ++it) {
    const std::string text = ctx.ToString(it->sym);
    absl::StatusOr<Sym> s = fresh.Parse(text);
    ASSERT_TRUE(s.ok()) << s.status();
    ASSERT_EQ(fresh.ToString(*s), text);
  }
}

TEST_P(RandomExpressions, SubstituteAgreesWithEval) {
  for (int i = 0; i < 300; ++i) {
    if (std::optional<Known> next = Step()) pool.push_back(*next);
    const Known& e = Any();
    const size_t k = static_cast<size_t>(Pick(0, 23));
    // All variables by their values: a constant. Some of them: Eval gives the same.
    Sym all = ctx.Substitute(e.sym, [&](Var v) { return std::optional(ctx.Const(assignments[k].at(v))); });
    ASSERT_EQ(ctx.AsConst(all), e.direct[k]) << ctx.ToString(e.sym) << " became " << ctx.ToString(all);
    Sym some = ctx.Substitute(
        e.sym, [&](Var v) { return v.index % 2 ? std::optional(ctx.Const(assignments[k].at(v))) : std::nullopt; });
    absl::StatusOr<int64_t> value = ctx.Eval(some, Lookup(assignments[k]));
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_EQ(*value, e.direct[k]) << ctx.ToString(e.sym) << " became " << ctx.ToString(some);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomExpressions, testing::Range(1, 13));

}  // namespace
}  // namespace kiln
