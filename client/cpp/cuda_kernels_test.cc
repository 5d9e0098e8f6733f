#include "client/cpp/cuda_kernels.h"

#include <string>
#include <utility>
#include <vector>

#include "client/cpp/fake_torch.h"
#include "client/cpp/runtime.h"
#include "client/cpp/testing.h"

namespace kiln {
namespace {

// --- a driver of plain memory: its one kernel doubles, a thread an element ---

struct Launched {
  std::string function;
  unsigned blocks, threads;
  CudaStream stream;
};

CudaContext const kContext = reinterpret_cast<CudaContext>(0x100);
CudaContext g_current;
int g_modules;
std::vector<Launched> g_launched;
CudaResult g_launch_result;
std::string g_refused;  // a module with these bytes is not loaded

// A function is the name that it was looked up by, a module the text that it was made of.
CudaResult LoadModule(CudaModule* out, const void* image, unsigned, int*, void** values) {
  if (g_current != kContext) return 201;
  const std::string text = static_cast<const char*>(image);
  if (text == g_refused) return std::snprintf(static_cast<char*>(values[0]), 64, "ptxas says no"), 218;
  ++g_modules;
  *out = reinterpret_cast<CudaModule>(new std::string(text));
  return 0;
}

CudaResult GetFunction(CudaFunction* out, CudaModule module, const char* name) {
  if (reinterpret_cast<std::string*>(module)->find(name) == std::string::npos) return 500;
  static auto* const names = new std::vector<std::unique_ptr<std::string>>;
  *out = reinterpret_cast<CudaFunction>(names->emplace_back(std::make_unique<std::string>(name)).get());
  return 0;
}

CudaResult LaunchTwice(CudaFunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                       unsigned, CudaStream stream, void** parameters, void**) {
  if (g_current != kContext) return 201;
  if (g_launch_result != 0) return g_launch_result;
  g_launched.push_back({*reinterpret_cast<std::string*>(function), blocks, threads, stream});
  const auto* x = *static_cast<const float**>(parameters[0]);
  auto* y = *static_cast<float**>(parameters[1]);
  const int64_t n = *static_cast<const int64_t*>(parameters[2]);
  for (int64_t i = 0; i < int64_t{blocks} * threads && i < n; ++i) y[i] = 2 * x[i];
  return 0;
}

const CudaDriver kDriver = {
    .init = [](unsigned) { return 0; },
    .error_name = [](CudaResult, const char** out) { return *out = "CUDA_ERROR_FAKE", 0; },
    .error_string = [](CudaResult, const char** out) { return *out = "a fake failure", 0; },
    .device_get = [](CudaDevice* out, int index) { return *out = index, 0; },
    .device_attribute = [](int* out, int, CudaDevice) { return *out = 9, 0; },
    .retain_context = [](CudaContext* out, CudaDevice) { return *out = kContext, 0; },
    .release_context = [](CudaDevice) { return 0; },
    .current_context = [](CudaContext* out) { return *out = g_current, 0; },
    .push_context = [](CudaContext context) { return g_current = context, 0; },
    .pop_context = [](CudaContext* out) { return *out = std::exchange(g_current, nullptr), 0; },
    .load_module = LoadModule,
    .unload_module =
        [](CudaModule module) {
          --g_modules;
          delete reinterpret_cast<std::string*>(module);
          return 0;
        },
    .get_function = GetFunction,
    .launch = LaunchTwice,
};

// --- a function that doubles its one argument ---

constexpr char kTwice[] = R"(
  name: "inference"
  syms {
    symbols { min: 0 max: 1000000 }
    exprs { op: SYMBOL } exprs { op: CONST value: 1 } exprs { op: CONST value: 0 }
  }
  inputs { type: 0 }
  values { storage: INPUT dtype: FLOAT32 device: CUDA sizes: 0 strides: 1 }
  values { storage: TENSOR dtype: FLOAT32 device: CUDA sizes: 0 strides: 1 }
  steps { allocate: 1 }
  steps { launch { kernel: 0 buffers: 0 buffers: 1 sizes: 0 extent: 0 grain: 1 origin: 7 } }
  outputs { value: 1 }
  workspace: 2
)";

class CudaKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    g_current = nullptr;
    g_launched.clear();
    g_launch_result = 0;
    g_refused = "";
    artifact_ = ArtifactOf(kTwice, 1);
    artifact_.mutable_target()->set_name("sm_90");
    artifact_.mutable_kernels(0)->set_threads(32);
    code_.add_modules("k0 k0_aligned");
  }
  void TearDown() override {
    function_ = nullptr;
    kernels_ = nullptr;
    EXPECT_EQ(g_modules, 0);
    EXPECT_EQ(FakeTensorCount(), 0);
  }

  absl::Status Load(int device = 1) {
    absl::StatusOr<std::unique_ptr<CudaKernels>> kernels =
        CudaKernels::Load(code_.SerializeAsString(), artifact_.kernels(), &kDriver, &FakeTorch(), device);
    if (!kernels.ok()) return kernels.status();
    kernels_ = *std::move(kernels);
    absl::StatusOr<Program> program = Program::Build(artifact_, 0);
    if (!program.ok()) return program.status();
    absl::StatusOr<std::unique_ptr<Function>> function =
        Function::Create(*std::move(program), kernels_.get(), {}, &FakeTorch(), nullptr, nullptr, device);
    if (!function.ok()) return function.status();
    function_ = *std::move(function);
    return absl::OkStatus();
  }

  // The values of the function's result.
  absl::StatusOr<std::vector<float>> Call(const OwnedTensor& x) {
    std::unique_ptr<Frame> frame = function_->AcquireFrame();
    frame->tensors[0] = x.get();
    absl::Status status = function_->Bind(*frame);
    if (status.ok()) status = function_->Run(*frame, nullptr);
    if (!status.ok()) {
      function_->ReleaseFrame(std::move(frame));
      return status;
    }
    const OwnedTensor y(&FakeTorch(), frame->Take(1));
    function_->ReleaseFrame(std::move(frame));
    return FakeValues(y.get());
  }

  v1::Artifact artifact_;
  v1::CudaCode code_;
  std::unique_ptr<CudaKernels> kernels_;
  std::unique_ptr<Function> function_;
};

