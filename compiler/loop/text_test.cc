#include "compiler/loop/text.h"

#include <string>
#include <vector>

#include "compiler/loop/const_text.h"
#include "compiler/loop/verify.h"
#include "gtest/gtest.h"

namespace kiln::loop {
namespace {

constexpr std::string_view kEverything = R"(kernel {
  sizes s0 in [2, inf), s1 in [0, 4096], s2 in (-inf, 7]
  buffer b0: f32[s0*768] read
  buffer b1: i64[s2*s2 + s1] read
  buffer b2: bf16[s0*768] readwrite
  buffer b3: bool[64] shared readwrite
  buffer b4: u8[64] register readwrite
  parallel i0 in 0..s0 grain s1//2 {
    v0: f32 = const -0x1.8p-3
    v1: i64 = const -9223372036854775808
    v2: bool = const true
    v3: f32 = const nan(0x7fc00001)
    v4: bf16 = const inf
    v5: i64 = index i0*2 + 1
    v6: i64 = load b1[i0 % 3] mask v2 else v1
    v7: i64 = check_index v6 in s0
    prefetch b2[s0*768 + i0]
    serial i1 in 0..min(s1, i0 + 1) {
      store b2[i1 + v7*768] = v4 mask v2 streaming
    }
    reduce (v8, v9): (f32, i64) over vector i2 in 0..768 width 16 accumulators 4 init (v0, v1) {
      v10: f32 = load b0[i0*768 + i2]
      v11: i64 = index i2
      yield v10, v11
    } combine (v12, v13), (v14, v15) {
      v16: bool = lt v12, v14
      v17: f32 = select v16, v12, v14
      v18: i64 = max v13, v15
      yield v17, v18
    }
    reduce (v19): (f32) over serial i3 in 0..4 init (v8) {
      yield v0
    } combine (v20), (v21) {
      v22: f32 = fma v20, v21, v20
      yield v22
    }
    vector i4 in 0..768 width 8 {
      v23: bf16 = cast v19
      store b2[i0*768 + i4] = v23
    }
  }
}
)";

constexpr char kThreads[] = R"(kernel {
  sizes s0 in [0, inf)
  buffer b0: f32[s0*768] read
  buffer b1: f32[s0*768] write
  buffer b2: f32[768] shared readwrite
  parallel i0 in 0..s0 {
    v0: f32 = const 0x0p+0
    reduce (v1): (f32) over thread i1 in 0..768 width 1024 lanes 4 accumulators 2 init (v0) {
      v2: f32 = load b0[i0*768 + i1]
      store b2[i1] = v2
      yield v2
    } combine (v3), (v4) {
      v5: f32 = add v3, v4
      yield v5
    }
    barrier
    thread i2 in 0..768 width 512 lanes 2 {
      v6: f32 = load b2[-i2 + 767]
      v7: f32 = sub v6, v1
      store b1[i0*768 + i2] = v7
    }
  }
}
)";

TEST(Text, RoundTripsThreads) {
  absl::StatusOr<Kernel> kernel = ParseKernel(kThreads);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_TRUE(Verify(*kernel).ok()) << Verify(*kernel);
  EXPECT_EQ(ToText(*kernel), kThreads);
}

TEST(Text, RoundTripsEveryConstruct) {
  absl::StatusOr<Kernel> kernel = ParseKernel(kEverything);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_TRUE(Verify(*kernel).ok()) << Verify(*kernel);
  EXPECT_EQ(ToText(*kernel), kEverything);
  EXPECT_EQ(kernel->num_values, 24);
  EXPECT_EQ(kernel->num_axes, 5);
  EXPECT_EQ(kernel->syms->Range({VarKind::kSize, 1}), (SymRange{0, 4096}));
}

TEST(Text, CloneIsEqualAndIndependent) {
  absl::StatusOr<Kernel> kernel = ParseKernel(kEverything);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  Kernel copy = Clone(*kernel);
  EXPECT_NE(copy.syms, kernel->syms);
  kernel->body.clear();
  EXPECT_EQ(ToText(copy), kEverything);
  EXPECT_TRUE(Verify(copy).ok()) << Verify(copy);
}

TEST(Text, SpacesAndCommentsDoNotMatter) {
  absl::StatusOr<Kernel> kernel = ParseKernel(
      "kernel{buffer b0:f32[4]write # scratch\nparallel i0 in 0..4{v0:f32="
      "const 0.5 # half\nstore b0[ i0 ]=v0}}");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(ToText(*kernel),
            "kernel {\n  buffer b0: f32[4] write\n  parallel i0 in 0..4 {\n    v0: f32 = const 0x1p-1\n"
            "    store b0[i0] = v0\n  }\n}\n");
}

