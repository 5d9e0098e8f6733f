#include "compiler/loop/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace kiln::loop {
namespace {

uint64_t F32(float value) { return FromDouble(DType::kFloat32, value); }
uint64_t I(int64_t value) { return static_cast<uint64_t>(value); }
uint64_t Op1(Op op, DType type, uint64_t a) {
  const uint64_t args[3] = {a, 0, 0};
  return EvalOp(op, type, args);
}
uint64_t Op2(Op op, DType type, uint64_t a, uint64_t b) {
  const uint64_t args[3] = {a, b, 0};
  return EvalOp(op, type, args);
}

TEST(Canonical, ExtendsBySign) {
  EXPECT_EQ(Canonical(DType::kInt8, 0x1ff), ~uint64_t{0});
  EXPECT_EQ(Canonical(DType::kUInt8, 0x1ff), 0xff);
  EXPECT_EQ(Canonical(DType::kBool, 3), 1);
  EXPECT_EQ(Canonical(DType::kInt64, 5), 5);
}

TEST(SmallFloats, KnownValues) {
  struct Case {
    DType type;
    double value;
    uint64_t bits;
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const Case& c : std::vector<Case>{
           {DType::kFloat16, 1.0, 0x3c00},         {DType::kFloat16, -0.0, 0x8000},
           {DType::kFloat16, 65504, 0x7bff},       {DType::kFloat16, 65519.99, 0x7bff},
           {DType::kFloat16, 65520, 0x7c00},       {DType::kFloat16, inf, 0x7c00},
           {DType::kFloat16, 0x1p-24, 0x0001},     {DType::kFloat16, 0x1p-25, 0x0000},  // tie to even
           {DType::kFloat16, 0x1.8p-24, 0x0002},                                        // tie to even
           {DType::kFloat16, 0x1.ffcp-15, 0x0400},  // rounds up to the smallest normal number
           {DType::kBFloat16, 1.0, 0x3f80},        {DType::kBFloat16, 0x1.01p0, 0x3f80},  // tie to even
           {DType::kBFloat16, 0x1.03p0, 0x3f82},   {DType::kBFloat16, 3.4e38, 0x7f80},
           {DType::kFloat8E4M3FN, 448, 0x7e},      {DType::kFloat8E4M3FN, 464, 0x7e},
           {DType::kFloat8E4M3FN, 465, 0x7f},  // NaN: there is no infinity
           {DType::kFloat8E4M3FN, 0x1p-9, 0x01},   {DType::kFloat8E5M2, 57344, 0x7b},
           {DType::kFloat8E5M2, 61440, 0x7c},      {DType::kFloat8E4M3FNUZ, 240, 0x7f},
           {DType::kFloat8E4M3FNUZ, -0.0, 0x00},   {DType::kFloat8E4M3FNUZ, 1000, 0x80},
           {DType::kFloat8E5M2FNUZ, 1.0, 0x40},
       }) {
    EXPECT_EQ(FromDouble(c.type, c.value), c.bits) << Name(c.type) << " " << c.value;
  }
}

TEST(SmallFloats, EveryCodeRoundTrips) {
  for (DType type : {DType::kFloat16, DType::kBFloat16, DType::kFloat8E4M3FN, DType::kFloat8E5M2,
                     DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2FNUZ}) {
    for (uint64_t bits = 0; bits < uint64_t{1} << (8 * ByteSize(type)); ++bits) {
      const double value = ToDouble(type, bits);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(ToDouble(type, FromDouble(type, value))));
      } else {
        ASSERT_EQ(FromDouble(type, value), bits) << Name(type) << " " << value;
      }
    }
  }
}

TEST(Float16, DecodesAsTheCompilerDoes) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t word = static_cast<uint16_t>(bits);
    _Float16 half;
    std::memcpy(&half, &word, sizeof(half));
    const double want = static_cast<double>(half), got = ToDouble(DType::kFloat16, bits);
    ASSERT_TRUE(want == got || (std::isnan(want) && std::isnan(got))) << bits;
  }
}

TEST(Cast, FloatsToIntegersAsX86) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    float value;
    DType to;
    int64_t want;
  };
  for (const Case& c : std::vector<Case>{
           {-1.75f, DType::kInt32, -1},
           {2147483648.0f, DType::kInt32, INT32_MIN},
           {nan, DType::kInt32, INT32_MIN},
           {nan, DType::kInt64, INT64_MIN},
           {1e20f, DType::kInt64, INT64_MIN},
           {300.0f, DType::kInt8, 44},
           {3e9f, DType::kInt16, 0},
           {-1.0f, DType::kUInt8, 255},
           {3e9f, DType::kUInt32, 3000000000},
           {3e9f, DType::kUInt8, 3000000000 & 255},
           {0x1p63f, DType::kUInt64, INT64_MIN},
           {nan, DType::kBool, 1},
           {-0.0f, DType::kBool, 0},
           {0.5f, DType::kBool, 1},
       }) {
    EXPECT_EQ(static_cast<int64_t>(CastBits(DType::kFloat32, c.to, F32(c.value))), c.want)
        << c.value << " to " << Name(c.to);
  }
}