TEST_F(CudaKernelsTest, LaunchesOnTorchsStreamOfTheDevice) {
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(g_current, nullptr) << "a context was left behind";
  const OwnedTensor x = FakeOnGpu(1, {3}, {1, 2, 3});
  EXPECT_EQ(*Call(x), (std::vector<float>{2, 4, 6}));
  ASSERT_EQ(g_launched.size(), 1u);
  EXPECT_EQ(g_launched[0].function, "k0_aligned");
  EXPECT_EQ(g_launched[0].blocks, 3u);
  EXPECT_EQ(g_launched[0].threads, 32u);
  EXPECT_EQ(g_launched[0].stream, FakeStream(1));
  EXPECT_EQ(g_current, nullptr);
}

TEST_F(CudaKernelsTest, AnUnalignedBufferTakesTheGeneralEntry) {
  ASSERT_TRUE(Load().ok());
  const OwnedTensor whole = FakeOnGpu(1, {4}, {0, 1, 2, 3});
  const int64_t size = 3, one = 1;
  OwnedTensor part(&FakeTorch());
  ASSERT_EQ(FakeTorch().reinterpret_tensor(whole.get(), 1, &size, &one, 1, part.out()), 0);
  EXPECT_EQ(*Call(part), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(g_launched.at(0).function, "k0");
}

TEST_F(CudaKernelsTest, NothingIsLaunchedForAnEmptyTensor) {
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(*Call(FakeOnGpu(1, {0}, {})), std::vector<float>());
  EXPECT_TRUE(g_launched.empty());
}

TEST_F(CudaKernelsTest, ArgumentsOfAnotherDeviceAreRefused) {
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(Call(FakeTensor({1}, {1})).status(),
            absl::InvalidArgumentError("argument 0 has torch device type 0, the plan wants CUDA"));
  EXPECT_EQ(Call(FakeOnGpu(0, {1}, {1})).status(),
            absl::InvalidArgumentError("argument 0 is on cuda:0, the code was loaded for cuda:1"));
}

TEST_F(CudaKernelsTest, AFailedLaunchNamesKernelNodeAndShape) {
  ASSERT_TRUE(Load().ok());
  g_launch_result = 701;
  EXPECT_EQ(
      Call(FakeOnGpu(1, {3}, {1, 2, 3})).status(),
      absl::InternalError("kernel k0 (node 7), 3 blocks of 32 threads on cuda:1: CUDA_ERROR_FAKE: a fake failure"));
}

TEST_F(CudaKernelsTest, CodeThatCannotBeLoadedIsRefused) {
  g_refused = "k0 k0_aligned";
  EXPECT_EQ(Load(), absl::InternalError("loading kernel k0: ptxas says no: CUDA_ERROR_FAKE: a fake failure"));
  g_refused = "";
  code_.set_modules(0, "k0");
  EXPECT_EQ(Load(), absl::InternalError("loading kernel k0: CUDA_ERROR_FAKE: a fake failure"));
  code_.set_modules(0, std::string("k0 \0 k0_aligned", 15));
  EXPECT_EQ(Load(), absl::InvalidArgumentError("kernel k0: neither a cubin nor PTX"));
  code_.clear_modules();
  EXPECT_EQ(Load(), absl::InvalidArgumentError("the code is not that of 1 CUDA kernels"));
}

TEST_F(CudaKernelsTest, BuffersOnTheHostAreRefused) {
  artifact_.mutable_functions(0)->mutable_values(1)->set_device(v1::CPU);
  EXPECT_EQ(Load(),
            absl::InvalidArgumentError("function inference: step 1: value 1 is on another device than the kernel"));
}

}  // namespace
}  // namespace kiln