TEST(Text, NamesLineAndColumn) {
  struct Case {
    std::string text, message;
  };
  const std::string head = "kernel {\n  sizes s0 in [0, inf)\n  buffer b0: f32[s0] read\n  parallel i0 in 0..s0 {\n";
  for (const Case& c : std::vector<Case>{
           {"", "line 1, column 1: expected \"kernel\""},
           {"kernel {", "line 1, column 9: the text ends inside a block"},
           {"kernel {\n sizes s1 in [0, 1]\n}", "line 2, column 8: sizes are numbered from 0 in order"},
           {"kernel {\n sizes s0 in [2, 1]\n}", "line 2, column 19: an empty range"},
           {"kernel {\n buffer b0: f33[1] read\n}", "line 2, column 13: no type is called \"f33\""},
           {"kernel {\n buffer b0: f32[s9] read\n}", "variable is not declared"},
           {head + "v0: f32 = frob v1\n}}", "line 5, column 11: no operation is called \"frob\""},
           {head + "v0: f32 = const 1.5x\n}}", "line 5, column 17: not a constant of type f32"},
           {head + "v0: u8 = const 256\n}}", "line 5, column 16: not a constant of type u8"},
           {head + "v0: f32 = const 0x1.0000001p+0\n}}", "not a constant of type f32"},
           {head + "v0: f32 = load b7[i0]\n}}", "line 5, column 16: a buffer that is not declared"},
           {head + "v0: f32 = load b0[i3]\n}}", "variable is not declared"},
           {head + "serial i1 in 0..4 {\n}\nv0: f32 = load b0[i1]\n}}", "line 7, column 19: axis i1 is not open here"},
           {head + "serial i0 in 0..4 {\n}\n}}", "line 5, column 8: axis i0 is declared twice"},
           {head + "v0: f32 = const 1\nv0: f32 = const 1\n}}", "line 6, column 1: v0 is defined twice"},
           {head + "v0: f32 = const 1\n}} x", "line 6, column 4: text behind the kernel"},
           {head + "v99999999: f32 = const 1\n}}", "line 5, column 1: a number of 1048576 or more"},
           {head + "reduce (v0): (f32) over parallel i1 in 0..4 init (v1) {\n}}", "expected \"serial\""},
           {head + "vector i1 in 0..4 {\n}}}", "line 5, column 19: expected \"width\""},
           {head + "v0: i64 = const 1\nv1: i64 = check_index v0 in i0\n}}", "names sizes only"},
       }) {
    absl::StatusOr<Kernel> kernel = ParseKernel(c.text);
    ASSERT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_NE(std::string(kernel.status().message()).find(c.message), std::string::npos) << kernel.status();
  }
}

TEST(Text, DeepNestsAreRefused) {
  std::string text = "kernel {\n";
  for (int i = 0; i < 100000; ++i) text += "serial i" + std::to_string(i % 60000) + " in 0..1 {\n";
  EXPECT_EQ(ParseKernel(text).status().code(), absl::StatusCode::kInvalidArgument);
  std::string parentheses = "kernel {\nbuffer b0: f32[" + std::string(100000, '(');
  EXPECT_EQ(ParseKernel(parentheses).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Text, LargeExpressionsAreRefused) {
  std::string text = "kernel {\n  sizes s0 in [0, inf)";
  for (int i = 1; i < 200; ++i) text += ", s" + std::to_string(i) + " in [0, inf)";
  text += "\n";
  std::string product;
  for (int i = 0; i < 200; ++i) product += (i ? "*(s" : "(s") + std::to_string(i) + " + 1)";
  for (int i = 0; i < 1000; ++i) {
    text += "  buffer b" + std::to_string(i) + ": f32[" + product + " + " + std::to_string(i) + "] read\n";
  }
  const std::string message(ParseKernel(text).status().message());
  EXPECT_NE(message.find("index expressions too large"), std::string::npos) << message;
}

TEST(Normalize, RenumbersInOrderOfUseAndGivesTheSizes) {
  absl::StatusOr<Kernel> kernel = ParseKernel(R"(kernel {
  sizes s0 in [0, 1], s1 in [1, 9], s2 in [2, inf)
  buffer b0: f32[s2*4] write
  parallel i7 in 0..s2 {
    v9: f32 = const 0x1p+0
    serial i3 in 0..s1 {
      v4: f32 = add v9, v9
      store b0[i7*4] = v4
    }
  }
}
)");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(Normalize(*kernel), (std::vector<uint32_t>{2, 1}));
  EXPECT_EQ(ToText(*kernel), R"(kernel {
  sizes s0 in [2, inf), s1 in [1, 9]
  buffer b0: f32[s0*4] write
  parallel i0 in 0..s0 {
    v0: f32 = const 0x1p+0
    serial i1 in 0..s1 {
      v1: f32 = add v0, v0
      store b0[i0*4] = v1
    }
  }
}
)");
  EXPECT_TRUE(Verify(*kernel).ok()) << Verify(*kernel);
}

