#include "compiler/loop/verify.h"

#include <string>
#include <vector>

#include "compiler/loop/text.h"
#include "gtest/gtest.h"

namespace kiln::loop {
namespace {

// The kernel's statements inside one parallel axis i0, behind a few values: v0, v1 f32, v2 i64, v3 bool.
std::string Inside(const std::string& statements) {
  return "kernel {\n  sizes s0 in [0, inf)\n  buffer b0: f32[s0] read\n  buffer b1: f32[s0] write\n"
         "  buffer b2: i64[s0] readwrite\n  parallel i0 in 0..s0 {\nv0: f32 = const 1\nv1: f32 = const 2\n"
         "v2: i64 = const 3\nv3: bool = const true\n" +
         statements + "\n}}";
}

absl::Status VerifyText(const std::string& text) {
  absl::StatusOr<Kernel> kernel = ParseKernel(text);
  return kernel.ok() ? Verify(*kernel) : absl::InternalError(std::string(kernel.status().message()));
}

constexpr char kSum[] =
    "reduce (v5): (f32) over serial i1 in 0..4 init (v0) {\nyield v1\n} combine (v6), (v7) {\n"
    "v8: f32 = add v6, v7\nyield v8\n}\n";

TEST(Verify, AcceptsGoodKernels) {
  for (const std::string& text : std::vector<std::string>{
           Inside(""),
           Inside(kSum + std::string("store b1[i0] = v5")),
           Inside("v4: i64 = check_index v2 in s0\nstore b1[v4] = v0 mask v3"),
           Inside("vector i1 in 0..s0 width 8 {\nserial i2 in 0..i0 + 1 {\nstore b1[i2] = v0\n}\n}"),
       }) {
    EXPECT_TRUE(VerifyText(text).ok()) << VerifyText(text) << "\n" << text;
  }
}

TEST(Verify, NamesWhatIsBroken) {
  struct Case {
    std::string text, message;
  };
  const std::string sum = kSum;
  for (const Case& c : std::vector<Case>{
           {"kernel {\n}", "the body is not one parallel axis"},
           {"kernel {\nserial i0 in 0..4 {\n}\n}", "the body is not one parallel axis"},
           {"kernel {\nparallel i0 in 0..4 {\n}\nparallel i1 in 0..4 {\n}\n}", "the body is not one parallel axis"},
           {"kernel {\nbuffer b0: c64[4] read\nparallel i0 in 0..4 {\n}\n}", "buffer b0 is complex"},
           {"kernel {\nsizes s0 in [0, 9]\nbuffer b0: f32[s0] shared read\nparallel i0 in 0..4 {\n}\n}",
            "buffer b0 is scratch"},
           {Inside("parallel i1 in 0..4 {\n}"), "axis i1: the outermost axis alone is parallel"},
           {Inside("thread i1 in 0..4 width 4 lanes 2 {\nbarrier\n}"),
            "barrier: inside an axis that threads go apart in"},
           {Inside("thread i1 in 0..4 width 4 lanes 8 {\n}"), "axis i1: 8 lanes"},
           {Inside("thread i1 in 0..4 width 4 lanes 3 {\n}"), "axis i1: 3 lanes"},
           {Inside("thread i1 in 0..4 width 2048 lanes 1 {\n}"), "axis i1: 2048 threads"},
           {Inside("thread i1 in 0..4 width 8 lanes 1 {\n}\nthread i2 in 0..4 width 8 lanes 2 {\n}"),
            "axis i2: threads differ within the kernel"},
           {Inside("thread i1 in 0..4 width 8 lanes 1 {\n}\nvector i2 in 0..4 width 8 {\n}"),
            "axis i2: threads differ within the kernel"},
           {Inside("thread i1 in 0..4 width 4 lanes 1 {\nthread i2 in 0..4 width 4 lanes 1 {\n}\n}"),
            "axis i2: axes inside a vector axis are serial"},
           {Inside("vector i1 in 0..4 width 4 {\nvector i2 in 0..4 width 4 {\n}\n}"),
            "axis i2: axes inside a vector axis are serial"},
           {Inside("vector i1 in 0..4 width 4 {\nserial i3 in 0..2 {\nvector i2 in 0..4 width 4 {\n}\n}\n}"),
            "axis i2: axes inside a vector axis are serial"},
           {Inside("vector i1 in 0..4 width 3 {\n}"), "axis i1: width 3"},
           {Inside("vector i1 in 0..4 width 0 {\n}"), "axis i1: width 0"},
           {Inside("v4: f32 = add v0, v9"), "v4: operation add: operand v9 is not defined"},
           {Inside("v4: f32 = add v4, v0"), "v4: operation add: operand v4 is not defined"},
           {Inside("v4: f32 = add v5, v0\nv5: f32 = const 1"), "v4: operation add: operand v5 is not defined"},
           {Inside("serial i1 in 0..4 {\nv4: f32 = const 1\n}\nstore b1[i0] = v4"),
            "store to b1: stored value v4 is not defined"},
           {Inside(sum + "store b1[i0] = v8"), "store to b1: stored value v8 is not defined"},
           {Inside(sum + "store b1[i0] = v6"), "store to b1: stored value v6 is not defined"},
           {Inside("v4: f32 = add v0, v2"), "v4: operation add does not take (f32, i64)"},
           {Inside("v4: i64 = add v0, v1"), "v4: operation add: the result is a f32"},
           {Inside("v4: bool = add v3, v3"), "v4: operation add does not take (bool, bool)"},
           {Inside("v4: f32 = lt v0, v1"), "v4: operation lt: the result is a bool"},
           {Inside("v4: i64 = floor v2"), "v4: operation floor does not take (i64)"},
           {Inside("v4: f32 = and v0, v1"), "v4: operation and does not take (f32, f32)"},
           {Inside("v4: f32 = select v0, v0, v1"), "v4: operation select does not take (f32, f32, f32)"},
           {Inside("v4: f64 = bitcast v0"), "v4: operation bitcast: both types have one size"},
           {Inside("v4: i32 = index i0"), "v4: operation index: the result is an i64"},
           {Inside("v4: f32 = neg v0, v1"), "v4: operation neg: wrong number of operands"},
           {Inside("v4: i64 = load b0[i0]"), "v4: operation load: the result has the buffer's type"},
           {Inside("v4: f32 = load b1[i0]"), "v4: buffer b1 may not be read"},
           {Inside("v4: f32 = load b0[i0] mask v2 else v0"), "v4: mask v2 is not a bool"},
           {Inside("v4: f32 = load b0[i0] mask v3 else v2"), "v4: operation load: other is defined and has"},
           {Inside("store b0[i0] = v0"), "store to b0: buffer b0 may not be written"},
           {Inside("store b1[i0] = v2"), "store to b1: stored value v2 is a i64, buffer b1 has f32"},
           {Inside("store b1[i0] = v0 mask v0"), "store to b1: mask v0 is not a bool"},
           {Inside("v4: i32 = const 1\nv5: i64 = check_index v4 in s0"),
            "v5: operation check_index does not take (i32)"},
           {Inside("serial i1 in 0..4 {\nv4: i64 = check_index v2 in s0\n}\nstore b1[v4] = v0"),
            "store to b1: expression v4 names what it may not name here"},
           {Inside(
                "reduce (v5): (f32) over serial i1 in 0..4 init (v2) {\nyield v1\n} combine (v6), (v7) {\nyield v6\n}"),
            "axis i1: init v2 is not visible as a f32"},
           {Inside(
                "reduce (v5): (f32) over serial i1 in 0..4 init (v0) {\nyield v2\n} combine (v6), (v7) {\nyield v6\n}"),
            "axis i1: yield v2 is not visible as a f32"},
           {Inside("reduce (v5): (f32) over serial i1 in 0..4 init (v0, v1) {\nyield v0\n} combine (v6), (v7) {\nyield "
                   "v6\n}"),
            "axis i1: init has another length than the types"},
           {Inside("reduce (v5): (f32) over serial i1 in 0..4 init (v0) {\nv9: f32 = const 3\nyield v9\n} "
                   "combine (v6), (v7) {\nyield v9\n}"),
            "axis i1: combine's yield v9 is not visible as a f32"},
           {Inside("reduce (v5): (f32) over serial i1 in 0..4 init (v0) {\nyield v0\n} "
                   "combine (v6), (v7) {\nv9: f32 = load b0[i0]\nyield v9\n}"),
            "v9: a combine block computes from its operands alone"},
           {Inside("reduce (v5): (f32) over serial i1 in 0..4 init (v0) {\nyield v0\n} "
                   "combine (v6), (v7) {\nstore b1[i0] = v0\nyield v6\n}"),
            "store to b1: a combine block holds Lets only"},
           {Inside("reduce (v5): (f32) over vector i1 in 0..4 width 4 accumulators 0 init (v0) {\nyield v0\n} "
                   "combine (v6), (v7) {\nyield v6\n}"),
            "axis i1: 0 accumulators"},
       }) {
    absl::Status status = VerifyText(c.text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << "\n" << c.text;
    EXPECT_NE(std::string(status.message()).find(c.message), std::string::npos) << status << "\n" << c.text;
  }
}

// What the parser refuses by itself.
TEST(Verify, DoesNotTrustItsCaller) {
  absl::StatusOr<Kernel> good = ParseKernel(Inside("v4: f32 = add v0, v1\nstore b1[i0] = v4"));
  ASSERT_TRUE(good.ok()) << good.status();
  auto let = [](Kernel& kernel, size_t i) -> Let& {
    return std::get<Let>(std::get<For>(kernel.body[0].node).body[i].node);
  };
  auto expect = [&](const char* message, auto change) {
    Kernel kernel = Clone(*good);
    ASSERT_TRUE(Verify(kernel).ok());
    change(kernel);
    EXPECT_NE(std::string(Verify(kernel).message()).find(message), std::string::npos) << Verify(kernel);
  };
  expect("v0 is defined twice", [&](Kernel& k) { let(k, 1).result = 0; });
  expect("v77 is not a number of this kernel", [&](Kernel& k) { let(k, 1).result = 77; });
  expect("the constant's bits fit its type", [&](Kernel& k) { let(k, 3).imm = 2; });
  expect("only a constant has bits", [&](Kernel& k) { let(k, 4).imm = 2; });
  expect("only a load has a buffer", [&](Kernel& k) { let(k, 4).mask = 3; });
  expect("has an index expression but reads none", [&](Kernel& k) { let(k, 4).index = k.syms->Const(1); });
  expect("buffer b9 is not declared",
         [&](Kernel& k) { std::get<Store>(std::get<For>(k.body[0].node).body[5].node).buffer = 9; });
  expect("names more than sizes", [&](Kernel& k) { k.num_sizes = 0; });
  expect("grain: s9 names more", [&](Kernel& k) { std::get<For>(k.body[0].node).axis.grain = k.syms->Size(9); });
  expect("more than 1048576 values", [&](Kernel& k) { k.num_values = 1 << 21; });
  expect("the extent differs", [&](Kernel& k) { std::get<For>(k.body[0].node).axis.extent = k.syms->Const(5); });
}

}  // namespace
}  // namespace kiln::loop
