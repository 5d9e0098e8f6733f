// Whole kernels, generated for every target, against the interpreter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "compiler/codegen/cpu/native_run.h"
#include "compiler/codegen/cpu/object.h"
#include "compiler/loop/text.h"

namespace kiln {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr char kRelu[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[s0] read
  buffer b1: f32[s0] write
  parallel i0 in 0..(s0 + 255)//256 grain 1 {
    vector i1 in 0..min(256, s0 - 256*i0) width 16 {
      v0: f32 = load b0[256*i0 + i1]
      v1: f32 = const 0x1p+1
      v2: f32 = mul v0, v1
      v3: f32 = const 0x1p+0
      v4: f32 = add v2, v3
      v5: f32 = const 0x0p+0
      v6: f32 = max v4, v5
      store b1[256*i0 + i1] = v6
    }
  }
}
)";

TEST(Kernel, ReluOfAffineForEverySize) {
  std::vector<NativeCase> cases;
  for (const int64_t n : {0, 1, 7, 15, 16, 17, 255, 256, 257, 1000}) {
    cases.push_back({{RandomFloats(n), Zeros<float>(n)}, {n}, 3});
  }
  EXPECT_EQ(CompareWithInterpreter(kRelu, cases), absl::OkStatus());
}

TEST(Kernel, UsesTheVectorRegistersOfItsTarget) {
  const auto kernel = loop::ParseKernel(kRelu);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  for (const auto& [target, reg, other] :
       {std::tuple("x86-64-v2", "%xmm", "%ymm"), std::tuple("x86-64-v3", "%ymm", "%zmm"),
        std::tuple("x86-64-v4", "%zmm", "%tmm")}) {
    const auto text = AssemblyText(*kernel, "kernel", target);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_NE(text->find(reg), std::string::npos) << *text;
    EXPECT_EQ(text->find(other), std::string::npos) << *text;
    EXPECT_EQ(text->find("call"), std::string::npos) << *text;
  }
}

TEST(Kernel, StreamsWholeLines) {
  constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[s0] read
  buffer b1: f32[s0] write
  parallel i0 in 0..1 {
    vector i1 in 0..s0 width 16 {
      v0: f32 = load b0[i1]
      v1: f32 = add v0, v0
      store b1[i1] = v1 streaming
    }
  }
}
)";
  std::vector<NativeCase> cases;
  // Memory ends where a page does: of 96 it begins with a line, of 97 and 100 it does not.
  for (const int64_t n : {0, 15, 16, 96, 97, 100, 1000}) cases.push_back({{RandomFloats(n), Zeros<float>(n)}, {n}, 1});
  EXPECT_EQ(CompareWithInterpreter(kText, cases), absl::OkStatus());
  const auto assembly = AssemblyText(*loop::ParseKernel(kText), "kernel", "x86-64-v4");
  ASSERT_TRUE(assembly.ok()) << assembly.status();
  EXPECT_NE(assembly->find("vmovntps"), std::string::npos) << *assembly;
  EXPECT_NE(assembly->find("sfence"), std::string::npos) << *assembly;
}

// Far outside of the buffer too.
TEST(Kernel, PrefetchesEachLineOfItsLanes) {
  for (const auto& [width, lines] : {std::pair(16, 1), std::pair(32, 2)}) {
    const std::string text = absl::StrReplaceAll(R"(kernel {
  buffer b0: f32[32] read
  buffer b1: f32[32] write
  parallel i0 in 0..1 {
    serial i1 in 0..32//WIDTH {
      vector i2 in 0..WIDTH width WIDTH {
        prefetch b0[WIDTH*i1 + i2 + 1073741824]
        v0: f32 = load b0[WIDTH*i1 + i2]
        store b1[WIDTH*i1 + i2] = v0
      }
    }
  }
}
)",
                                                 {{"WIDTH", absl::StrCat(width)}});
    const auto kernel = loop::ParseKernel(text);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const auto assembly = AssemblyText(*kernel, "kernel", "x86-64-v4");
    ASSERT_TRUE(assembly.ok()) << assembly.status();
    const std::vector<std::string> parts = absl::StrSplit(*assembly, "prefetcht0");
    EXPECT_EQ((parts.size() - 1) % lines, 0u) << *assembly;
    EXPECT_GT(parts.size(), 1u) << *assembly;
    const std::vector<NativeCase> cases = {{{RandomFloats(32), Zeros<float>(32)}, {}, 3}};
    EXPECT_EQ(CompareWithInterpreter(text, cases), absl::OkStatus());
  }
}

