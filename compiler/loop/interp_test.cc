#include "compiler/loop/interp.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "gtest/gtest.h"

namespace kiln::loop {
namespace {

Kernel MustParse(const std::string& text) {
  absl::StatusOr<Kernel> kernel = ParseKernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  if (!kernel.ok()) return {};
  EXPECT_TRUE(Verify(*kernel).ok()) << Verify(*kernel);
  return *std::move(kernel);
}

template <typename T>
BufferArg Arg(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size())};
}

constexpr char kRelu[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[s0] read
  buffer b1: f32[s0] write
  parallel i0 in 0..s0 {
    v0: f32 = load b0[i0]
    v1: f32 = const 2
    v2: f32 = const 1
    v3: f32 = mul v0, v1
    v4: f32 = add v3, v2
    v5: f32 = const 0
    v6: f32 = max v4, v5
    store b1[i0] = v6
  }
})";

TEST(Interpret, CountsReadsAndWrites) {
  Kernel kernel = MustParse(kRelu);
  std::vector<float> x = {-1, -0.25, 0.5}, y(3);
  const BufferArg args[] = {Arg(x), Arg(y)};
  const int64_t sizes[] = {3};
  absl::StatusOr<RunStats> stats = Interpret(kernel, args, sizes);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(y, (std::vector<float>{0, 0.5, 2}));
  EXPECT_EQ(stats->reads, (std::vector<uint64_t>{3, 0}));
  EXPECT_EQ(stats->writes, (std::vector<uint64_t>{0, 3}));
}

