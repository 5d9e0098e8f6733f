// Every operation of nodes.def on every type it takes, in vectors and in scalars, for every target, against the
// interpreter, on the values that tend to go wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "compiler/codegen/cpu/native_run.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/loop/builder.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/typing.h"

namespace kiln {
namespace {

using loop::Op;
using Bytes = std::vector<uint8_t>;

constexpr DType kTypes[] = {DType::kBool,     DType::kUInt8,   DType::kInt8,   DType::kInt16,  DType::kInt32,
                            DType::kInt64,    DType::kUInt16,  DType::kUInt32, DType::kUInt64, DType::kFloat16,
                            DType::kBFloat16, DType::kFloat32, DType::kFloat64};

constexpr Op kOps[] = {
#define KILN_LOOP_OP(id, name, arity, rule) Op::id,
#include "compiler/loop/nodes.def"
#undef KILN_LOOP_OP
};

bool HasCode(Op op) {
  return op != Op::kConst && op != Op::kIndex && op != Op::kLoad && op != Op::kCheckIndex && op != Op::kCast &&
         op != Op::kBitcast && op < Op::kExp;
}

std::vector<double> InterestingNumbers() {
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0.0,
                                0.25,
                                0.5,
                                0.75,
                                1,
                                1.5,
                                2,
                                2.5,
                                3,
                                7,
                                100,
                                127,
                                127.5,
                                128,
                                255,
                                255.5,
                                256,
                                32767,
                                32768,
                                65504,
                                65519.99,
                                65520,
                                65535,
                                65536,
                                2147483520,
                                2147483647,
                                2147483648,
                                4294967040,
                                4294967295,
                                4294967296,
                                9007199254740993.0,
                                9223371487098961920.0,
                                9223372036854774784.0,
                                9223372036854775808.0,
                                18446742974197923840.0,
                                18446744073709551616.0,
                                1e30,
                                3.4028234663852886e38,
                                1e300,
                                inf,
                                5e-324,
                                1e-310,
                                2.2250738585072014e-308,
                                1.4e-45,
                                1.1754943508222875e-38,
                                1e-40,
                                5.9604644775390625e-08,
                                2.9802322387695312e-08,
                                2.98023224e-08,
                                6.097555160522461e-05,
                                6.103515625e-05,
                                1e-20,
                                1.00048828125,
                                1.0014648,
                                1.00390625,
                                1.01171875,
                                0.1,
                                0.333333333333};
  for (size_t i = 0, n = values.size(); i < n; ++i) values.push_back(-values[i]);
  values.push_back(std::numeric_limits<double>::quiet_NaN());
  return values;
}

// Bits in the form of Let::imm.
std::vector<uint64_t> InterestingBits(DType type) {
  std::vector<uint64_t> bits;
  if (IsFloat(type)) {
    for (const double value : InterestingNumbers()) bits.push_back(loop::FromDouble(type, value));
  } else {
    const int width = type == DType::kBool ? 1 : ByteSize(type) * 8;
    for (const int64_t small : {0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 63, 64, 65, 100}) {
      bits.push_back(static_cast<uint64_t>(small));
      bits.push_back(static_cast<uint64_t>(-small));
    }
    for (const int power : {width - 1, width - 2, width / 2}) {
      for (const int64_t offset : {-1, 0, 1}) {
        bits.push_back((uint64_t{1} << std::max(power, 0)) + static_cast<uint64_t>(offset));
      }
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 40; ++i) bits.push_back(random() >> (i % 3 == 0 ? 0 : random() % 64));
  for (uint64_t& value : bits) value = loop::Canonical(type, value);
  std::sort(bits.begin(), bits.end());
  bits.erase(std::unique(bits.begin(), bits.end()), bits.end());
  return bits;
}

Bytes Pack(DType type, const std::vector<uint64_t>& bits) {
  const size_t size = static_cast<size_t>(ByteSize(type));
  Bytes bytes(bits.size() * size);
  for (size_t i = 0; i < bits.size(); ++i) std::memcpy(&bytes[i * size], &bits[i], size);
  return bytes;
}

// Builds `parallel { axis { loads; what `body` writes } }` over s0 elements.
class ElementwiseKernel {
 public:
  explicit ElementwiseKernel(bool vector) : builder_(kernel_, kernel_.body) {
    kernel_.num_sizes = 1;
    size_ = kernel_.syms->Size(0);
    builder_.BeginFor(loop::AxisKind::kParallel, kernel_.syms->Const(1), 1, kernel_.syms->Const(1));
    index_ = builder_.BeginFor(vector ? loop::AxisKind::kVector : loop::AxisKind::kSerial, size_, vector ? 16 : 1);
  }
  loop::Builder& b() { return builder_; }
  loop::ValueId Input(DType type, const Bytes& bytes) {
    run_.buffers.push_back(bytes);
    return builder_.Load(AddBuffer(type, loop::Access::kRead), index_);
  }
  void Output(loop::ValueId value, std::string what) {
    const DType type = builder_.TypeOf(value);
    outputs_.push_back(std::move(what));
    builder_.Store(AddBuffer(type, loop::Access::kWrite), index_, value);
    run_.buffers.push_back({});
  }
  void Check(int64_t size) {
    builder_.EndFor();
    builder_.EndFor();
    ASSERT_EQ(builder_.status(), absl::OkStatus());
    run_.sizes = {size};
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      const size_t bytes = static_cast<size_t>(size * ByteSize(kernel_.buffers[i].dtype));
      if (run_.buffers[i].empty()) run_.buffers[i].resize(bytes);
      ASSERT_EQ(run_.buffers[i].size(), bytes);
    }
    std::string what;
    const size_t inputs = kernel_.buffers.size() - outputs_.size();
    for (size_t i = 0; i < outputs_.size(); ++i) what += "b" + std::to_string(inputs + i) + " = " + outputs_[i] + "; ";
    EXPECT_EQ(CompareWithInterpreter(kernel_, std::span(&run_, 1)), absl::OkStatus()) << what;
  }

 private:
  loop::BufferId AddBuffer(DType type, loop::Access access) {
    kernel_.buffers.push_back({type, size_, loop::Space::kGlobal, access});
    return static_cast<loop::BufferId>(kernel_.buffers.size() - 1);
  }
  loop::Kernel kernel_;
  loop::Builder builder_;
  NativeCase run_;
  Sym size_, index_;
  std::vector<std::string> outputs_;
};

class Ops : public testing::TestWithParam<std::tuple<DType, bool>> {};

TEST_P(Ops, EveryOperationOfTheType) {
  const auto [type, vector] = GetParam();
  const std::vector<uint64_t> values = InterestingBits(type);
  // All pairs; the third operand strides through the values.
  std::vector<uint64_t> x, y, z, c;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t k = 0; k < values.size(); ++k) {
      x.push_back(values[i]);
      y.push_back(values[k]);
      z.push_back(values[(i * 31 + k * 17) % values.size()]);
      c.push_back((i * 5 + k) % 3 == 0);
    }
  }
  ElementwiseKernel kernel(vector);
  const loop::ValueId args[] = {kernel.Input(type, Pack(type, x)), kernel.Input(type, Pack(type, y)),
                                kernel.Input(type, Pack(type, z))};
  const loop::ValueId condition = kernel.Input(DType::kBool, Pack(DType::kBool, c));
  int count = 0;
  for (const Op op : kOps) {
    if (!HasCode(op)) continue;
    if (op == Op::kSelect) {
      kernel.Output(kernel.b().Select(condition, args[0], args[1]), "select");
      continue;
    }
    const std::vector<DType> types(static_cast<size_t>(loop::Arity(op)), type);
    if (!loop::InferType(op, types).ok()) continue;
    kernel.Output(kernel.b().Apply(op, std::span(args, types.size())), std::string(loop::Name(op)));
    ++count;
  }
  EXPECT_GE(count, IsLowPrecisionFloat(type) ? 0 : 7);
  kernel.Check(static_cast<int64_t>(x.size()));
}

