#include "compiler/codegen/cuda/ptx.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/cuda/machine.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"

namespace kiln {
namespace {

loop::Kernel MustParse(const std::string& text) {
  absl::StatusOr<loop::Kernel> kernel = loop::ParseKernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  if (!kernel.ok()) return {};
  EXPECT_TRUE(loop::Verify(*kernel).ok()) << loop::Verify(*kernel);
  return *std::move(kernel);
}

std::string Ptx(const std::string& text, std::string_view target = "sm_90") {
  const loop::Kernel kernel = MustParse(text);
  absl::StatusOr<std::string> ptx = CompilePtx(kernel, "k", target);
  EXPECT_TRUE(ptx.ok()) << ptx.status();
  return ptx.ok() ? *ptx : "";
}

// The entries for buffers of any alignment, and for aligned ones.
std::pair<std::string, std::string> Entries(const std::string& ptx) {
  const size_t any = ptx.find(".entry k("), aligned = ptx.find(".entry k_aligned(");
  EXPECT_TRUE(any != std::string::npos && aligned != std::string::npos && any < aligned) << ptx;
  return {ptx.substr(any, aligned - any), ptx.substr(aligned)};
}

int Count(const std::string& text, const std::string& what) {
  return static_cast<int>(absl::StrReplaceAll(text, {{what, what + "\1"}}).size() - text.size());
}

constexpr char kDouble[] = R"(kernel {
  buffer b0: TYPE[SIZE] read
  buffer b1: TYPE[SIZE] write
  parallel i0 in 0..SIZE//1024 {
    thread i1 in 0..1024 width 1024 lanes LANES {
      v0: TYPE = load b0[i0*1024 + i1]
      v1: f32 = cast v0
      v2: f32 = add v1, v1
      v3: TYPE = cast v2
      store b1[i0*1024 + i1] = v3
    }
  }
})";

std::string Double(const std::string& type, int lanes) {
  std::string text = absl::StrReplaceAll(kDouble, {{"TYPE", type}, {"SIZE", "65536"}, {"LANES", absl::StrCat(lanes)}});
  if (type == "f32") text = absl::StrReplaceAll(text, {{"cast v0", "neg v0"}, {"cast v2", "neg v2"}});
  return text;
}

TEST(Ptx, AlignedBuffersAreAccessedBy128Bits) {
  const auto& [any, aligned] = Entries(Ptx(Double("bf16", 8)));
  EXPECT_EQ(Count(aligned, "ld.global.nc.v4"), 1);
  EXPECT_EQ(Count(aligned, "st.global.v4"), 1);
  EXPECT_EQ(Count(aligned, "cvt.rn.bf16x2.f32"), 4);
  EXPECT_EQ(Count(any, "ld.global.nc.u16"), 8);
  EXPECT_EQ(Count(any, ".v4"), 0);
  EXPECT_EQ(Count(aligned, ".reqntid 128, 1, 1"), 1);
  EXPECT_EQ(Count(Entries(Ptx(Double("f32", 4))).second, "ld.global.nc.v4.f32"), 1);
}

// A row that begins at odd elements has no aligned vectors.
TEST(Ptx, OddRowsAreNotAccessedByVectors) {
  const std::string odd = absl::StrReplaceAll(Double("bf16", 8), {{"i0*1024", "i0*1023"}});
  EXPECT_EQ(Count(Entries(Ptx(odd)).second, ".v4"), 0);
}

// No contraction, no flush to zero, division rounded.
TEST(Ptx, ArithmeticIsIeee) {
  const std::string ptx = Ptx(R"(kernel {
  buffer b0: f32[64] read
  buffer b1: f32[64] write
  parallel i0 in 0..1 {
    thread i1 in 0..64 width 64 lanes 1 {
      v0: f32 = load b0[i1]
      v1: f32 = mul v0, v0
      v2: f32 = add v1, v0
      v3: f32 = div v2, v0
      v4: f32 = sqrt v3
      store b1[i1] = v4
    }
  }
})");
  for (const char* instruction : {"mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32"})
    EXPECT_EQ(Count(ptx, instruction), 2) << instruction << "\n" << ptx;
  EXPECT_EQ(Count(ptx, "fma"), 0);
}

std::string Sum(int width, int lanes) {
  return absl::StrCat(R"(kernel {
  buffer b0: f32[8192] read
  buffer b1: f32[8] write
  parallel i0 in 0..8 {
    v0: f32 = const 0
    reduce (v1): (f32) over thread i1 in 0..1024 width )",
                      width, " lanes ", lanes, R"( init (v0) {
      v2: f32 = load b0[i0*1024 + i1]
      yield v2
    } combine (v3), (v4) {
      v5: f32 = add v3, v4
      yield v5
    }
    store b1[i0] = v1
  }
})");
}

