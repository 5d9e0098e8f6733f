#include "compiler/ops/promote.h"

#include <gtest/gtest.h>

#include <memory>

#include "compiler/graph/builder.h"
#include "compiler/ops/op_builder.h"

namespace kiln {
namespace {

TEST(PromoteTypes, IsTorchPromoteTypes) {
  struct Case {
    DType a, b, wanted;
  };
  using enum DType;
  for (const Case& c :
       {Case{kBool, kUInt8, kUInt8}, Case{kUInt8, kInt8, kInt16}, Case{kUInt8, kInt32, kInt32},
        Case{kInt8, kInt64, kInt64}, Case{kInt64, kFloat16, kFloat16}, Case{kFloat16, kBFloat16, kFloat32},
        Case{kBFloat16, kFloat32, kFloat32}, Case{kFloat32, kFloat64, kFloat64}, Case{kFloat32, kComplex64, kComplex64},
        Case{kFloat64, kComplex64, kComplex128}, Case{kBool, kBool, kBool}}) {
    EXPECT_EQ(PromoteTypes(c.a, c.b), c.wanted) << Name(c.a) << " " << Name(c.b);
    EXPECT_EQ(PromoteTypes(c.b, c.a), c.wanted) << Name(c.b) << " " << Name(c.a);
  }
}

// The dtype of record(tensor a, tensor b) as eager gives it.
class Promotion : public testing::Test {
 protected:
  ValueId Tensor(DType dtype, int rank) {
    TensorType type{.dtype = dtype, .sizes = {}, .strides = {}};
    for (int d = 0; d < rank; ++d) type.sizes.push_back(syms_->Const(2));
    for (int d = 0; d < rank; ++d) type.strides.push_back(syms_->Const(1 << (rank - 1 - d)));
    return graph_.AddInput(type);
  }
  DType Of(ValueId value) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    return b_.type(value).dtype;
  }

  std::shared_ptr<SymContext> syms_ = std::make_shared<SymContext>();
  GraphBuilder graph_{syms_};
  OpBuilder b_{graph_};
};

TEST_F(Promotion, ZeroDimTensorsAndNumbersOnlyRaiseTheKind) {
  using enum DType;
  EXPECT_EQ(Of(b_.add(Tensor(kInt32, 1), Tensor(kInt64, 0))), kInt32);
  EXPECT_EQ(Of(b_.add(Tensor(kInt32, 1), Tensor(kFloat64, 0))), kFloat64);
  EXPECT_EQ(Of(b_.add(Tensor(kBFloat16, 1), Tensor(kFloat32, 0))), kBFloat16);
  EXPECT_EQ(Of(b_.add(Tensor(kBFloat16, 0), Tensor(kFloat32, 0))), kFloat32);
  EXPECT_EQ(Of(b_.add(Tensor(kInt64, 1), 1.5)), kFloat32);
  EXPECT_EQ(Of(b_.add(Tensor(kBFloat16, 1), 1.5)), kBFloat16);
  EXPECT_EQ(Of(b_.add(Tensor(kBool, 1), 1)), kInt64);
  EXPECT_EQ(Of(b_.add(Tensor(kUInt8, 0), 1)), kUInt8);
  EXPECT_EQ(Of(b_.mul(Tensor(kInt64, 1), true)), kInt64);
  EXPECT_EQ(Of(b_.add(Tensor(kInt64, 1), Tensor(kInt64, 1), 0.5)), kInt64);  // alpha is no operand
}

TEST_F(Promotion, KindsOfRecords) {
  using enum DType;
  EXPECT_EQ(Of(b_.exp(Tensor(kInt64, 1))), kFloat32);
  EXPECT_EQ(Of(b_.exp(Tensor(kBool, 1))), kFloat32);
  EXPECT_EQ(Of(b_.exp(Tensor(kFloat16, 1))), kFloat16);
  EXPECT_EQ(Of(b_.div(Tensor(kInt64, 1), 2)), kFloat32);
  EXPECT_EQ(Of(b_.eq(Tensor(kInt64, 1), 2.0)), kBool);
  EXPECT_EQ(Of(b_.pow_scalar(Tensor(kInt64, 1), 2)), kInt64);
  EXPECT_EQ(Of(b_.pow_scalar(Tensor(kInt64, 1), 2.0)), kFloat32);
  EXPECT_EQ(Of(b_.where(Tensor(kBool, 1), Tensor(kInt32, 1), Tensor(kFloat32, 1))), kFloat32);
  EXPECT_EQ(Of(b_.where(Tensor(kBool, 1), Tensor(kBFloat16, 1), 0.5)), kBFloat16);
  EXPECT_EQ(Of(b_.masked_fill(Tensor(kInt64, 1), Tensor(kBool, 1), 1.5)), kInt64);
  EXPECT_EQ(Of(b_.logical_and(Tensor(kInt64, 1), Tensor(kFloat32, 1))), kBool);
  EXPECT_EQ(Of(b_.clamp(Tensor(kInt64, 1), 0.5)), kFloat32);
  EXPECT_EQ(Of(b_.cat(std::vector<ValueId>{Tensor(kInt64, 1), Tensor(kFloat32, 1)})), kFloat32);
  EXPECT_EQ(Of(b_.sum(Tensor(kInt32, 1))), kInt64);
  EXPECT_EQ(Of(b_.sum(Tensor(kBool, 1))), kInt64);
  EXPECT_EQ(Of(b_.sum(Tensor(kBFloat16, 1), DType::kFloat32)), kFloat32);
  EXPECT_EQ(Of(b_.amax(Tensor(kBool, 1))), kBool);
  EXPECT_EQ(Of(b_.any(Tensor(kInt64, 1))), kBool);
  EXPECT_EQ(Of(b_.any(Tensor(kUInt8, 1))), kUInt8);
  EXPECT_EQ(Of(b_.full(std::vector<int64_t>{2}, true)), kBool);
  EXPECT_EQ(Of(b_.full(std::vector<int64_t>{2}, 1)), kInt64);
  EXPECT_EQ(Of(b_.full(std::vector<int64_t>{2}, 1.0)), kFloat32);
  EXPECT_EQ(Of(b_.scalar_tensor(1)), kFloat32);
  EXPECT_EQ(Of(b_.arange(3)), kInt64);
  EXPECT_EQ(Of(b_.arange(3.0)), kFloat32);
}

}  // namespace
}  // namespace kiln
