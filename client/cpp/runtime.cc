#include "client/cpp/runtime.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

using From = Program::SymbolSource::From;

// Work below which a call keeps the interpreter's lock. A launch's grain is some 10 µs of work.
constexpr int64_t kLongGrains = 2;
constexpr int64_t kLongBytes = 1 << 20;  // of tensors around external calls
constexpr size_t kLongSteps = 16;        // of a GPU's function: some 50 µs of launching

bool Holds(v1::Predicate::Op op, int64_t lhs, int64_t rhs) {
  switch (op) {
    case v1::Predicate::EQ:
      return lhs == rhs;
    case v1::Predicate::NE:
      return lhs != rhs;
    case v1::Predicate::LT:
      return lhs < rhs;
    default:
      return lhs <= rhs;
  }
}

}  // namespace

Frame::Frame(const Program& program, const TorchApi* torch)
    : api(torch),
      symbols(program.symbols.size()),
      exprs(program.sizes.constants()),
      slots(program.slots),
      tensors(program.values.size()),
      owned(program.values.size()),
      data(program.values.size()) {}

void Frame::Set(uint32_t value, TensorHandle handle) {
  Drop(value);
  tensors[value] = handle;
  owned[value] = 1;
}

void Frame::Drop(uint32_t value) {
  if (owned[value]) api->delete_tensor(tensors[value]);
  owned[value] = 0;
  tensors[value] = nullptr;
}

void Frame::Own(uint32_t input) {
  TensorHandle handle = nullptr;
  if (!owned[input] && api->new_handle(tensors[input], &handle) == 0) Set(input, handle);
}

TensorHandle Frame::Take(uint32_t value) {
  TensorHandle handle = nullptr;
  if (owned[value]) {
    owned[value] = 0;
    std::swap(handle, tensors[value]);
  } else {
    api->new_handle(tensors[value], &handle);
  }
  return handle;
}

void Frame::Clear() {
  for (uint32_t v = 0; v < tensors.size(); ++v) Drop(v);
  for (TensorHandle h : results) {
    if (h != nullptr) api->delete_tensor(h);
  }
  results.clear();
}

Function::Function(Program program, const Kernels* kernels, const TorchApi* api, StoragePool* pool, int device_index)
    : program_(std::move(program)),
      kernels_(kernels),
      api_(api),
      pool_(pool),
      device_index_(device_index),
      growth_(program_.name == "inference" ? StoragePool::Growth::kFree : StoragePool::Growth::kFrugal) {
  for (uint32_t i = 0; i < program_.inputs.size(); ++i) {
    if (program_.values[i].needs_data) inputs_with_data_.push_back(i);
  }
}

Function::~Function() {
  delete idle_.load();
  for (auto& [value, handle] : constants_) api_->delete_tensor(handle);
}

absl::StatusOr<std::unique_ptr<Function>> Function::Create(Program program, const Kernels* kernels,
                                                           std::span<const std::string> constants, const TorchApi* api,
                                                           ForeignOps* foreign, StoragePool* pool, int device_index) {
  std::unique_ptr<Function> f(new Function(std::move(program), kernels, api, pool, device_index));
  const Program& p = f->program_;
  for (const Program::Launch& launch : p.launches) {
    if (launch.kernel >= kernels->size()) return absl::InvalidArgumentError(absl::StrCat("no kernel ", launch.kernel));
  }
  for (const Program::Value& v : p.values) {
    if (v.dtype != v1::DTYPE_UNSPECIFIED && api->dtype_code[v.dtype] < 0) {
      return absl::UnimplementedError(absl::StrCat("this torch has no ", v1::DType_Name(v.dtype)));
    }
  }
  for (const ExternalCall& call : p.externals) {
    absl::StatusOr<BoundExternal> bound = BoundExternal::Bind(call, p, *api, foreign);
    if (!bound.ok()) return bound.status();
    f->externals_.push_back(*std::move(bound));
  }
  f->calls_torch_ = !p.externals.empty() || !p.copies.empty();
  if (absl::Status s = f->MakeConstants(constants); !s.ok()) return s;
  if (p.dynamic_slots.empty()) {
    Frame frame(p, api);
    f->is_long_ = f->IsLong(frame);
  }
  return f;
}