TEST(Ptx, WarpsReduceByShufflesAndMeetOnce) {
  const std::string one_warp = Entries(Ptx(Sum(128, 4))).second;
  EXPECT_EQ(Count(one_warp, "shfl.sync.down"), 5);
  EXPECT_EQ(Count(one_warp, "bar.sync"), 0);
  const std::string eight_warps = Entries(Ptx(Sum(1024, 4))).second;
  EXPECT_EQ(Count(eight_warps, "shfl.sync.down"), 5 + 3);
  EXPECT_EQ(Count(eight_warps, "shfl.sync.idx"), 1);
  EXPECT_EQ(Count(eight_warps, "bar.sync"), 1);
}

// Read once, used twice.
TEST(Ptx, RowsStayInRegisters) {
  const std::string ptx = Ptx(R"(kernel {
  buffer b0: f32[8192] read
  buffer b1: f32[8192] write
  buffer b2: f32[1024] register readwrite
  parallel i0 in 0..8 {
    v0: f32 = const 0
    reduce (v1): (f32) over thread i1 in 0..1024 width 256 lanes 4 init (v0) {
      v2: f32 = load b0[i0*1024 + i1]
      store b2[i1] = v2
      yield v2
    } combine (v3), (v4) {
      v5: f32 = add v3, v4
      yield v5
    }
    thread i2 in 0..1024 width 256 lanes 4 {
      v6: f32 = load b2[i2]
      v7: f32 = sub v6, v1
      store b1[i0*1024 + i2] = v7
    }
  }
})");
  EXPECT_EQ(Count(Entries(ptx).second, "ld.global.nc.v4.f32"), 4);
  EXPECT_EQ(Count(Entries(ptx).second, "st.global.v4.f32"), 4);
  EXPECT_EQ(Count(ptx, ".local"), 0);
}

TEST(Ptx, RegistersAreNotAccessedByOtherThreads) {
  const loop::Kernel kernel = MustParse(R"(kernel {
  buffer b0: f32[1024] register readwrite
  buffer b1: f32[1024] write
  parallel i0 in 0..1 {
    thread i1 in 0..1024 width 256 lanes 4 {
      v0: f32 = load b0[-i1 + 1023]
      store b1[i1] = v0
    }
  }
})");
  EXPECT_EQ(CompilePtx(kernel, "k", "sm_90").status(),
            absl::InternalError("b0 is accessed where another thread may own the element"));
}

// The halves of rows of 64 change at whole vectors, behind a division.
TEST(Ptx, MasksOfWholeVectorsAreBranches) {
  const std::string ptx = Entries(Ptx(R"(kernel {
  buffer b0: bf16[65536] read
  buffer b1: bf16[65536] write
  parallel i0 in 0..64 {
    thread i1 in 0..1024 width 1024 lanes 8 {
      v0: i64 = index i1 % 64
      v1: i64 = const 32
      v2: bool = lt v0, v1
      v3: bf16 = const 0x0p+0
      v4: bf16 = load b0[i0*1024 + i1 + 32] mask v2 else v3
      store b1[i0*1024 + i1] = v4
    }
  }
})"))
                              .second;
  EXPECT_EQ(Count(ptx, "ld.global"), 1) << ptx;
  EXPECT_EQ(Count(ptx, "ld.global.nc.v4"), 1);
  EXPECT_EQ(Count(ptx, "setp."), 1);
}

TEST(Ptx, EveryTargetAndNoOther) {
  for (const CudaMachine& machine : kCudaMachines) {
    const std::string ptx = Ptx(Double("bf16", 8), machine.name);
    EXPECT_TRUE(absl::StrContains(ptx, absl::StrCat(".target ", std::string(machine.name), "\n"))) << ptx;
    EXPECT_EQ(Ptx(Double("bf16", 8), machine.name), ptx);
  }
  const loop::Kernel kernel = MustParse(Double("bf16", 8));
  EXPECT_EQ(CompilePtx(kernel, "k", "sm_30").status(), absl::InvalidArgumentError("target sm_30 is not a CUDA target"));
  EXPECT_TRUE(absl::IsInvalidArgument(CompilePtx(kernel, "k;", "sm_90").status()));
}

TEST(Ptx, SharedMemoryIsBounded) {
  const loop::Kernel kernel = MustParse(R"(kernel {
  buffer b0: f32[16384] shared readwrite
  buffer b1: f32[16384] write
  parallel i0 in 0..1 {
    thread i1 in 0..16384 width 256 lanes 1 {
      v0: f32 = load b0[i1]
      store b1[i1] = v0
    }
  }
})");
  EXPECT_EQ(CompilePtx(kernel, "k", "sm_90").status(),
            absl::UnimplementedError("65536 bytes of shared memory, of 49152"));
}

}  // namespace
}  // namespace kiln
