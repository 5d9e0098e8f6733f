// Reductions of every shape, generated for every target: the order of folding is ir.h's, so sums agree bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "compiler/codegen/cpu/native_run.h"
#include "compiler/loop/builder.h"

namespace kiln {
namespace {

using loop::AxisKind;
using loop::Builder;
using loop::Op;
using loop::ValueId;
using ValueIds = std::vector<ValueId>;
using Tuple = std::span<const ValueId>;

// One kind of reduction: initial values, the tuple of one element, the fold.
struct Reduction {
  const char* name;
  ValueIds (*init)(Builder& b);
  ValueIds (*lift)(Builder& b, ValueId x, ValueId position);
  ValueIds (*combine)(Builder& b, Tuple x, Tuple y);
};

constexpr DType kF32 = DType::kFloat32;

ValueIds CombineArgMax(Builder& b, Tuple x, Tuple y) {
  // The larger value, the smaller position among equals.
  const ValueId better = b.Apply(Op::kLt, x[0], y[0]);
  const ValueId earlier = b.Apply(Op::kAnd, b.Apply(Op::kEq, x[0], y[0]), b.Apply(Op::kLt, y[1], x[1]));
  const ValueId take = b.Apply(Op::kOr, better, earlier);
  return {b.Select(take, y[0], x[0]), b.Select(take, y[1], x[1])};
}

ValueIds CombineWelford(Builder& b, Tuple x, Tuple y) {
  const ValueId count = b.Apply(Op::kAdd, x[2], y[2]);
  const ValueId one = b.Const(kF32, 1);
  const ValueId share = b.Apply(Op::kDiv, y[2], b.Apply(Op::kMax, count, one));
  const ValueId delta = b.Apply(Op::kSub, y[0], x[0]);
  const ValueId mean = b.Apply(Op::kFma, delta, share, x[0]);
  const ValueId cross = b.Apply(Op::kMul, b.Apply(Op::kMul, delta, delta), b.Apply(Op::kMul, x[2], share));
  return {mean, b.Apply(Op::kAdd, b.Apply(Op::kAdd, x[1], y[1]), cross), count};
}

const Reduction kReductions[] = {
    {"sum", [](Builder& b) { return ValueIds{b.Const(kF32, -0.0)}; },
     [](Builder&, ValueId x, ValueId) { return ValueIds{x}; },
     [](Builder& b, Tuple x, Tuple y) { return ValueIds{b.Apply(Op::kAdd, x[0], y[0])}; }},
    {"max", [](Builder& b) { return ValueIds{b.Const(kF32, -INFINITY)}; },
     [](Builder&, ValueId x, ValueId) { return ValueIds{x}; },
     [](Builder& b, Tuple x, Tuple y) { return ValueIds{b.Apply(Op::kMax, x[0], y[0])}; }},
    {"argmax", [](Builder& b) { return ValueIds{b.Const(kF32, -INFINITY), b.ConstInt(DType::kInt64, INT64_MAX)}; },
     [](Builder& b, ValueId x, ValueId position) {
       return ValueIds{b.Apply(Op::kTrunc, x), position};  // truncated: with ties
     },
     CombineArgMax},
    {"welford",
     [](Builder& b) {
       const ValueId zero = b.Const(kF32, 0);
       return ValueIds{zero, zero, zero};
     },
     [](Builder& b, ValueId x, ValueId) { return ValueIds{x, b.Const(kF32, 0), b.Const(kF32, 1)}; }, CombineWelford},
    {"any", [](Builder& b) { return ValueIds{b.ConstInt(DType::kBool, 0)}; },
     [](Builder& b, ValueId x, ValueId) { return ValueIds{b.Apply(Op::kLt, b.Const(kF32, 3.9), x)}; },
     [](Builder& b, Tuple x, Tuple y) { return ValueIds{b.Apply(Op::kOr, x[0], y[0])}; }},
};

struct Shape {
  unsigned width = 1;  // of the reduced axis; 1: serial
  unsigned accumulators = 1;
  unsigned lanes = 1;  // of a vector axis around it
};

// out[k][i] = k-th result of reducing x[i][…] (width > 1, rows) or x[…][i] (columns) over s1 elements.
class ReduceKernel {
 public:
  ReduceKernel(const Reduction& reduction, Shape shape, std::optional<int64_t> extent) : b_(kernel_, kernel_.body) {
    SymContext& syms = *kernel_.syms;
    kernel_.num_sizes = 2;
    const Sym rows = syms.Size(0), columns = extent ? syms.Const(*extent) : syms.Size(1);
    AddBuffer(kF32, syms.Mul(rows, columns), loop::Access::kRead);
    b_.BeginFor(AxisKind::kParallel, syms.Const(1), 1, syms.Const(1));
    const bool column = shape.lanes > 1;
    const Sym i = b_.BeginFor(column ? AxisKind::kVector : AxisKind::kSerial, rows, shape.lanes);
    const ValueIds init = reduction.init(b_);
    const Sym r = b_.BeginReduce(shape.width > 1 ? AxisKind::kVector : AxisKind::kSerial, columns, shape.width,
                                 shape.accumulators, init);
    const Sym index = column ? syms.Add(syms.Mul(r, rows), i) : syms.Add(syms.Mul(i, columns), r);
    const ValueIds yields = reduction.lift(b_, b_.Load(0, index), b_.Index(r));
    for (const ValueId result : b_.EndReduce(yields, reduction.combine)) {
      b_.Store(AddBuffer(b_.TypeOf(result), rows, loop::Access::kWrite), i, result);
    }
    b_.EndFor();
    b_.EndFor();
  }

