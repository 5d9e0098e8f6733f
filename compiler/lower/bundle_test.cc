#include "compiler/lower/bundle.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/loop/interp.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"

namespace kiln {
namespace {

// y[i] = x[i] + c over `rows` rows of two.
LoweredKernel AddKernel(SymContext& syms, const std::string& constant, ValueId x, ValueId y, uint32_t size) {
  absl::StatusOr<loop::Kernel> kernel = loop::ParseKernel(R"(kernel {
    sizes s0 in [0, 100]
    buffer b0: f32[s0*2] read
    buffer b1: f32[s0*2] write
    parallel i0 in 0..s0 grain 3 {
      vector i1 in 0..2 width 2 {
        v0: f32 = load b0[i0*2 + i1]
        v1: f32 = const )" + constant + R"(
        v2: f32 = add v0, v1
        store b1[i0*2 + i1] = v2
      }
    }
  })");
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  LoweredKernel lowered;
  lowered.kernel = *std::move(kernel);
  lowered.buffers = {{.root = x}, {.root = y}};
  lowered.sizes = {syms.Size(size)};
  lowered.extent = syms.Size(size);
  lowered.grain = syms.Const(3);
  return lowered;
}

class BundleTest : public testing::Test {
 protected:
  // Runs the bundle of `parts`, whose roots are numbered from 0 and have `elements` each.
  std::vector<std::vector<float>> Run(std::vector<LoweredKernel> parts, size_t roots, size_t elements,
                                      const std::function<std::optional<int64_t>(Var)>& size) {
    const LoweredKernel bundle = Bundle(syms_, std::move(parts));
    EXPECT_TRUE(loop::Verify(bundle.kernel).ok()) << loop::Verify(bundle.kernel) << loop::ToText(bundle.kernel);
    std::vector<std::vector<float>> memory(roots, std::vector<float>(elements, 1));
    std::vector<loop::BufferArg> args;
    for (const KernelBuffer& buffer : bundle.buffers) {
      args.push_back({memory[buffer.root].data(), static_cast<int64_t>(elements)});
    }
    std::vector<int64_t> sizes;
    for (const Sym s : bundle.sizes) sizes.push_back(*syms_.Eval(s, size));
    const auto stats = loop::Interpret(bundle.kernel, args, sizes);
    EXPECT_TRUE(stats.ok()) << stats.status();
    return memory;
  }

  SymContext syms_;
};

TEST_F(BundleTest, PartsOfDifferentSizesShareWhatTheyRead) {
  std::vector<LoweredKernel> parts;
  parts.push_back(AddKernel(syms_, "0x1p+0", 0, 1, 5));
  parts.push_back(AddKernel(syms_, "0x1p+1", 0, 2, 7));
  const auto size = [](Var var) { return std::optional<int64_t>(var.index == 5 ? 3 : 1); };
  const auto memory = Run(std::move(parts), 3, 6, size);
  EXPECT_EQ(memory[0], (std::vector<float>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(memory[1], (std::vector<float>{2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(memory[2], (std::vector<float>{3, 3, 1, 1, 1, 1}));
}

TEST_F(BundleTest, OnePartStaysAsItIs) {
  std::vector<LoweredKernel> parts;
  parts.push_back(AddKernel(syms_, "0x1p+0", 0, 1, 5));
  const std::string text = loop::ToText(parts.front().kernel);
  EXPECT_EQ(loop::ToText(Bundle(syms_, std::move(parts)).kernel), text);
}

}  // namespace
}  // namespace kiln
