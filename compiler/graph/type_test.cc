#include "compiler/graph/type.h"

#include <set>

#include "gtest/gtest.h"

namespace kiln {
namespace {

TEST(DType, NamesAreDistinctAndReadBack) {
  std::set<std::string_view> names;
  for (int i = 1; i <= kMaxDType; ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_TRUE(names.insert(Name(dtype)).second) << Name(dtype);
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
    EXPECT_GT(ByteSize(dtype), 0);
  }
  EXPECT_EQ(DTypeFromName("f31"), std::nullopt);
  EXPECT_EQ(DTypeFromName("?"), std::nullopt);
}

TEST(DType, EachIsInOneClass) {
  for (int i = 1; i <= kMaxDType; ++i) {
    auto d = static_cast<DType>(i);
    int classes = (d == DType::kBool) + IsFloat(d) + IsComplex(d) + IsSignedInt(d) + IsUnsignedInt(d);
    EXPECT_EQ(classes, 1) << Name(d);
    EXPECT_EQ(IsInt(d), IsSignedInt(d) || IsUnsignedInt(d));
  }
}

TEST(DType, LowPrecisionComputesInF32) {
  EXPECT_EQ(ComputeDType(DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(ComputeDType(DType::kFloat8E5M2), DType::kFloat32);
  EXPECT_EQ(ComputeDType(DType::kFloat64), DType::kFloat64);
  EXPECT_EQ(ComputeDType(DType::kUInt8), DType::kUInt8);
  EXPECT_EQ(ComputeDType(DType::kBool), DType::kBool);
}

TEST(DType, Sizes) {
  EXPECT_EQ(ByteSize(DType::kBool), 1);
  EXPECT_EQ(ByteSize(DType::kFloat16), 2);
  EXPECT_EQ(ByteSize(DType::kComplex32), 4);
  EXPECT_EQ(ByteSize(DType::kComplex128), 16);
}

TEST(DeviceType, NamesReadBack) {
  EXPECT_EQ(DeviceFromName("cpu"), DeviceType::kCpu);
  EXPECT_EQ(DeviceFromName("cuda"), DeviceType::kCuda);
  EXPECT_EQ(DeviceFromName("mps"), std::nullopt);
}

}  // namespace
}  // namespace kiln