TEST(Kernel, BroadcastsRowsAndColumns) {
  constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf), s1 in [0, inf)
  buffer b0: f32[s0*s1] read
  buffer b1: f32[s1] read
  buffer b2: f32[s0] read
  buffer b3: f32[s0*s1] write
  parallel i0 in 0..s0 grain 1 {
    vector i1 in 0..s1 width 16 {
      v0: f32 = load b0[s1*i0 + i1]
      v1: f32 = load b1[i1]
      v2: f32 = load b2[i0]
      v3: f32 = sqrt v2
      v4: f32 = mul v0, v1
      v5: f32 = div v4, v3
      store b3[s1*i0 + i1] = v5
    }
  }
}
)";
  std::vector<NativeCase> cases;
  for (const auto& [m, n] : {std::pair(0, 5), std::pair(5, 0), std::pair(3, 16), std::pair(4, 33), std::pair(1, 1)}) {
    cases.push_back({{RandomFloats(m * n), RandomFloats(n, 2), RandomFloats(m, 3), Zeros<float>(m * n)}, {m, n}, 2});
  }
  EXPECT_EQ(CompareWithInterpreter(kText, cases), absl::OkStatus());
  // The square root belongs to the row: it leaves the loop over columns.
  const auto kernel = loop::ParseKernel(kText);
  ASSERT_TRUE(kernel.ok());
  const auto text = LlvmText(*kernel, "kernel", "x86-64-v3", LlvmStage::kOptimized);
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text->find("call float @llvm.sqrt.f32"), std::string::npos) << *text;
  EXPECT_EQ(text->find("@llvm.sqrt.v16f32"), std::string::npos) << *text;
}

TEST(Kernel, TransposesByGatherAndByScatter) {
  for (const char* text : {R"(kernel {
  sizes s0 in [0, inf), s1 in [0, inf)
  buffer b0: f32[s0*s1] read
  buffer b1: f32[s0*s1] write
  parallel i0 in 0..s0 grain 1 {
    vector i1 in 0..s1 width 16 {
      v0: f32 = load b0[s0*i1 + i0]
      store b1[s1*i0 + i1] = v0
    }
  }
}
)",
                           R"(kernel {
  sizes s0 in [0, inf), s1 in [0, inf)
  buffer b0: f32[s0*s1] read
  buffer b1: f32[s0*s1] write
  parallel i0 in 0..s0 grain 1 {
    vector i1 in 0..s1 width 16 {
      v0: f32 = load b0[s1*i0 + i1]
      store b1[s0*i1 + i0] = v0
    }
  }
}
)"}) {
    std::vector<NativeCase> cases;
    for (const auto& [m, n] : {std::pair(3, 16), std::pair(4, 33), std::pair(17, 2)}) {
      cases.push_back({{RandomFloats(m * n), Zeros<float>(m * n)}, {m, n}, 1});
    }
    EXPECT_EQ(CompareWithInterpreter(text, cases), absl::OkStatus()) << text;
  }
}