TEST(Interpret, RunsPartOfTheParallelAxis) {
  Kernel kernel = MustParse(kRelu);
  std::vector<float> x = {1, 1, 1, 1}, y(4, -7);
  const BufferArg args[] = {Arg(x), Arg(y)};
  const int64_t sizes[] = {4};
  ASSERT_TRUE(Interpret(kernel, args, sizes, {.begin = 1, .end = 3}).ok());
  EXPECT_EQ(y, (std::vector<float>{-7, 3, 3, -7}));
  EXPECT_TRUE(Interpret(kernel, args, sizes, {.begin = 4, .end = 4}).ok());
  EXPECT_EQ(Interpret(kernel, args, sizes, {.begin = 3, .end = 5}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Interpret, RefusesWrongArguments) {
  Kernel kernel = MustParse(kRelu);
  std::vector<float> x(3), y(3);
  const BufferArg args[] = {Arg(x), Arg(y)};
  const int64_t sizes[] = {3}, negative[] = {-1};
  EXPECT_EQ(Interpret(kernel, args, {}).status().message(), "kernel takes 1 sizes, got 0");
  EXPECT_EQ(Interpret(kernel, args, negative).status().message(), "size s0 = -1 is out of its range");
  EXPECT_EQ(Interpret(kernel, std::span(args, 1), sizes).status().message(), "too few buffers given");
}

TEST(Interpret, AccessesBeyondABufferAreNamed) {
  Kernel kernel = MustParse(kRelu);
  std::vector<float> x(3), y(2);
  const BufferArg args[] = {Arg(x), Arg(y)};
  const int64_t sizes[] = {3};
  absl::Status status = Interpret(kernel, args, sizes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(), "store to b1[2], which has 2 elements");
}

TEST(Interpret, OperationsAreBounded) {
  Kernel kernel = MustParse("kernel {\nparallel i0 in 0..1000000 {\nserial i1 in 0..1000000 {\n}\n}\n}");
  absl::Status status = Interpret(kernel, {}, {}, {.max_operations = 1000}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(Interpret, MasksReadAndWriteNothing) {
  Kernel kernel = MustParse(R"(kernel {
  buffer b0: f32[4] read
  buffer b1: f32[4] write
  parallel i0 in 0..6 {
    v0: i64 = index i0
    v1: i64 = const 4
    v2: bool = lt v0, v1
    v3: f32 = const 9
    v4: f32 = load b0[i0] mask v2 else v3
    store b1[i0] = v4 mask v2
  }
})");
  std::vector<float> x = {1, 2, 3, 4}, y(4);
  const BufferArg args[] = {Arg(x), Arg(y)};
  absl::StatusOr<RunStats> stats = Interpret(kernel, args, {});
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(y, x);
  EXPECT_EQ(stats->reads[0], 4);
  EXPECT_EQ(stats->writes[1], 4);
}

TEST(Interpret, ABadIndexSetsTheErrorAndReadsElementZero) {
  Kernel kernel = MustParse(R"(kernel {
  sizes s0 in [1, inf)
  buffer b0: i64[2] read
  buffer b1: f32[s0] read
  buffer b2: f32[2] write
  parallel i0 in 0..2 {
    v0: i64 = const 0
    v1: i64 = check_index v0 in s0
    v2: i64 = load b0[i0]
    v3: i64 = check_index v2 in s0
    v4: f32 = load b1[v3]
    store b2[i0] = v4
  }
})");
  std::vector<int64_t> index = {2, -1};
  std::vector<float> x = {10, 20, 30}, y(2);
  const BufferArg args[] = {Arg(index), Arg(x), Arg(y)};
  const int64_t sizes[] = {3};
  absl::StatusOr<RunStats> stats = Interpret(kernel, args, sizes);
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(y, (std::vector<float>{30, 10}));
  EXPECT_EQ(stats->error, 2) << "the second check of the kernel failed";
}

// Sums s0 floats, `axis` says how.
float Sum(const std::string& axis, std::vector<float> x) {
  Kernel kernel = MustParse(
      "kernel {\nsizes s0 in [0, inf)\nbuffer b0: f32[s0] read\nbuffer b1: f32[1] write\n"
      "parallel i0 in 0..1 {\nv0: f32 = const 0\nreduce (v1): (f32) over " +
      axis +
      " init (v0) {\nv2: f32 = load b0[i1]\nyield v2\n} combine (v3), (v4) {\n"
      "v5: f32 = add v3, v4\nyield v5\n}\nstore b1[0] = v1\n}\n}");
  std::vector<float> y(1);
  const BufferArg args[] = {Arg(x), Arg(y)};
  const int64_t sizes[] = {static_cast<int64_t>(x.size())};
  absl::StatusOr<RunStats> stats = Interpret(kernel, args, sizes);
  EXPECT_TRUE(stats.ok()) << stats.status();
  return y[0];
}

TEST(Interpret, ReductionOrderIsTheSchedules) {
  std::vector<float> x(11);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(3 + i * i);
  float serial = 0;
  for (float value : x) serial += value;
  EXPECT_EQ(Sum("serial i1 in 0..s0", x), serial);

  // Width 2, 2 accumulators: lane r % 4; then the second accumulator onto the first, then lane 1 onto lane 0.
  float lane[4] = {};
  for (size_t r = 0; r < x.size(); ++r) lane[r % 4] = lane[r % 4] + x[r];
  lane[0] = lane[0] + lane[2];
  lane[1] = lane[1] + lane[3];
  EXPECT_EQ(Sum("vector i1 in 0..s0 width 2 accumulators 2", x), lane[0] + lane[1]);

  // Width 4: by halving.
  float wide[4] = {};
  for (size_t r = 0; r < x.size(); ++r) wide[r % 4] = wide[r % 4] + x[r];
  EXPECT_EQ(Sum("vector i1 in 0..s0 width 4", x), (wide[0] + wide[2]) + (wide[1] + wide[3]));
  EXPECT_EQ(Sum("vector i1 in 0..s0 width 8 accumulators 4", {}), 0);
}

// The fold is no sum, so that its order shows: combine(a, b) = 2a + b.
TEST(Interpret, ThreadsFoldTheirLanesThenWarpsThenTheBlock) {
  Kernel kernel = MustParse(R"(kernel {
  buffer b0: f64[128] read
  buffer b1: f64[1] write
  parallel i0 in 0..1 {
    v0: f64 = const 0
    reduce (v1): (f64) over thread i1 in 0..128 width 128 lanes 2 init (v0) {
      v2: f64 = load b0[i1]
      yield v2
    } combine (v3), (v4) {
      v5: f64 = add v3, v3
      v6: f64 = add v5, v4
      yield v6
    }
    store b1[0] = v1
  }
})");
  // Lanes 2t and 2t + 1 of thread t; five halvings of a warp; two warps. (The first fold, with init, changes nothing.)
  const auto weight = [](int i) {
    const int lane = i % 2, thread = i / 2 % 32, warp = i / 64;
    int doubled = (lane == 0) + (warp == 0);
    for (int half = 16, t = thread; half >= 1; half /= 2) {
      doubled += t < half;
      t %= half;
    }
    return std::ldexp(1.0, doubled);
  };
  for (const int i : {0, 1, 2, 33, 63, 64, 127}) {
    std::vector<double> x(128), y(1);
    x[i] = 1;
    const BufferArg args[] = {Arg(x), Arg(y)};
    ASSERT_TRUE(Interpret(kernel, args, {}).ok());
    EXPECT_EQ(y[0], weight(i)) << i;
  }
}

// Two threads, two lanes each; thread 0 has elements 0 and 1.
TEST(Interpret, ThreadsMeetOnlyAcrossBarriers) {
  const auto run = [](const std::string& between, const std::string& index) {
    Kernel kernel = MustParse(R"(kernel {
  buffer b0: f32[4] read
  buffer b1: f32[4] write
  buffer b2: f32[4] shared readwrite
  parallel i0 in 0..1 {
    thread i1 in 0..4 width 4 lanes 2 {
      v0: f32 = load b0[i1]
      store b2[i1] = v0
    }
)" + between + R"(
    thread i2 in 0..4 width 4 lanes 2 {
      v1: f32 = load b2[)" + index +
                              R"(]
      store b1[i2] = v1
    }
  }
})");
    std::vector<float> x = {1, 2, 3, 4}, y(4);
    const BufferArg args[] = {Arg(x), Arg(y)};
    const absl::Status status = Interpret(kernel, args, {}).status();
    return status.ok() ? std::to_string(y[0]).substr(0, 1) + std::to_string(y[3]).substr(0, 1)
                       : std::string(status.message());
  };
  EXPECT_EQ(run("", "i2"), "14");
  EXPECT_EQ(run("", "i2//2*2 + 1 - i2 % 2"), "23");  // the other lane's
  EXPECT_EQ(run("", "3 - i2"), "threads race for b2[3] in block 0");
  EXPECT_EQ(run("barrier", "3 - i2"), "41");
}