TEST_P(Ops, CastsToEveryType) {
  const auto [type, vector] = GetParam();
  std::vector<uint64_t> values = InterestingBits(type);
  if (ByteSize(type) == 2) {
    values.resize(1 << 16);
    for (size_t i = 0; i < values.size(); ++i) values[i] = loop::Canonical(type, i);
  }
  ElementwiseKernel kernel(vector);
  const loop::ValueId x = kernel.Input(type, Pack(type, values));
  for (const DType to : kTypes) {
    const std::string what(Name(to));
    if (to != type) kernel.Output(kernel.b().Cast(to, x), "cast to " + what);
    const bool same_size = ByteSize(to) == ByteSize(type) && type != DType::kBool && to != DType::kBool;
    if (to != type && same_size) kernel.Output(kernel.b().Bitcast(to, x), "bitcast to " + what);
  }
  kernel.Check(static_cast<int64_t>(values.size()));
}

std::string TestName(const testing::TestParamInfo<std::tuple<DType, bool>>& info) {
  return std::string(Name(std::get<0>(info.param))) + (std::get<1>(info.param) ? "_vector" : "_scalar");
}

INSTANTIATE_TEST_SUITE_P(All, Ops, testing::Combine(testing::ValuesIn(kTypes), testing::Bool()), TestName);