  absl::Status Check(std::span<const std::pair<int64_t, int64_t>> sizes) {
    if (!b_.status().ok()) return b_.status();
    std::vector<NativeCase> cases;
    std::mt19937 random(5);
    std::uniform_real_distribution<float> draw(-4, 4);
    for (const auto& [rows, columns] : sizes) {
      std::vector<float> values(static_cast<size_t>(rows * columns));
      for (float& value : values) value = random() % 200 == 0 ? NAN : draw(random);
      NativeCase run{{std::vector<uint8_t>(values.size() * 4)}, {rows, columns}, 1};
      if (!values.empty()) std::memcpy(run.buffers[0].data(), values.data(), values.size() * 4);
      for (size_t k = 1; k < kernel_.buffers.size(); ++k) {
        run.buffers.emplace_back(static_cast<size_t>(rows * ByteSize(kernel_.buffers[k].dtype)));
      }
      cases.push_back(std::move(run));
    }
    return CompareWithInterpreter(kernel_, cases);
  }

 private:
  loop::BufferId AddBuffer(DType type, Sym size, loop::Access access) {
    kernel_.buffers.push_back({type, size, loop::Space::kGlobal, access});
    return static_cast<loop::BufferId>(kernel_.buffers.size() - 1);
  }
  loop::Kernel kernel_;
  Builder b_;
};

class Reduce : public testing::TestWithParam<std::tuple<Reduction, Shape>> {};

TEST_P(Reduce, SymbolicExtents) {
  const auto& [reduction, shape] = GetParam();
  const std::pair<int64_t, int64_t> sizes[] = {{1, 0}, {3, 1}, {2, 7}, {5, 16}, {17, 64}, {2, 65}, {33, 200}};
  EXPECT_EQ(ReduceKernel(reduction, shape, std::nullopt).Check(sizes), absl::OkStatus());
}

TEST_P(Reduce, ConstantExtents) {
  const auto& [reduction, shape] = GetParam();
  for (const int64_t extent : {5, 64}) {
    const std::pair<int64_t, int64_t> sizes[] = {{18, extent}};
    EXPECT_EQ(ReduceKernel(reduction, shape, extent).Check(sizes), absl::OkStatus()) << extent;
  }
}

std::string TestName(const testing::TestParamInfo<std::tuple<Reduction, Shape>>& info) {
  const Shape shape = std::get<1>(info.param);
  return std::string(std::get<0>(info.param).name) + "_w" + std::to_string(shape.width) + "u" +
         std::to_string(shape.accumulators) + "l" + std::to_string(shape.lanes);
}

INSTANTIATE_TEST_SUITE_P(Rows, Reduce,
                         testing::Combine(testing::ValuesIn(kReductions),
                                          testing::Values(Shape{1, 1, 1}, Shape{1, 3, 1}, Shape{2, 1, 1},
                                                          Shape{4, 2, 1}, Shape{8, 4, 1}, Shape{16, 1, 1},
                                                          Shape{16, 4, 1}, Shape{32, 3, 1}, Shape{64, 2, 1})),
                         TestName);

INSTANTIATE_TEST_SUITE_P(Columns, Reduce,
                         testing::Combine(testing::ValuesIn(kReductions),
                                          testing::Values(Shape{1, 1, 16}, Shape{1, 4, 8}, Shape{1, 2, 4})),
                         TestName);

// A softmax-like row: two reductions and a pass over the row, the second reduction using the first one's result.
TEST(Reduce, SeveralOverOneRow) {
  constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[3*s0] read
  buffer b1: f32[3*s0] write
  parallel i0 in 0..3 grain 1 {
    v0: f32 = const -inf
    reduce (v1): (f32) over vector i1 in 0..s0 width 16 accumulators 2 init (v0) {
      v2: f32 = load b0[s0*i0 + i1]
      yield v2
    } combine (v3), (v4) {
      v5: f32 = max v3, v4
      yield v5
    }
    v6: f32 = const 0x0p+0
    reduce (v7): (f32) over vector i2 in 0..s0 width 16 accumulators 2 init (v6) {
      v8: f32 = load b0[s0*i0 + i2]
      v9: f32 = sub v8, v1
      v10: f32 = mul v9, v9
      yield v10
    } combine (v11), (v12) {
      v13: f32 = add v11, v12
      yield v13
    }
    vector i3 in 0..s0 width 16 {
      v14: f32 = load b0[s0*i0 + i3]
      v15: f32 = sub v14, v1
      v16: f32 = div v15, v7
      store b1[s0*i0 + i3] = v16
    }
  }
}
)";
  for (const int64_t n : {0, 1, 31, 32, 33, 150}) {
    NativeCase run{
        {std::vector<uint8_t>(static_cast<size_t>(12 * n)), std::vector<uint8_t>(static_cast<size_t>(12 * n))}, {n}, 3};
    for (int64_t i = 0; i < 3 * n; ++i) {
      const float value = static_cast<float>(i * 37 % 101) / 7 - 5;
      std::memcpy(&run.buffers[0][static_cast<size_t>(4 * i)], &value, 4);
    }
    EXPECT_EQ(CompareWithInterpreter(kText, std::span(&run, 1)), absl::OkStatus()) << n;
  }
}

}  // namespace
}  // namespace kiln
