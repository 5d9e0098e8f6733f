// The functions of mathlib as generated code, for every target: bit for bit what the interpreter makes of the same
// definitions.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "compiler/codegen/cpu/native_run.h"
#include "compiler/loop/builder.h"
#include "compiler/loop/scalar.h"
#include "compiler/mathlib/expand.h"
#include "compiler/mathlib/function.h"

namespace kiln {
namespace {

using loop::Op;

std::vector<Op> Functions() {
  std::vector<Op> ops;
  for (const mathlib::Function* function : mathlib::AllFunctions()) ops.push_back(function->op);
  return ops;
}

// All magnitudes, NaN and infinities among them.
std::vector<uint8_t> AnyBits(size_t elements, size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(elements * size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

std::vector<uint8_t> Moderate(size_t elements, DType type, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> draw(0, 8);
  const size_t size = static_cast<size_t>(ByteSize(type));
  std::vector<uint8_t> bytes(elements * size);
  for (size_t i = 0; i < elements; ++i) {
    const uint64_t bits = loop::FromDouble(type, draw(random));
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

// b2 = op(b0, b1), done in `type` and expanded.
absl::StatusOr<loop::Kernel> Apply(Op op, DType type, DType stored) {
  loop::Kernel kernel;
  kernel.num_sizes = 1;
  const Sym size = kernel.syms->Size(0);
  for (const loop::Access access : {loop::Access::kRead, loop::Access::kRead, loop::Access::kWrite}) {
    kernel.buffers.push_back({stored, size, loop::Space::kGlobal, access});
  }
  loop::Builder b(kernel, kernel.body);
  b.BeginFor(loop::AxisKind::kParallel, kernel.syms->Const(1), 1, kernel.syms->Const(1));
  const Sym i = b.BeginFor(loop::AxisKind::kVector, size, 16);
  const loop::ValueId args[] = {b.Cast(type, b.Load(0, i)), b.Cast(type, b.Load(1, i))};
  b.Store(2, i, b.Cast(stored, b.Apply(op, std::span(args, static_cast<size_t>(loop::Arity(op))))));
  b.EndFor();
  b.EndFor();
  if (!b.status().ok()) return b.status();
  const absl::Status status = mathlib::Expand(kernel);
  if (!status.ok()) return status;
  return kernel;
}

class Mathlib : public testing::TestWithParam<std::tuple<Op, DType>> {};

TEST_P(Mathlib, GeneratedCodeIsTheDefinition) {
  const auto [op, type] = GetParam();
  const absl::StatusOr<loop::Kernel> kernel = Apply(op, type, type);
  ASSERT_EQ(kernel.status(), absl::OkStatus());
  const size_t bytes = static_cast<size_t>(ByteSize(type));
  constexpr size_t kElements = 3001;
  const NativeCase cases[] = {
      {{AnyBits(kElements, bytes, 1), AnyBits(kElements, bytes, 2), std::vector<uint8_t>(kElements * bytes)},
       {kElements},
       1},
      {{Moderate(kElements, type, 3), Moderate(kElements, type, 4), std::vector<uint8_t>(kElements * bytes)},
       {kElements},
       1}};
  EXPECT_EQ(CompareWithInterpreter(*kernel, cases), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(
    All, Mathlib, testing::Combine(testing::ValuesIn(Functions()), testing::Values(DType::kFloat32, DType::kFloat64)),
    [](const auto& info) {
      return std::string(loop::Name(std::get<0>(info.param))) + "_" + std::string(Name(std::get<1>(info.param)));
    });

class OfBfloat16 : public testing::TestWithParam<Op> {};

// All values, every NaN among them: NaNs stay NaNs though not all are tested for.
TEST_P(OfBfloat16, GeneratedCodeIsTheDefinition) {
  const absl::StatusOr<loop::Kernel> kernel = Apply(GetParam(), DType::kFloat32, DType::kBFloat16);
  ASSERT_EQ(kernel.status(), absl::OkStatus());
  std::vector<uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), uint16_t{0});
  std::vector<uint8_t> x(2 * all.size());
  std::memcpy(x.data(), all.data(), x.size());
  const NativeCase run = {{x, AnyBits(all.size(), 2, 5), Zeros<uint16_t>(1 << 16)}, {1 << 16}, 1};
  EXPECT_EQ(CompareWithInterpreter(*kernel, std::span(&run, 1)), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(All, OfBfloat16, testing::ValuesIn(Functions()),
                         [](const auto& info) { return std::string(loop::Name(info.param)); });

}  // namespace
}  // namespace kiln