// Strides, reversal, and index arithmetic that is not linear in the vector axis.
TEST(Kernel, IndexExpressions) {
  const char* const indices[] = {"3*i1 + i0",
                                 "99 - i1",
                                 "(i1 + 3*i0)//4 + 7",
                                 "(i1 + 50*i0) % 7",
                                 "(i1*(i0 + 1)) % 100",
                                 "min(i1, 13) + max(i1 - 20, 0)",
                                 "(i1 - 25)//7 + 40",
                                 "(i1*i1) % 64",
                                 "(i1 - 25 + 100*s0) % 64 + (i1 % s0)",
                                 "i1//s0 + i0",
                                 "(i1 + i0)//(i0 + 1)",
                                 "i1//((s0 - 9)//2 + 3)",
                                 "i1 % ((s0 - 9)//2 + 3)",
                                 "i1//(s0 - 10) + 20",
                                 "i1 % (s0 - 10) + 20",
                                 "0*i1 + 5"};
  for (const char* index : indices) {
    const std::string text = std::string(R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[200] read
  buffer b1: f32[100] write
  buffer b2: i64[100] write
  parallel i0 in 0..2 grain 1 {
    vector i1 in 0..50 width 16 {
      v0: f32 = load b0[)") + index +
                             R"(]
      v1: i64 = index )" + index +
                             R"(
      store b1[50*i0 + i1] = v0
      store b2[50*i0 + i1] = v1
    }
  }
}
)";
    const NativeCase run = {{RandomFloats(200), Zeros<float>(100), Zeros<int64_t>(100)}, {7}, 1};
    EXPECT_EQ(CompareWithInterpreter(text, std::span(&run, 1)), absl::OkStatus()) << text;
  }
}

// A zero size in a divisor of a loop that never runs is computed outside of it, and must not trap.
TEST(Kernel, HoistedDivisionByZeroDoesNotTrap) {
  constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf), s1 in [0, inf)
  buffer b0: f32[s0] write
  parallel i0 in 0..1 grain 1 {
    vector i1 in 0..s1 width 8 {
      v0: f32 = const 0x1p+0
      store b0[s0//s1 + i1] = v0
    }
  }
}
)";
  const NativeCase run = {{Zeros<float>(8)}, {8, 0}, 1};
  EXPECT_EQ(CompareWithInterpreter(kText, std::span(&run, 1)), absl::OkStatus());
}

TEST(Kernel, Bfloat16ChainRoundsAtEachStep) {
  constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: bf16[s0] read
  buffer b1: f16[s0] read
  buffer b2: bf16[s0] write
  buffer b3: f16[s0] write
  parallel i0 in 0..1 grain 1 {
    vector i1 in 0..s0 width 32 {
      v0: bf16 = load b0[i1]
      v1: f16 = load b1[i1]
      v2: f32 = cast v0
      v3: f32 = cast v1
      v4: f32 = mul v2, v3
      v5: bf16 = cast v4
      v6: f32 = cast v5
      v7: f32 = add v6, v3
      v8: bf16 = cast v7
      v9: f16 = cast v7
      store b2[i1] = v8
      store b3[i1] = v9
    }
  }
}
)";
  std::vector<NativeCase> cases;
  for (const int64_t n : {1, 31, 32, 33, 1000}) {
    Bytes bits = RandomIntegers((n + 3) / 4, INT64_MIN, INT64_MAX);
    bits.resize(static_cast<size_t>(2 * n));
    cases.push_back({{bits, bits, Zeros<int16_t>(n), Zeros<int16_t>(n)}, {n}, 1});
  }
  EXPECT_EQ(CompareWithInterpreter(kText, cases), absl::OkStatus());
}

// NaNs whose bits are all ones, that rounding by a carry would make zeros; some that came from a bf16 and some that did
// not.
TEST(Kernel, EveryNanStaysOne) {
  constexpr char kText[] = R"(kernel {
  buffer b0: f32[4] read
  buffer b1: bf16[4] read
  buffer b2: bf16[4] write
  buffer b3: bf16[4] write
  parallel i0 in 0..1 grain 1 {
    vector i1 in 0..4 width 4 {
      v0: f32 = load b0[i1]
      v1: bf16 = load b1[i1]
      v2: f32 = cast v1
      v3: f32 = const 0x1p-1
      v4: f32 = mul v2, v3
      v5: f32 = neg v2
      v6: f32 = max v4, v0
      v7: bf16 = cast v6
      v8: bf16 = cast v5
      store b2[i1] = v7
      store b3[i1] = v8
    }
  }
}
)";
  const uint32_t wide[] = {0x7fffffff, 0xffffffff, 0x7f800001, 0x3f800000};
  const uint16_t narrow[] = {0x7fff, 0xffff, 0xff81, 0x3f80};
  Bytes b0(sizeof(wide)), b1(sizeof(narrow));
  std::memcpy(b0.data(), wide, sizeof(wide));
  std::memcpy(b1.data(), narrow, sizeof(narrow));
  const NativeCase run = {{b0, b1, Zeros<int16_t>(4), Zeros<int16_t>(4)}, {}, 1};
  EXPECT_EQ(CompareWithInterpreter(kText, std::span(&run, 1)), absl::OkStatus());
}

