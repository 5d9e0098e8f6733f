#include "compiler/loop/builder.h"

#include <string>
#include <utility>
#include <vector>

#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "gtest/gtest.h"

namespace kiln::loop {
namespace {

// b0 is read, b1 written, f32, of s0 * 8 elements.
struct BuilderTest : testing::Test {
  BuilderTest() : b(kernel, kernel.body) {
    kernel.num_sizes = 1;
    rows = b.syms().Size(0, {1, kSymUnbounded});
    size = b.syms().Mul(rows, b.syms().Const(8));
    kernel.buffers = {{.dtype = DType::kFloat32, .size = size, .access = Access::kRead},
                      {.dtype = DType::kFloat32, .size = size, .access = Access::kWrite}};
  }
  Kernel kernel;
  Builder b;
  Sym rows, size;
};

TEST_F(BuilderTest, WritesAKernel) {
  Sym i = b.BeginFor(AxisKind::kParallel, rows, 1, b.syms().Const(4));
  Sym j = b.BeginFor(AxisKind::kVector, b.syms().Const(8), 8);
  Sym at = b.syms().Add(b.syms().Mul(i, b.syms().Const(8)), j);
  ValueId x = b.Load(0, at);
  b.Store(1, at, b.Apply(Op::kMul, x, b.Const(DType::kFloat32, 2)));
  b.EndFor();
  b.EndFor();
  ASSERT_TRUE(b.status().ok()) << b.status();
  EXPECT_TRUE(Verify(kernel).ok()) << Verify(kernel);
  EXPECT_EQ(ToText(kernel), R"(kernel {
  sizes s0 in [1, inf)
  buffer b0: f32[s0*8] read
  buffer b1: f32[s0*8] write
  parallel i0 in 0..s0 grain 4 {
    vector i1 in 0..8 width 8 {
      v0: f32 = load b0[i0*8 + i1]
      v1: f32 = const 0x1p+1
      v2: f32 = mul v0, v1
      store b1[i0*8 + i1] = v2
    }
  }
}
)");
}

TEST_F(BuilderTest, SharesPureLetsWithEnclosingBlocks) {
  b.BeginFor(AxisKind::kParallel, rows);
  ValueId one = b.Const(DType::kFloat32, 1);
  b.BeginFor(AxisKind::kSerial, rows);
  EXPECT_EQ(b.Const(DType::kFloat32, 1), one);
  EXPECT_NE(b.Const(DType::kFloat64, 1), one);
  ValueId inner = b.Const(DType::kFloat32, 3);
  b.EndFor();
  EXPECT_NE(b.Const(DType::kFloat32, 3), inner) << "a closed block's values are not visible";
  b.EndFor();
  EXPECT_TRUE(Verify(kernel).ok()) << Verify(kernel);
}

TEST_F(BuilderTest, SharesLoadsOfReadBuffersOnly) {
  kernel.buffers[1].access = Access::kReadWrite;
  Sym i = b.BeginFor(AxisKind::kParallel, rows);
  EXPECT_EQ(b.Load(0, i), b.Load(0, i));
  EXPECT_NE(b.Load(1, i), b.Load(1, i));
  b.EndFor();
}

TEST_F(BuilderTest, CastToOwnTypeIsTheValue) {
  ValueId x = b.Const(DType::kFloat32, 1);
  EXPECT_EQ(b.Cast(DType::kFloat32, x), x);
  EXPECT_EQ(b.TypeOf(b.Cast(DType::kBFloat16, x)), DType::kBFloat16);
  EXPECT_EQ(b.TypeOf(b.Bitcast(DType::kUInt32, x)), DType::kUInt32);
  EXPECT_EQ(b.TypeOf(b.Apply(Op::kLt, x, x)), DType::kBool);
}

TEST_F(BuilderTest, ConstantsAreRoundedOrWrapped) {
  b.Const(DType::kFloat16, 1 + 0x1p-11);
  b.ConstInt(DType::kUInt8, -1);
  b.Const(DType::kInt32, 2.75);
  const uint64_t want[] = {0x3c00, 255, 2};
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(std::get<Let>(kernel.body.at(i).node).imm, want[i]);
}

TEST_F(BuilderTest, ReducesATuple) {
  Sym i = b.BeginFor(AxisKind::kParallel, rows);
  const ValueId init[] = {b.Const(DType::kFloat32, 0), b.ConstInt(DType::kInt64, 0)};
  Sym r = b.BeginReduce(AxisKind::kVector, b.syms().Const(8), 4, 2, init);
  const ValueId yields[] = {b.Load(0, b.syms().Add(b.syms().Mul(i, b.syms().Const(8)), r)), b.Index(r)};
  auto results = b.EndReduce(yields, [](Builder& c, std::span<const ValueId> x, std::span<const ValueId> y) {
    return std::vector<ValueId>{c.Apply(Op::kAdd, x[0], y[0]), c.Apply(Op::kMax, x[1], y[1])};
  });
  b.Store(1, i, results[0]);
  b.EndFor();
  ASSERT_TRUE(b.status().ok()) << b.status();
  EXPECT_TRUE(Verify(kernel).ok()) << Verify(kernel);
  EXPECT_EQ(b.TypeOf(results[1]), DType::kInt64);
}

TEST_F(BuilderTest, MaskedLoadDefaultsToZero) {
  ValueId mask = b.ConstInt(DType::kBool, 1);
  b.Load(0, {}, mask);
  const Let& load = std::get<Let>(kernel.body.back().node);
  EXPECT_EQ(load.mask, mask);
  EXPECT_EQ(std::get<Let>(kernel.body.at(load.other).node).imm, 0);
}

TEST_F(BuilderTest, CheckedIndexMayBeUsedInASym) {
  Sym i = b.BeginFor(AxisKind::kParallel, rows);
  Sym v = b.IndexFromValue(b.Index(i), rows);
  b.Store(1, v, b.Load(0, v));
  b.EndFor();
  EXPECT_TRUE(b.status().ok()) << b.status();
  EXPECT_TRUE(Verify(kernel).ok()) << Verify(kernel);
}

TEST_F(BuilderTest, AnotherBuilderKnowsTheValues) {
  ValueId x = b.Const(DType::kFloat32, 1);
  Block block;
  Builder other(b, block);
  ValueId y = other.Apply(Op::kAdd, x, x);
  EXPECT_EQ(b.TypeOf(y), DType::kFloat32);
  EXPECT_EQ(block.size(), 1);
  Builder third(kernel, block);
  EXPECT_EQ(third.TypeOf(third.Apply(Op::kLt, x, y)), DType::kBool);
}

TEST_F(BuilderTest, StatementsHaveTheOriginOfTheInnermostScope) {
  Sym i = b.BeginFor(AxisKind::kParallel, rows);
  {
    const Builder::OriginScope outer(b, 7);
    ValueId x = b.Load(0, i);
    {
      const Builder::OriginScope inner(b, 9);
      x = b.Apply(Op::kNeg, x);
    }
    b.Store(1, i, x);
  }
  b.Index(i);
  b.EndFor();
  std::vector<uint32_t> origins;
  Walk(std::as_const(kernel.body), [&](const Stmt& stmt) { origins.push_back(stmt.origin); });
  EXPECT_EQ(origins, (std::vector<uint32_t>{kNone, 7, 9, 7, kNone}));
}

TEST_F(BuilderTest, RemembersTheFirstMistake) {
  ValueId x = b.Const(DType::kFloat32, 1), y = b.Const(DType::kFloat64, 1);
  EXPECT_EQ(b.Apply(Op::kAdd, x, y), kNone);
  b.EndFor();
  EXPECT_EQ(b.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(b.status().message(), "loop builder: operation add does not take (f32, f64)");
  EXPECT_EQ(b.Const(DType::kFloat32, 2), kNone);
}

TEST_F(BuilderTest, RefusesArithmeticInLowPrecision) {
  ValueId half = b.Const(DType::kBFloat16, 1);
  b.Apply(Op::kAdd, half, half);
  EXPECT_EQ(b.status().message(), "loop builder: operation add does not take (bf16, bf16)");
}

TEST_F(BuilderTest, RefusesStoresToReadBuffers) {
  b.Store(0, {}, b.Const(DType::kFloat32, 1));
  EXPECT_EQ(b.status().message(), "loop builder: buffer b0 may not be written");
}

}  // namespace
}  // namespace kiln::loop