// f32 around the boundaries of f16 and bf16, where rounding decides.
TEST(Casts, RoundFloatsToNearestEven) {
  std::vector<uint64_t> bits;
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t exponent = i % 4 == 0 ? random() % 256 : 100 + random() % 45;
    const uint32_t low = std::array<uint32_t, 8>{0,      0x1000, 0x0fff, 0x1001,
                                                 0x8000, 0x7fff, 0x8001, static_cast<uint32_t>(random())}[i % 8];
    bits.push_back((random() & 0x80000000) | exponent << 23 | ((random() << 13 | low) & 0x7fffff));
  }
  ElementwiseKernel kernel(true);
  const loop::ValueId x = kernel.Input(DType::kFloat32, Pack(DType::kFloat32, bits));
  kernel.Output(kernel.b().Cast(DType::kFloat16, x), "f16");
  kernel.Output(kernel.b().Cast(DType::kBFloat16, x), "bf16");
  kernel.Check(static_cast<int64_t>(bits.size()));
}

// Random operands of close exponents, so that products and addends overlap, cancel, and become subnormal.
class Fma : public testing::TestWithParam<DType> {};

TEST_P(Fma, RoundsOnce) {
  const DType type = GetParam();
  const bool wide = type == DType::kFloat64;
  const int mantissa = wide ? 52 : 23, max_exponent = wide ? 2047 : 255;
  std::mt19937_64 random(11);
  std::vector<uint64_t> x, y, z;
  auto draw = [&](int exponent) {
    uint64_t fraction = random() & ((uint64_t{1} << mantissa) - 1);
    if (random() % 3 == 0) fraction &= ~uint64_t{0} << (random() % mantissa);  // trailing zeros make ties
    exponent = std::clamp(exponent, 0, max_exponent - 1);
    return (random() & 1) << (wide ? 63 : 31) | static_cast<uint64_t>(exponent) << mantissa | fraction;
  };
  for (int i = 0; i < 60000; ++i) {
    const int bias = max_exponent / 2;
    const int ex = static_cast<int>(random() % max_exponent),
              sum = static_cast<int>(random() % max_exponent) + bias / 2;
    x.push_back(draw(ex));
    y.push_back(draw(sum - ex));
    z.push_back(draw(sum - bias + static_cast<int>(random() % (2 * mantissa + 6)) - mantissa - 3));
    if (i % 5 == 0) {  // almost cancels
      const double product = loop::ToDouble(type, x.back()) * loop::ToDouble(type, y.back());
      z.back() = loop::FromDouble(type, -product);
    }
  }
  ElementwiseKernel kernel(true);
  const loop::ValueId args[] = {kernel.Input(type, Pack(type, x)), kernel.Input(type, Pack(type, y)),
                                kernel.Input(type, Pack(type, z))};
  kernel.Output(kernel.b().Apply(Op::kFma, args), "fma");
  kernel.Output(kernel.b().Apply(Op::kRem, args[0], args[2]), "rem");
  kernel.Check(static_cast<int64_t>(x.size()));
}

INSTANTIATE_TEST_SUITE_P(All, Fma, testing::Values(DType::kFloat32, DType::kFloat64));

TEST(Ops, Float8ArithmeticIsUnimplemented) {
  loop::Kernel kernel;
  loop::Builder b(kernel, kernel.body);
  kernel.buffers.push_back({DType::kFloat8E5M2, kernel.syms->Const(1), loop::Space::kGlobal, loop::Access::kReadWrite});
  b.BeginFor(loop::AxisKind::kParallel, kernel.syms->Const(1), 1, kernel.syms->Const(1));
  const loop::ValueId x = b.Load(0, kernel.syms->Const(0));
  b.Store(0, kernel.syms->Const(0), b.Cast(DType::kFloat8E5M2, b.Cast(DType::kFloat32, x)));
  b.EndFor();
  const auto object = CompileObject(kernel, "kernel", "x86-64-v3");
  EXPECT_EQ(object.status().code(), absl::StatusCode::kUnimplemented) << object.status();
}

}  // namespace
}  // namespace kiln