TEST(Interpret, BlocksDoNotMeet) {
  Kernel kernel = MustParse(R"(kernel {
  buffer b0: f32[8] readwrite
  parallel i0 in 0..2 {
    thread i1 in 0..4 width 4 lanes 1 {
      v0: f32 = const 1
      store b0[i0*3 + i1] = v0
    }
    barrier
  }
})");
  std::vector<float> x(8);
  const BufferArg args[] = {Arg(x)};
  EXPECT_EQ(Interpret(kernel, args, {}).status().message(), "threads race for b0[3] in block 1");
}

TEST(Interpret, LowPrecisionIsRoundedToEven) {
  Kernel kernel = MustParse(R"(kernel {
  buffer b0: bf16[2] readwrite
  parallel i0 in 0..2 {
    v0: bf16 = load b0[i0]
    v1: f32 = cast v0
    v2: f32 = const 0x1p-8
    v3: f32 = add v1, v2
    v4: bf16 = cast v3
    store b0[i0] = v4
  }
})");
  std::vector<uint16_t> x = {0x3f80, 0x3f81};  // 1 and the next: adding half a unit is a tie
  const BufferArg args[] = {Arg(x)};
  ASSERT_TRUE(Interpret(kernel, args, {}).ok());
  EXPECT_EQ(x, (std::vector<uint16_t>{0x3f80, 0x3f82}));
}

TEST(Interpret, IndicesDivideTowardsMinusInfinity) {
  Kernel kernel = MustParse(R"(kernel {
  sizes s0 in (-inf, inf)
  buffer b0: i64[4] write
  parallel i0 in 0..1 {
    v0: i64 = index s0//4
    v1: i64 = index s0 % 4
    v2: i64 = index min(s0, 3)
    v3: i64 = index max(s0*s0, 5)
    store b0[0] = v0
    store b0[1] = v1
    store b0[2] = v2
    store b0[3] = v3
  }
})");
  std::vector<int64_t> y(4);
  const BufferArg args[] = {Arg(y)};
  const int64_t sizes[] = {-7};
  ASSERT_TRUE(Interpret(kernel, args, sizes).ok());
  EXPECT_EQ(y, (std::vector<int64_t>{-2, 1, -7, 49}));
}

TEST(Interpret, ScratchIsFreshForEachIteration) {
  Kernel kernel = MustParse(R"(kernel {
  buffer b0: u8[2] write
  buffer b1: u8[1] register readwrite
  parallel i0 in 0..2 {
    v0: u8 = load b1[0]
    store b0[i0] = v0
    v1: u8 = const 7
    store b1[0] = v1
  }
})");
  std::vector<uint8_t> y(2);
  const BufferArg args[] = {Arg(y)};
  ASSERT_TRUE(Interpret(kernel, args, {}).ok());
  EXPECT_EQ(y, (std::vector<uint8_t>{255, 255}));
}

}  // namespace
}  // namespace kiln::loop