absl::Status Function::MakeConstants(std::span<const std::string> constants) {
  Frame frame(program_, api_);
  for (uint32_t v = 0; v < program_.values.size(); ++v) {
    const Program::Value& value = program_.values[v];
    if (value.storage != v1::PlanValue::CONSTANT) continue;
    TensorHandle handle = nullptr;
    if (absl::Status s = EmptyLike(frame, v, nullptr, &handle); !s.ok()) return s;
    constants_.push_back({v, handle});
    const std::string& bytes = constants[value.base];
    if (bytes.empty()) continue;
    // From the host's memory to wherever the constant lives; done when this returns.
    OwnedTensor blob(api_);
    const int64_t* sizes = frame.slots.data() + value.shape;
    if (api_->from_blob(const_cast<char*>(bytes.data()), value.rank, sizes, sizes + value.rank, 0,
                        api_->dtype_code[value.dtype], api_->device_code[v1::CPU], -1, blob.out(), api_->strided_layout,
                        nullptr, 0) != 0 ||
        api_->copy_(handle, blob.get(), 0) != 0) {
      return api_->Error("constant");
    }
  }
  return absl::OkStatus();
}

// One frame is kept; concurrent and nested calls make more and throw them away.
std::unique_ptr<Frame> Function::AcquireFrame() {
  std::unique_ptr<Frame> frame(idle_.exchange(nullptr, std::memory_order_acquire));
  if (frame == nullptr) frame = std::make_unique<Frame>(program_, api_);
  return frame;
}

void Function::ReleaseFrame(std::unique_ptr<Frame> frame) {
  frame->Clear();
  Frame* expected = nullptr;
  if (idle_.compare_exchange_strong(expected, frame.get(), std::memory_order_release, std::memory_order_relaxed)) {
    static_cast<void>(frame.release());
  }
}

absl::Status Function::Bind(Frame& frame) const {
  frame.restride.clear();
  if (!program_.dynamic_slots.empty()) {
    if (absl::Status s = ReadSymbols(frame); !s.ok()) return s;
    if (absl::Status s = EvaluateSizes(frame); !s.ok()) return s;
  }
  for (uint32_t i = 0; i < program_.inputs.size(); ++i) {
    if (program_.inputs[i].is_symbol) continue;
    if (absl::Status s = CheckInput(frame, i); !s.ok()) return s;
  }
  for (const Program::Predicate& p : program_.predicates) {
    if (Holds(p.op, frame.slots[p.lhs], frame.slots[p.rhs])) continue;
    return absl::FailedPreconditionError(absl::StrCat("the artifact is for other sizes: ", frame.slots[p.lhs], " ",
                                                      v1::Predicate::Op_Name(p.op), " ", frame.slots[p.rhs],
                                                      " does not hold"));
  }
  frame.long_call = is_long_ ? *is_long_ : IsLong(frame);
  return absl::OkStatus();
}

absl::Status Function::ReadSymbols(Frame& frame) const {
  for (uint32_t s = 0; s < program_.symbols.size(); ++s) {
    const Program::SymbolSource& source = program_.symbols[s];
    if (source.from == From::kArgument) continue;
    if (source.from == From::kUnused) {
      frame.symbols[s] = program_.sizes.LeastValue(s);
      continue;
    }
    int64_t dim = 0, *array = nullptr;
    const TensorHandle t = frame.tensors[source.input];
    const bool size = source.from == From::kSize;
    if (api_->dim(t, &dim) != 0 || (size ? api_->sizes(t, &array) : api_->strides(t, &array)) != 0) {
      return api_->Error(absl::StrCat("argument ", source.input));
    }
    if (dim <= source.dim) {
      return absl::InvalidArgumentError(absl::StrCat("argument ", source.input, " has ", dim, " dimensions"));
    }
    frame.symbols[s] = array[source.dim];
  }
  return absl::OkStatus();
}

