#include "compiler/loop/simplify.h"

#include <string>
#include <vector>

#include "compiler/loop/rules.h"
#include "compiler/loop/text.h"
#include "compiler/loop/verify.h"
#include "gtest/gtest.h"

namespace kiln::loop {
namespace {

// Simplifies the statements of a parallel axis i0, which may use x (v0: f32), y (v1: f32), n (v2: i32), c (v3: bool),
// all loaded; gives the statements that are left behind the loads.
std::string After(const std::string& statements) {
  const std::string head =
      "kernel {\n  buffer b0: f32[8] read\n  buffer b1: i32[8] read\n  buffer b2: bool[8] read\n"
      "  buffer b3: f32[8] write\n  buffer b4: i32[8] write\n  buffer b5: bool[8] write\n  parallel i0 in 0..4 {\n";
  const std::string loads =
      "v0: f32 = load b0[i0]\nv1: f32 = load b0[i0 + 1]\nv2: i32 = load b1[i0]\nv3: bool = load b2[i0]\n";
  absl::StatusOr<Kernel> kernel = ParseKernel(head + loads + statements + "}}");
  if (!kernel.ok()) return std::string(kernel.status().message());
  if (absl::Status s = Verify(*kernel); !s.ok()) return std::string(s.message());
  Simplify(*kernel);
  if (absl::Status s = Verify(*kernel); !s.ok()) return "after: " + std::string(s.message());
  std::string out;
  for (const Stmt& stmt : std::get<For>(kernel->body[0].node).body) {
    const Let* let = std::get_if<Let>(&stmt.node);
    if (let != nullptr && let->op == Op::kLoad && let->mask == kNone) continue;
    Kernel one = Clone(*kernel);
    one.body = {stmt};
    one.buffers.clear();
    std::string text = ToText(one);
    text = text.substr(sizeof("kernel {\n") + 1);
    out += text.substr(0, text.size() - 2);
  }
  return out;
}

TEST(Simplify, ExactIdentities) {
  for (const char* expression :
       {"v9: f32 = const 1\nv10: f32 = mul v0, v9", "v9: f32 = const 1\nv10: f32 = mul v9, v0",
        "v9: f32 = const 1\nv10: f32 = div v0, v9", "v9: f32 = const -0\nv10: f32 = add v0, v9",
        "v9: f32 = const 0\nv10: f32 = sub v0, v9", "v9: f32 = neg v0\nv10: f32 = neg v9",
        "v9: f64 = cast v0\nv10: f32 = cast v9", "v9: i32 = bitcast v0\nv10: f32 = bitcast v9",
        "v9: bool = const true\nv10: f32 = select v9, v0, v1", "v10: f32 = select v3, v0, v0",
        "v10: f32 = max v0, v0"}) {
    EXPECT_EQ(After(std::string(expression) + "\nstore b3[i0] = v10\n"), "store b3[i0] = v0\n") << expression;
  }
}

TEST(Simplify, KeepsWhatIsNotExact) {
  for (const char* expression :
       {"v9: f32 = const 0\nv10: f32 = add v0, v9", "v9: f32 = const 0\nv10: f32 = mul v0, v9",
        "v9: f32 = const -0\nv10: f32 = sub v0, v9", "v10: f32 = sub v0, v0", "v10: f32 = div v0, v0",
        "v9: bf16 = cast v0\nv10: f32 = cast v9", "v9: f32 = const 0x1p+1\nv10: f32 = exp v9"}) {
    EXPECT_NE(After(std::string(expression) + "\nstore b3[i0] = v10\n").find("v10: f32 ="), std::string::npos)
        << expression;
  }
}

TEST(Simplify, IntegerIdentities) {
  for (const char* expression : {"v9: i32 = const 0\nv10: i32 = add v2, v9", "v9: i32 = const 1\nv10: i32 = mul v9, v2",
                                 "v9: i32 = const -1\nv10: i32 = and v2, v9", "v9: i32 = const 0\nv10: i32 = or v9, v2",
                                 "v9: i32 = const 0\nv10: i32 = shl v2, v9", "v9: i32 = not v2\nv10: i32 = not v9",
                                 "v9: i64 = cast v2\nv10: i32 = cast v9", "v9: f64 = cast v2\nv10: i32 = cast v9"}) {
    EXPECT_EQ(After(std::string(expression) + "\nstore b4[i0] = v10\n"), "store b4[i0] = v2\n") << expression;
  }
  EXPECT_EQ(After("v9: i32 = const 0\nv10: i32 = mul v2, v9\nstore b4[i0] = v10\n"),
            "v9: i32 = const 0\nstore b4[i0] = v9\n");
}

TEST(Simplify, FoldsConstants) {
  EXPECT_EQ(After("v9: f32 = const 3\nv10: f32 = const 0x1p-1\nv11: f32 = mul v9, v10\nv12: f32 = sqrt v11\n"
                  "v13: f32 = add v12, v0\nstore b3[i0] = v13\n"),
            "v12: f32 = const 0x1.3988e2p+0\nv13: f32 = add v12, v0\nstore b3[i0] = v13\n");
  EXPECT_EQ(After("v9: f32 = const 0\nv10: f32 = div v9, v9\nstore b3[i0] = v10\n"),
            "v10: f32 = const nan(0x7fc00000)\nstore b3[i0] = v10\n");
}

TEST(Simplify, SharesAndDropsLets) {
  EXPECT_EQ(After("v9: f32 = add v0, v1\nv10: f32 = add v0, v1\nv11: f32 = mul v9, v10\nv12: f32 = exp v0\n"
                  "store b3[i0] = v11\n"),
            "v9: f32 = add v0, v1\nv11: f32 = mul v9, v9\nstore b3[i0] = v11\n");
}

TEST(Simplify, DropsEmptyLoopsAndDeadReductions) {
  const std::string sum =
      "v9: f32 = const 0\nreduce (v10): (f32) over serial i1 in 0..4 init (v9) {\nyield v0\n} combine (v11), (v12) {\n"
      "v13: f32 = add v11, v12\nyield v13\n}\n";
  EXPECT_EQ(After(sum), "");
  EXPECT_NE(After(sum + "store b3[i0] = v10\n").find("reduce (v10)"), std::string::npos);
  EXPECT_EQ(After("serial i1 in 0..4 {\nv9: f32 = neg v0\n}\n"), "");
}

TEST(Simplify, KeepsCheckedIndices) {
  EXPECT_EQ(After("v9: i64 = const 9\nv10: i64 = check_index v9 in 4\n"),
            "v9: i64 = const 9\nv10: i64 = check_index v9 in 4\n");
}

TEST(Simplify, ResolvesMasks) {
  EXPECT_EQ(After("v9: bool = const false\nstore b3[i0] = v0 mask v9\n"), "");
  EXPECT_EQ(After("v9: bool = const true\nstore b3[i0] = v0 mask v9\n"), "store b3[i0] = v0\n");
  EXPECT_EQ(After("v9: bool = const false\nv10: f32 = load b0[i0] mask v9 else v1\nstore b3[i0] = v10\n"),
            "store b3[i0] = v1\n");
}

TEST(IsLossless, WidensOnly) {
  EXPECT_TRUE(IsLossless(DType::kBFloat16, DType::kFloat32));
  EXPECT_TRUE(IsLossless(DType::kInt32, DType::kFloat64));
  EXPECT_TRUE(IsLossless(DType::kUInt8, DType::kInt16));
  EXPECT_TRUE(IsLossless(DType::kBool, DType::kUInt8));
  EXPECT_FALSE(IsLossless(DType::kInt32, DType::kFloat32));
  EXPECT_FALSE(IsLossless(DType::kInt8, DType::kUInt64));
  EXPECT_FALSE(IsLossless(DType::kFloat16, DType::kBFloat16));
  EXPECT_FALSE(IsLossless(DType::kUInt8, DType::kBool));
}

}  // namespace
}  // namespace kiln::loop
