#include "compiler/compile/compile.h"

#include <dlfcn.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/artifact/abi.h"
#include "compiler/loop/interp.h"
#include "compiler/loop/text.h"

namespace kiln {
namespace {

// relu(x * 2 + 1) over f32[s0] (s0 = 8 where it is static).
v1::CompileRequest ReluAffine(bool dynamic) {
  v1::CompileRequest request;
  const std::string symbols = dynamic ? "symbols { min: 2 max: 9223372036854775807 }" : "";
  const std::string size = dynamic ? "exprs { op: SYMBOL value: 0 }" : "exprs { op: CONST value: 8 }";
  const std::string sym_input = dynamic ? "inputs { sym: 0 }" : "";
  const int x = dynamic ? 1 : 0;
  const auto v = [&](int n) { return std::to_string(x + n); };
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(protocol_version: 1
           graph { level: INFERENCE syms {)pb" +
          symbols + size + R"pb(                                                                                                                                 exprs { op: CONST value: 1 } exprs { op: CONST value: 2 } }
                                                                                                                                                                 types { dtype: FLOAT32 device: CPU sizes: 0 strides: 1 }
             ops { name: "aten.mul.Tensor" schema: "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor" }
             ops { name: "aten.add.Tensor" schema: "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" }
             ops { name: "aten.relu.default" schema: "aten::relu(Tensor self) -> Tensor" })pb" +
          sym_input + R"pb(inputs { type: 0 }
                           nodes { op: 0
                                   args { value:)pb" +
          v(0) + R"pb(}
                      args { i: 2 } result_types: 0 }
             nodes { op: 1 args { value: )pb" +
          v(1) + R"pb(}
                      args { i: 1 } args { i: 1 } result_types: 0 }
             nodes { op: 2 args { value: )pb" +
          v(2) + R"pb(}
                      result_types: 0 }
             outputs { value: )pb" +
          v(3) + R"pb(}
                      }
           target { name: "x86-64-v3" })pb",
      &request));
  return request;
}

class SharedObject {
 public:
  explicit SharedObject(const std::string& bytes) {
    const int fd = memfd_create("kiln", MFD_CLOEXEC);
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    library_ = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr) << dlerror();
    close(fd);
  }
  ~SharedObject() {
    if (library_ != nullptr) dlclose(library_);
  }
  KernelFn* Kernel(const std::string& symbol) const {
    return reinterpret_cast<KernelFn*>(dlsym(library_, symbol.c_str()));
  }

 private:
  void* library_ = nullptr;
};

TEST(Compile, ReluAffineIsOneKernelAndRightForEverySize) {
  absl::StatusOr<Compiled> compiled = Compile(ReluAffine(/*dynamic=*/true));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->artifact.kernels_size(), 1);
  const SharedObject library(compiled->shared_object);
  KernelFn* kernel = library.Kernel(compiled->artifact.kernels(0).symbol());
  ASSERT_NE(kernel, nullptr);
  for (const int64_t n : {1, 2, 7, 8, 16, 17, 1000, 5000, 10000}) {
    std::vector<float> in(n), out(n, -1);
    for (int64_t i = 0; i < n; ++i) in[i] = static_cast<float>(i - n / 2) / 3;
    void* buffers[] = {in.data(), out.data()};
    int64_t error = 0;
    // Two threads' worth of ranges; blocks of 4096 iterations.
    const int64_t extent = (n + 4095) / 4096;
    kernel(buffers, &n, 0, extent / 2, &error);
    kernel(buffers, &n, extent / 2, extent, &error);
    EXPECT_EQ(error, 0);
    for (int64_t i = 0; i < n; ++i) {
      const float want = in[i] * 2.0f + 1.0f;
      EXPECT_EQ(out[i], want > 0 ? want : 0) << n << " " << i;
    }
  }
}

TEST(Compile, ReluAffineReadsAndWritesEachElementOnce) {
  absl::StatusOr<Compiled> compiled = Compile(ReluAffine(/*dynamic=*/false));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ASSERT_EQ(compiled->kernels.size(), 1u);
  absl::StatusOr<loop::Kernel> kernel = loop::ParseKernel(compiled->kernels[0].text());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> in = {-1, -0.25, 0.5, NAN, 0, 1, 2, 3}, out(8);
  const loop::BufferArg args[] = {{in.data(), 8}, {out.data(), 8}};
  absl::StatusOr<loop::RunStats> stats = loop::Interpret(*kernel, args, {});
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->reads, (std::vector<uint64_t>{8, 0}));
  EXPECT_EQ(stats->writes, (std::vector<uint64_t>{0, 8}));
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], 0.5);
  EXPECT_EQ(out[2], 2);
  EXPECT_TRUE(std::isnan(out[3]));
}