// Any nonzero byte is true; what is stored is 0 or 1.
TEST(Kernel, BoolsAreBytes) {
  constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: bool[s0] read
  buffer b1: f32[s0] read
  buffer b2: bool[s0] write
  buffer b3: f32[s0] write
  buffer b4: bool[s0] write
  parallel i0 in 0..1 grain 1 {
    vector i1 in 0..s0 width 16 {
      v0: bool = load b0[i1]
      v1: f32 = load b1[i1]
      v2: f32 = const 0x0p+0
      v3: bool = lt v1, v2
      v4: bool = and v0, v3
      v5: f32 = select v4, v1, v2
      v6: bool = not v0
      store b2[i1] = v4
      store b3[i1] = v5
      store b4[i1] = v6
    }
  }
}
)";
  std::vector<NativeCase> cases;
  for (const int64_t n : {1, 15, 16, 50}) {
    Bytes bools(static_cast<size_t>(n));
    for (size_t i = 0; i < bools.size(); ++i) bools[i] = static_cast<uint8_t>(i % 3 == 0 ? 0 : i * 37 % 256);
    cases.push_back({{bools, RandomFloats(n), Zeros<bool>(n), Zeros<float>(n), Zeros<bool>(n)}, {n}, 1});
  }
  EXPECT_EQ(CompareWithInterpreter(kText, cases), absl::OkStatus());
}

// Padding: the index is out of bounds where the mask is false.
TEST(Kernel, MaskedLoadsAndStores) {
  constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[s0] read
  buffer b1: f32[s0 + 10] write
  buffer b2: i16[s0] read
  buffer b3: i16[s0 + 10] readwrite
  parallel i0 in 0..2 grain 1 {
    v0: i64 = index i0
    v1: i64 = const 1
    v2: bool = eq v0, v1
    vector i1 in 0..s0 + 10 width 16 {
      v3: i64 = index i1 - 5
      v4: i64 = const 0
      v5: bool = le v4, v3
      v6: i64 = index s0
      v7: bool = lt v3, v6
      v8: bool = and v5, v7
      v9: f32 = const -0x1p+0
      v10: f32 = load b0[i1 - 5] mask v8 else v9
      v11: i16 = const 7
      v12: i16 = load b2[i1 - 5] mask v8 else v11
      v13: i16 = load b3[i1] mask v2 else v12
      v14: i16 = add v12, v13
      store b1[i1] = v10 mask v2
      store b3[i1] = v14 mask v8
    }
  }
}
)";
  std::vector<NativeCase> cases;
  for (const int64_t n : {0, 1, 6, 16, 45}) {
    Bytes shorts(static_cast<size_t>(2 * n));
    for (size_t i = 0; i < shorts.size(); ++i) shorts[i] = static_cast<uint8_t>(i * 91);
    cases.push_back({{RandomFloats(n), Zeros<float>(n + 10), shorts, Zeros<int16_t>(n + 10)}, {n}, 1});
  }
  EXPECT_EQ(CompareWithInterpreter(kText, cases), absl::OkStatus());
}

