// Any bytes at all, taken for an artifact: they are refused, or bound and run on the fake torch, which aborts if it is
// asked to leave a tensor's memory. Kernels do nothing.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/cpp/fake_torch.h"
#include "client/cpp/runtime.h"
#include "client/cpp/verify.h"
#include "compiler/artifact/abi.h"

namespace kiln {
namespace {

void NoKernel(void* const*, const int64_t*, int64_t, int64_t, int64_t*) {}

// Knows the fake torch's operators, as Python knows the real one's; makes no calls.
class Operators : public ForeignOps {
 public:
  class Refuses : public ForeignCall {
    absl::Status Run(const ExternalCall&, const CallContext&, std::vector<TensorHandle>*) override {
      return absl::UnimplementedError("not here");
    }
  };
  absl::StatusOr<std::unique_ptr<ForeignCall>> Resolve(const ExternalCall& call) override {
    if (!FakeHasOperator(call.op, call.schema_text)) return absl::NotFoundError("no such operator");
    return std::make_unique<Refuses>();
  }
};

// Sizes of a call: each symbol as near to 2 as its range allows. False if they do not evaluate.
bool GuessSlots(const Program& program, std::vector<int64_t>* symbols, std::vector<int64_t>* slots) {
  for (size_t s = 0; s < program.symbols.size(); ++s)
    symbols->push_back(std::max<int64_t>(program.sizes.LeastValue(s), 2));
  std::vector<int64_t> exprs = program.sizes.constants();
  if (!program.sizes.Evaluate(*symbols, exprs).ok()) return false;
  *slots = program.slots;
  for (const Program::DynamicSlot& d : program.dynamic_slots) (*slots)[d.slot] = exprs[d.expr];
  return true;
}

void CallOnce(Function& function) {
  const Program& program = function.program();
  std::vector<int64_t> symbols, slots;
  if (!GuessSlots(program, &symbols, &slots)) return;
  std::unique_ptr<Frame> frame = function.AcquireFrame();
  std::vector<OwnedTensor> arguments;
  bool ready = true;
  for (uint32_t i = 0; i < program.inputs.size() && ready; ++i) {
    if (program.inputs[i].is_symbol) {
      frame->symbols[program.inputs[i].symbol] = symbols[program.inputs[i].symbol];
      continue;
    }
    const Program::Value& v = program.values[i];
    const int64_t* sizes = slots.data() + v.shape;
    OwnedTensor t(&FakeTorch());
    ready = FakeTorch().empty_strided(v.rank, sizes, sizes + v.rank, v.dtype, 0, 0, t.out()) == 0;
    frame->tensors[i] = t.get();
    arguments.push_back(std::move(t));
  }
  if (ready && function.Bind(*frame).ok()) static_cast<void>(function.Run(*frame, nullptr));
  function.ReleaseFrame(std::move(frame));
}

void TryArtifact(v1::Artifact artifact) {
  // What every artifact of this host has, so that the rest is reached.
  artifact.set_version(kArtifactVersion);
  artifact.mutable_target()->set_name("x86-64-v2");
  artifact.mutable_target()->mutable_host()->set_torch_version("2.13.0");
  artifact.mutable_target()->mutable_host()->set_aoti_abi(1);
  artifact.mutable_target()->mutable_host()->set_kiln_abi(kKilnAbi);
  absl::StatusOr<VerifiedArtifact> verified = VerifyArtifact(
      artifact.SerializeAsString(), "", {.target = "x86-64-v4", .torch_version = "2.13.0", .aoti_abi = 1});
  if (!verified.ok()) return;
  std::vector<std::string> constants;
  for (const auto& c : artifact.constants()) constants.push_back(c.data());
  Operators operators;
  const auto num_kernels = static_cast<size_t>(artifact.kernels_size());
  const CpuKernels kernels(&FakeTorch(), std::vector<KernelFn*>(num_kernels, NoKernel),
                           std::vector<std::string>(num_kernels, "k"));
  for (Program& program : verified->programs) {
    absl::StatusOr<std::unique_ptr<Function>> function =
        Function::Create(std::move(program), &kernels, constants, &FakeTorch(), &operators);
    if (function.ok()) CallOnce(**function);
  }
}

}  // namespace
}  // namespace kiln

extern "C" const char* __asan_default_options() {
  // A failed external call leaves its arguments to torch, and the fake one forgets them.
  return "allocator_may_return_null=1:detect_leaks=0";
}

// The input is an Artifact, as wire bytes or as text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  static_cast<void>(kiln::VerifyArtifact(bytes, "", {}));
  kiln::v1::Artifact artifact;
  google::protobuf::TextFormat::Parser parser;
  struct Quiet : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  } quiet;
  parser.RecordErrorsTo(&quiet);
  parser.SetRecursionLimit(20);
  if (artifact.ParseFromString(bytes) || parser.ParseFromString(bytes, &artifact)) kiln::TryArtifact(artifact);
  return 0;
}