TEST(Compile, SameRequestSameBytes) {
  absl::StatusOr<Compiled> a = Compile(ReluAffine(true)), b = Compile(ReluAffine(true));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->artifact.SerializeAsString(), b->artifact.SerializeAsString());
  EXPECT_EQ(a->shared_object, b->shared_object);
}

// With KILN_TIME both jobs say how long their stages took; the code is the same.
TEST(Compile, Times) {
  v1::PlanJob plan;
  *plan.mutable_request() = ReluAffine(/*dynamic=*/false);
  const auto stages = [](const auto& times) {
    std::set<std::string> names;
    for (const v1::StageTime& time : times) names.insert(time.stage());
    return names;
  };
  const auto run = [&] {
    absl::StatusOr<v1::PlanResult> planned = Plan(plan);
    EXPECT_TRUE(planned.ok()) << planned.status();
    v1::CodegenJob job;
    *job.mutable_kernel() = planned->kernels(0);
    job.set_target("x86-64-v3");
    absl::StatusOr<v1::CodegenResult> code = Codegen(job);
    EXPECT_TRUE(code.ok()) << code.status();
    return std::pair(*std::move(planned), *std::move(code));
  };
  const auto [planned, code] = run();
  EXPECT_TRUE(planned.times().empty());
  EXPECT_TRUE(code.times().empty());
  setenv("KILN_TIME", "1", 1);
  const auto [timed_plan, timed_code] = run();
  unsetenv("KILN_TIME");
  EXPECT_EQ(stages(timed_code.times()), (std::set<std::string>{"parse", "emit", "optimize", "assemble"}));
  for (const char* stage : {"import", "decompose", "fuse", "lower"}) {
    EXPECT_TRUE(stages(timed_plan.times()).contains(stage)) << stage;
  }
  EXPECT_EQ(timed_code.object(), code.object());
}

TEST(Compile, RefusesAnUnknownTarget) {
  v1::CompileRequest request = ReluAffine(false);
  request.mutable_target()->set_name("pdp-11");
  const absl::Status status = Compile(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "target.name: unknown target \"pdp-11\"");
}

// The same graph on a GPU.
v1::CompileRequest OnGpu(v1::CompileRequest request, const std::string& target) {
  for (v1::TensorType& type : *request.mutable_graph()->mutable_types()) type.set_device(v1::CUDA);
  request.mutable_target()->set_name(target);
  return request;
}

TEST(Compile, AGraphOnAGpuIsPtx) {
  absl::StatusOr<Compiled> compiled = Compile(OnGpu(ReluAffine(/*dynamic=*/true), "sm_90"));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const v1::Artifact& artifact = compiled->artifact;
  ASSERT_EQ(artifact.kernels_size(), 1);
  EXPECT_EQ(artifact.kernels(0).threads(), compiled->kernels[0].threads());
  EXPECT_GE(artifact.kernels(0).threads(), 32u);
  for (const v1::PlanValue& value : artifact.functions(0).values()) {
    if (value.storage() != v1::PlanValue::STORAGE_UNSPECIFIED) EXPECT_EQ(value.device(), v1::CUDA);
  }
  v1::CudaCode code;
  ASSERT_TRUE(code.ParseFromString(compiled->shared_object));
  ASSERT_EQ(code.modules_size(), 1);
  const std::string& symbol = artifact.kernels(0).symbol();
  for (const std::string& text :
       {std::string(".target sm_90"), ".entry " + symbol + "(", ".entry " + symbol + "_aligned("}) {
    EXPECT_NE(code.modules(0).find(text), std::string::npos) << text << "\n" << code.modules(0);
  }
  absl::StatusOr<Compiled> again = Compile(OnGpu(ReluAffine(/*dynamic=*/true), "sm_90"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shared_object, compiled->shared_object);
}

TEST(Compile, NewerGpusGetTheNewestPtxThereIs) {
  absl::StatusOr<Compiled> compiled = Compile(OnGpu(ReluAffine(/*dynamic=*/false), "sm_120"));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_NE(compiled->shared_object.find(".target sm_90"), std::string::npos);
}

TEST(Compile, ATargetOfAnotherDeviceIsRefused) {
  EXPECT_EQ(Compile(OnGpu(ReluAffine(false), "x86-64-v3")).status(),
            absl::InvalidArgumentError("target.name: x86-64-v3 for a graph on cuda"));
  v1::CompileRequest host = ReluAffine(false);
  host.mutable_target()->set_name("sm_90");
  EXPECT_EQ(Compile(host).status(), absl::InvalidArgumentError("target.name: sm_90 for a graph on cpu"));
}

}  // namespace
}  // namespace kiln