absl::Status Function::EvaluateSizes(Frame& frame) const {
  if (absl::Status s = program_.sizes.Evaluate(frame.symbols, frame.exprs); !s.ok()) return s;
  for (const Program::DynamicSlot& d : program_.dynamic_slots) {
    const int64_t value = frame.exprs[d.expr];
    if (value < d.min) {
      return absl::InvalidArgumentError(absl::StrCat("syms.exprs[", d.expr, "] is ", value, ", want at least ", d.min));
    }
    frame.slots[d.slot] = value;
  }
  return program_.CheckWorkspace(frame.slots);
}

absl::Status Function::CheckInput(Frame& frame, uint32_t input) const {
  const Program::Value& want = program_.values[input];
  const TensorHandle t = frame.tensors[input];
  int64_t dim = 0, *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0;
  if ((api_->dtype(t, &dtype) | api_->dim(t, &dim) | api_->sizes(t, &sizes) | api_->strides(t, &strides)) != 0) {
    return api_->Error(absl::StrCat("argument ", input));
  }
  // What only external calls read may be elsewhere than torch's meta functions say, as seeds of attention are.
  if (want.needs_data) {
    if (absl::Status s = CheckDevice(frame, input); !s.ok()) return s;
  }
  if (dtype != api_->dtype_code[want.dtype]) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", input, " has torch dtype ", dtype, ", the plan wants ", v1::DType_Name(want.dtype)));
  }
  if (dim != want.rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", input, " has ", dim, " dimensions, the plan wants ", want.rank));
  }
  const int64_t* want_sizes = frame.slots.data() + want.shape;
  for (uint32_t d = 0; d < want.rank; ++d) {
    if (sizes[d] == want_sizes[d]) continue;
    return absl::InvalidArgumentError(absl::StrCat("argument ", input, " has size ", sizes[d], " in dimension ", d,
                                                   ", the plan wants ", want_sizes[d]));
  }
  if (SameStrides(sizes, strides, want_sizes + want.rank, want.rank)) return absl::OkStatus();
  if (program_.inputs[input].mutated) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", input, " is written in place and has other strides than the plan's"));
  }
  frame.restride.push_back(input);
  return absl::OkStatus();
}

absl::Status Function::CheckDevice(const Frame& frame, uint32_t input) const {
  const v1::DeviceType want = program_.values[input].device;
  const TensorHandle t = frame.tensors[input];
  int32_t device = 0, index = 0;
  if ((api_->device_type(t, &device) | api_->device_index(t, &index)) != 0) {
    return api_->Error(absl::StrCat("argument ", input));
  }
  if (device != api_->device_code[want]) {
    return absl::InvalidArgumentError(absl::StrCat("argument ", input, " has torch device type ", device,
                                                   ", the plan wants ", v1::DeviceType_Name(want)));
  }
  if (want == v1::CUDA && index != device_index_) {
    return absl::InvalidArgumentError(
        absl::StrCat("argument ", input, " is on cuda:", index, ", the code was loaded for cuda:", device_index_));
  }
  return absl::OkStatus();
}

bool Function::IsLong(const Frame& frame) const {
  if (program_.device == v1::CUDA) return program_.steps.size() >= kLongSteps;
  int64_t grains = 0;
  for (const Program::Launch& launch : program_.launches) {
    grains += frame.slots[launch.extent] / frame.slots[launch.grain];
    if (grains >= kLongGrains) return true;
  }
  if (program_.externals.empty()) return false;
  int64_t bytes = 0;
  for (const Program::Value& v : program_.values) {
    if (v.storage == v1::PlanValue::STORAGE_UNSPECIFIED) continue;
    const std::optional<int64_t> extent = program_.ByteExtent(v, frame.slots);
    if (!extent || *extent > kLongBytes || (bytes += *extent) > kLongBytes) return true;
  }
  return false;
}

}  // namespace kiln