TEST(Normalize, KeepsReductionsAndCheckedIndices) {
  absl::StatusOr<Kernel> kernel = ParseKernel(kEverything);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  Normalize(*kernel);
  ASSERT_TRUE(Verify(*kernel).ok()) << Verify(*kernel) << ToText(*kernel);
  const std::string once = ToText(*kernel);
  Normalize(*kernel);
  EXPECT_EQ(ToText(*kernel), once);
  absl::StatusOr<Kernel> again = ParseKernel(once);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ToText(*again), once);
}

TEST(ConstText, RoundTrips) {
  struct Case {
    DType type;
    uint64_t bits;
    std::string text;
  };
  for (const Case& c : std::vector<Case>{
           {DType::kFloat32, 0x3fc00000, "0x1.8p+0"},
           {DType::kFloat32, 0x80000000, "-0x0p+0"},
           {DType::kFloat32, 0x00000001, "0x1p-149"},
           {DType::kFloat32, 0x7f7fffff, "0x1.fffffep+127"},
           {DType::kFloat32, 0xff800000, "-inf"},
           {DType::kFloat32, 0xffc00000, "nan(0xffc00000)"},
           {DType::kFloat64, 1, "0x1p-1074"},
           {DType::kFloat64, 0x3fb999999999999a, "0x1.999999999999ap-4"},
           {DType::kFloat16, 0x0001, "0x1p-24"},
           {DType::kFloat8E4M3FNUZ, 0x80, "nan(0x80)"},
           {DType::kBool, 1, "true"},
           {DType::kInt8, static_cast<uint64_t>(-128), "-128"},
           {DType::kUInt64, ~uint64_t{0}, "18446744073709551615"},
       }) {
    EXPECT_EQ(ConstText(c.type, c.bits), c.text);
    EXPECT_EQ(ConstFromText(c.type, c.text), c.bits) << c.text;
  }
}

TEST(ConstText, RefusesOtherThings) {
  for (std::string_view text : {"", "-", "0x", "1e", "--1", "0x1p+999", "1e999", "nan", "nan(0x0)", "nan(0x7fc00000",
                                "0x-1p0", "inff", "1 ", "0x1.00000001p+0"}) {
    EXPECT_EQ(ConstFromText(DType::kFloat32, text), std::nullopt) << text;
  }
  EXPECT_EQ(ConstFromText(DType::kInt8, "128"), std::nullopt);
  EXPECT_EQ(ConstFromText(DType::kUInt8, "-1"), std::nullopt);
  EXPECT_EQ(ConstFromText(DType::kBool, "1"), std::nullopt);
  EXPECT_EQ(ConstFromText(DType::kFloat8E4M3FNUZ, "-0x0p+0"), std::nullopt);
}

TEST(ToText, SaysWhichStatementEachLineBelongsTo) {
  const absl::StatusOr<Kernel> kernel = ParseKernel(R"(kernel {
  sizes s0 in [0, 8]
  buffer b0: f32[s0] read
  buffer b1: f32[1] write
  parallel i0 in 0..1 {
    v0: f32 = const 0x0p+0
    reduce (v1): (f32) over serial i1 in 0..s0 init (v0) {
      v4: f32 = load b0[i1]
      yield v4
    } combine (v2), (v3) {
      v5: f32 = add v2, v3
      yield v5
    }
    store b1[0] = v1
  }
})");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<const Stmt*> lines;
  EXPECT_EQ(ToText(*kernel, lines), ToText(*kernel));
  const Stmt* loop = &kernel->body[0];
  const Block& body = std::get<For>(loop->node).body;
  const Reduce& reduce = std::get<Reduce>(body[1].node);
  EXPECT_EQ(lines, (std::vector<const Stmt*>{nullptr, nullptr, nullptr, nullptr, loop, &body[0], &body[1],
                                             &reduce.body[0], &body[1], &body[1], &reduce.combine[0], &body[1],
                                             &body[1], &body[2], loop, nullptr}));
}

TEST(Names, OperationsRoundTrip) {
  int count = 0;
#define KILN_LOOP_OP(id, name, arity, rule) \
  EXPECT_EQ(Name(Op::id), name);            \
  EXPECT_EQ(OpFromName(name), Op::id);      \
  EXPECT_EQ(Arity(Op::id), arity);          \
  ++count;
#include "compiler/loop/nodes.def"
#undef KILN_LOOP_OP
  EXPECT_GT(count, 40);
  EXPECT_EQ(OpFromName("nothing"), std::nullopt);
}

}  // namespace
}  // namespace kiln::loop