TEST(Cast, LowPrecisionGoesThroughF32) {
  // 1 + 2^-11 + 2^-40 rounds up to f16 directly, but to 1 + 2^-11 in f32 and then to even.
  const uint64_t bits = FromDouble(DType::kFloat64, 1 + 0x1p-11 + 0x1p-40);
  EXPECT_EQ(CastBits(DType::kFloat64, DType::kFloat16, bits), 0x3c00);
  EXPECT_EQ(FromDouble(DType::kFloat16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
  EXPECT_EQ(CastBits(DType::kInt64, DType::kFloat32, I(16777217)), F32(16777216.0f));
  EXPECT_EQ(CastBits(DType::kInt8, DType::kUInt32, I(-1)), 0xffffffff);
}

TEST(Integers, WrapAndNeverTrap) {
  EXPECT_EQ(Op2(Op::kAdd, DType::kInt32, I(INT32_MAX), 1), I(INT32_MIN));
  EXPECT_EQ(Op2(Op::kMul, DType::kUInt8, 200, 2), 144);
  EXPECT_EQ(Op2(Op::kMul, DType::kUInt16, 0xffff, 0xffff), 1);
  EXPECT_EQ(Op2(Op::kDiv, DType::kInt64, I(INT64_MIN), I(-1)), 0);
  EXPECT_EQ(Op2(Op::kRem, DType::kInt32, I(7), 0), 0);
  EXPECT_EQ(Op2(Op::kDiv, DType::kInt32, I(-7), I(2)), I(-3));
  EXPECT_EQ(Op2(Op::kRem, DType::kInt32, I(-7), I(2)), I(-1));
  EXPECT_EQ(Op1(Op::kAbs, DType::kInt8, I(-128)), I(-128));
  EXPECT_EQ(Op1(Op::kNot, DType::kBool, 1), 0);
  EXPECT_EQ(Op1(Op::kNot, DType::kInt16, 0), I(-1));
}

TEST(Integers, ShiftsBeyondTheWidth) {
  EXPECT_EQ(Op2(Op::kShl, DType::kInt32, 1, 32), 0);
  EXPECT_EQ(Op2(Op::kShl, DType::kInt32, 1, 31), I(INT32_MIN));
  EXPECT_EQ(Op2(Op::kShl, DType::kInt32, 1, I(-1)), 0);
  EXPECT_EQ(Op2(Op::kShr, DType::kInt32, I(-8), 1), I(-4));
  EXPECT_EQ(Op2(Op::kShr, DType::kInt32, I(-8), 99), I(-1));
  EXPECT_EQ(Op2(Op::kShr, DType::kUInt8, 0x80, 7), 1);
}

TEST(Floats, MinMaxPropagateNanAndTakeTheFirstZero) {
  const uint64_t nan = F32(std::numeric_limits<float>::quiet_NaN());
  for (Op op : {Op::kMin, Op::kMax}) {
    EXPECT_TRUE(std::isnan(ToDouble(DType::kFloat32, Op2(op, DType::kFloat32, nan, F32(1)))));
    EXPECT_TRUE(std::isnan(ToDouble(DType::kFloat32, Op2(op, DType::kFloat32, F32(1), nan))));
    EXPECT_EQ(Op2(op, DType::kFloat32, F32(0.0f), F32(-0.0f)), F32(0.0f));
    EXPECT_EQ(Op2(op, DType::kFloat32, F32(-0.0f), F32(0.0f)), F32(-0.0f));
  }
}

TEST(Floats, FmaRoundsOnce) {
  const uint64_t args[3] = {F32(1 + 0x1p-12f), F32(1 - 0x1p-12f), F32(-1)};
  EXPECT_EQ(EvalOp(Op::kFma, DType::kFloat32, args), F32(-0x1p-24f));
  EXPECT_EQ(Op1(Op::kRound, DType::kFloat32, F32(2.5f)), F32(2));
  EXPECT_EQ(Op1(Op::kRound, DType::kFloat32, F32(-0.5f)), F32(-0.0f));
  EXPECT_EQ(Op2(Op::kRem, DType::kFloat32, F32(-5.5f), F32(2)), F32(-1.5f));
  EXPECT_EQ(Op1(Op::kRsqrt, DType::kFloat32, F32(3)), F32(1 / std::sqrt(3.0f)));
}

TEST(Floats, ComparisonsOfNan) {
  const uint64_t nan = F32(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(Op2(Op::kLt, DType::kFloat32, nan, F32(1)), 0);
  EXPECT_EQ(Op2(Op::kEq, DType::kFloat32, nan, nan), 0);
  EXPECT_EQ(Op2(Op::kNe, DType::kFloat32, nan, nan), 1);
  EXPECT_EQ(Op2(Op::kLt, DType::kUInt64, 1, ~uint64_t{0}), 1);
  EXPECT_EQ(Op2(Op::kLt, DType::kInt64, 1, ~uint64_t{0}), 0);
}

}  // namespace
}  // namespace kiln::loop