// A uniform load under a mask that varies, and one under a mask that does not.
TEST(Kernel, MaskedUniformLoads) {
  constexpr char kText[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[1] read
  buffer b1: f32[s0] write
  buffer b2: f32[s0] write
  parallel i0 in 0..1 grain 1 {
    vector i1 in 0..s0 width 8 {
      v0: i64 = index i1
      v1: i64 = const 20
      v2: bool = lt v0, v1
      v3: f32 = const 0x1p+3
      v4: f32 = load b0[0] mask v2 else v3
      v5: bool = const false
      v6: f32 = load b0[1000] mask v5 else v4
      store b1[i1] = v4
      store b2[i1] = v6
    }
  }
}
)";
  for (const int64_t n : {1, 8, 43}) {
    const NativeCase run = {{RandomFloats(1), Zeros<float>(n), Zeros<float>(n)}, {n}, 1};
    EXPECT_EQ(CompareWithInterpreter(kText, std::span(&run, 1)), absl::OkStatus());
  }
}

// The storage contract of emit.h: one buffer may be read and written at equal indices.
TEST(Kernel, UpdatesInPlaceThroughTwoBuffers) {
  const auto kernel = loop::ParseKernel(kRelu);
  ASSERT_TRUE(kernel.ok());
  for (const char* target : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (!HostRuns(target)) continue;
    auto native = NativeKernel::Compile(*kernel, target);
    ASSERT_TRUE(native.ok()) << native.status();
    std::vector<float> data(1000);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7) - 3;
    std::vector<float> want = data;
    for (float& x : want) x = std::max(x * 2 + 1, 0.0f);
    void* buffers[] = {data.data(), data.data()};
    const int64_t size = 1000;
    int64_t error = 0;
    native->function()(buffers, &size, 0, 4, &error);
    EXPECT_EQ(data, want);
  }
}

TEST(Kernel, ScratchBuffersLiveOnTheStack) {
  constexpr char kText[] = R"(kernel {
  buffer b0: f32[64] read
  buffer b1: f32[64] write
  buffer b2: f32[8] register readwrite
  parallel i0 in 0..8 grain 1 {
    vector i1 in 0..8 width 8 {
      v0: f32 = load b0[8*i0 + i1]
      store b2[i1] = v0
    }
    vector i2 in 0..8 width 8 {
      v1: f32 = load b2[7 - i2]
      store b1[8*i0 + i2] = v1
    }
  }
}
)";
  const NativeCase run = {{RandomFloats(64), Zeros<float>(64)}, {}, 1};
  EXPECT_EQ(CompareWithInterpreter(kText, std::span(&run, 1)), absl::OkStatus());
}

// Constant extents below the width, of one, and around multiples of it.
TEST(Kernel, ConstantExtents) {
  for (const int64_t n : {1, 2, 3, 8, 9, 16, 17, 31, 48}) {
    const std::string size = std::to_string(n);
    const std::string text =
        "kernel {\n  buffer b0: f64[" + size + "] read\n  buffer b1: f64[" + size +
        "] write\n  parallel i0 in 0..1 grain 1 {\n    vector i1 in 0.." + size +
        " width 16 {\n      v0: f64 = load b0[i1]\n      v1: f64 = neg v0\n      store b1[i1] = v1\n"
        "    }\n  }\n}\n";
    const NativeCase run = {{RandomFloats(2 * n), Zeros<double>(n)}, {}, 1};
    EXPECT_EQ(CompareWithInterpreter(text, std::span(&run, 1)), absl::OkStatus()) << text;
  }
}

TEST(Kernel, RefusesWhatItHasNoCodeFor) {
  const auto kernel = loop::ParseKernel(R"(kernel {
  buffer b0: f32[256] write
  parallel i0 in 0..1 grain 1 {
    vector i1 in 0..16 width 16 {
      serial i2 in 0..i1 {
        v0: f32 = const 0x0p+0
        store b0[16*i1 + i2] = v0
      }
    }
  }
}
)");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(CompileObject(*kernel, "kernel", "x86-64-v3").status(),
            absl::UnimplementedError("extent of i2 varies over a vector axis"));
}

}  // namespace
}  // namespace kiln
