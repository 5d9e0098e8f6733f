// Random kernels, generated for every target, against the interpreter.
#include <gtest/gtest.h>

#include <set>

#include "compiler/codegen/cpu/native_run.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/loop/random_kernel.h"
#include "compiler/loop/text.h"
#include "compiler/mathlib/expand.h"

namespace kiln {
namespace {

// Whether iterations of an axis around `block` surely do not see each other's stores: no buffer is stored twice, or
// stored and loaded, and no store is inside a further loop.
bool IsIndependent(const loop::Block& block, bool outermost, std::multiset<loop::BufferId>& stored,
                   std::set<loop::BufferId>& loaded) {
  for (const loop::Stmt& stmt : block) {
    if (const auto* let = std::get_if<loop::Let>(&stmt.node)) {
      if (let->op == loop::Op::kLoad) loaded.insert(let->buffer);
    } else if (const auto* store = std::get_if<loop::Store>(&stmt.node)) {
      if (!outermost) return false;
      stored.insert(store->buffer);
    } else if (const auto* loop = std::get_if<loop::For>(&stmt.node)) {
      if (!IsIndependent(loop->body, false, stored, loaded)) return false;
    } else if (const auto* reduce = std::get_if<loop::Reduce>(&stmt.node)) {
      if (!IsIndependent(reduce->body, false, stored, loaded)) return false;
    }
  }
  for (const loop::BufferId buffer : stored) {
    if (stored.count(buffer) > 1 || loaded.count(buffer) > 0) return false;
  }
  return true;
}

// Random kernels have vector axes that ir.h does not allow: these become serial.
void SerialiseDependentAxes(loop::Block& block) {
  for (loop::Stmt& stmt : block) {
    auto* loop = std::get_if<loop::For>(&stmt.node);
    auto* reduce = std::get_if<loop::Reduce>(&stmt.node);
    if (loop == nullptr && reduce == nullptr) continue;
    loop::Axis& axis = loop != nullptr ? loop->axis : reduce->axis;
    loop::Block& body = loop != nullptr ? loop->body : reduce->body;
    std::multiset<loop::BufferId> stored;
    std::set<loop::BufferId> loaded;
    if (axis.kind == loop::AxisKind::kVector && !IsIndependent(body, true, stored, loaded)) {
      axis.kind = loop::AxisKind::kSerial;
      axis.width = 1;
    }
    SerialiseDependentAxes(body);
  }
}

class Random : public testing::TestWithParam<int> {};

TEST_P(Random, GeneratedCodeIsTheKernel) {
  constexpr uint64_t kKernels = 100;
  int compared = 0;
  for (uint64_t seed = kKernels * static_cast<uint64_t>(GetParam()), end = seed + kKernels; seed < end; ++seed) {
    loop::RandomKernel random = loop::MakeRandomKernel(seed);
    SerialiseDependentAxes(random.kernel.body);
    const std::string text = loop::ToText(random.kernel);
    ASSERT_EQ(mathlib::Expand(random.kernel), absl::OkStatus());
    const absl::Status status = CompileObject(random.kernel, "kernel", "x86-64-v4").status();
    if (absl::IsUnimplemented(status)) continue;  // float8
    NativeCase run{loop::MakeRandomMemory(random, seed).bytes, random.sizes, 3};
    ASSERT_EQ(CompareWithInterpreter(random.kernel, std::span(&run, 1)), absl::OkStatus()) << seed << "\n" << text;
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Random, testing::Range(0, 3));

}  // namespace
}  // namespace kiln
