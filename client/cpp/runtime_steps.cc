// The steps of a call: allocation, launches, views, external calls, copies.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/runtime.h"
#include "client/cpp/workspace.h"

namespace kiln {
namespace {

constexpr int64_t kMaxMemmove = 1 << 20;  // above, torch copies with all threads

bool IsComplex(v1::DType dtype) { return dtype == v1::COMPLEX32 || dtype == v1::COMPLEX64 || dtype == v1::COMPLEX128; }

}  // namespace

absl::Status Function::Run(Frame& frame, HostThread* host) const {
  const bool leave = frame.long_call && host != nullptr;
  const LeftHost left(leave ? host : nullptr);
  std::optional<NoGrad> no_grad;
  if (calls_torch_ || !frame.restride.empty()) no_grad.emplace(*api_);
  return RunSteps(frame, host, leave);
}

absl::Status Function::RunSteps(Frame& frame, HostThread* host, bool left) const {
  for (const auto& [value, handle] : constants_) {
    frame.tensors[value] = handle;
    if (!program_.values[value].needs_data) continue;
    if (absl::Status s = ReadData(frame, value); !s.ok()) return s;
  }
  if (absl::Status s = Restride(frame); !s.ok()) return s;
  for (uint32_t input : inputs_with_data_) {
    if (absl::Status s = ReadData(frame, input); !s.ok()) return s;
  }
  std::optional<WorkspaceLease> workspace;
  OwnedTensor gpu_workspace(api_);  // torch reuses its memory for later work of the stream only
  if (!program_.workspace_values.empty()) {
    const int64_t bytes = frame.slots[program_.workspace];
    void* memory = nullptr;
    if (program_.device == v1::CUDA) {
      if (absl::Status s = EmptyBytes(program_.device, bytes, gpu_workspace.out()); !s.ok()) return s;
      if (api_->data_ptr(gpu_workspace.get(), &memory) != 0) return api_->Error("workspace");
    } else {
      absl::StatusOr<WorkspaceLease> lease = WorkspaceLease::Acquire(static_cast<size_t>(bytes));
      if (!lease.ok()) return lease.status();
      workspace.emplace(*std::move(lease));
      memory = workspace->data();
    }
    for (uint32_t v : program_.workspace_values) {
      absl::Status s = SetData(frame, v, memory, frame.slots[program_.values[v].offset], bytes);
      if (!s.ok()) return s;
    }
  }
  for (const Program::Step& step : program_.steps) {
    absl::Status status;
    switch (step.kind) {
      case Program::Step::Kind::kAllocate:
        status = Allocate(frame, step.index);
        break;
      case Program::Step::Kind::kLaunch:
        status = kernels_->Run(program_, std::span(program_.launches).subspan(step.index, step.count),
                               frame.data.data(), frame.slots.data(), frame.launch);
        break;
      case Program::Step::Kind::kExternal:
        status = CallExternal(frame, step.index, host, left);
        break;
      case Program::Step::Kind::kView:
        status = MakeView(frame, step.index);
        break;
      case Program::Step::Kind::kRelease: {
        const Program::Release& release = program_.releases[step.index];
        for (uint32_t i = 0; i < release.count; ++i) frame.Drop(program_.released[release.first + i]);
        break;
      }
      case Program::Step::Kind::kCopy:
        status = Copy(frame, program_.copies[step.index]);
        break;
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Function::Restride(Frame& frame) const {
  for (uint32_t input : frame.restride) {
    OwnedTensor copy(api_);
    if (absl::Status s = EmptyLike(frame, input, nullptr, copy.out()); !s.ok()) return s;
    if (api_->copy_(copy.get(), frame.tensors[input], 0) != 0) return api_->Error(absl::StrCat("argument ", input));
    frame.Set(input, copy.release());
  }
  return absl::OkStatus();
}

// The one place where tensors are made.
absl::Status Function::EmptyLike(const Frame& frame, uint32_t value, StoragePool* pool, TensorHandle* out) const {
  const Program::Value& v = program_.values[value];
  const int64_t* sizes = frame.slots.data() + v.shape;
  if (v.device != v1::CPU) pool = nullptr;  // torch's own allocator does it there
  const TensorSpec spec{.dtype = api_->dtype_code[v.dtype],
                        .item_bytes = ByteSize(v.dtype),
                        .rank = v.rank,
                        .sizes = sizes,
                        .strides = sizes + v.rank,
                        .bytes = program_.ByteExtent(v, frame.slots).value_or(0),
                        .device = api_->device_code[v.device],
                        .device_index = IndexOn(v.device)};
  if ((pool != nullptr ? pool->Empty(spec, growth_, out) : EmptyTensor(*api_, spec, out)) != 0) {
    return api_->Error(absl::StrCat("value ", value, ": allocation"));
  }
  return absl::OkStatus();
}

absl::Status Function::EmptyBytes(v1::DeviceType device, int64_t bytes, TensorHandle* out) const {
  static constexpr int64_t kOne = 1;
  const TensorSpec spec{.dtype = api_->dtype_code[v1::UINT8],
                        .item_bytes = 1,
                        .rank = 1,
                        .sizes = &bytes,
                        .strides = &kOne,
                        .bytes = bytes,
                        .device = api_->device_code[device],
                        .device_index = IndexOn(device)};
  return EmptyTensor(*api_, spec, out) == 0 ? absl::OkStatus() : api_->Error("workspace");
}

absl::Status Function::Allocate(Frame& frame, uint32_t value) const {
  TensorHandle handle = nullptr;
  if (absl::Status s = EmptyLike(frame, value, pool_, &handle); !s.ok()) return s;
  frame.Set(value, handle);
  return program_.values[value].needs_data ? ReadData(frame, value) : absl::OkStatus();
}

absl::Status Function::ReadData(Frame& frame, uint32_t value) const {
  const TensorHandle tensor = frame.tensors[value];
  void* data = nullptr;
  if (api_->data_ptr(tensor, &data) != 0) return api_->Error(absl::StrCat("value ", value));
  frame.data[value] = static_cast<char*>(data);
  if (program_.first_view[value] == program_.first_view[value + 1]) return absl::OkStatus();
  int64_t offset = 0, bytes = 0;
  if ((api_->storage_offset(tensor, &offset) | api_->storage_size(tensor, &bytes)) != 0) {
    return api_->Error(absl::StrCat("value ", value));
  }
  offset *= ByteSize(program_.values[value].dtype);
  // As an integer: an empty storage has no address.
  return SetData(frame, value, reinterpret_cast<void*>(reinterpret_cast<intptr_t>(data) - offset), offset, bytes);
}

absl::Status Function::SetData(Frame& frame, uint32_t value, void* begin, int64_t offset, int64_t bytes) const {
  const intptr_t origin = reinterpret_cast<intptr_t>(begin);
  frame.data[value] = reinterpret_cast<char*>(origin + offset);
  for (uint32_t i = program_.first_view[value]; i < program_.first_view[value + 1]; ++i) {
    const uint32_t view = program_.views[i];
    const Program::Value& v = program_.values[view];
    const std::optional<int64_t> extent = program_.ByteExtent(v, frame.slots);
    if (extent == 0) {  // of no elements: torch gives it any offset
      frame.data[view] = reinterpret_cast<char*>(origin);
      continue;
    }
    const int64_t base = reinterpret_cast<intptr_t>(frame.data[v.base]) - origin;
    int64_t first, last;
    if (!extent || __builtin_mul_overflow(frame.slots[v.offset], ByteSize(v.dtype), &first) ||
        __builtin_add_overflow(first, base, &first) || first < 0 || __builtin_add_overflow(first, *extent, &last) ||
        last > bytes) {
      return absl::InvalidArgumentError(absl::StrCat("value ", view, ": the view lies outside its base's memory"));
    }
    frame.data[view] = reinterpret_cast<char*>(origin + first);
  }
  return absl::OkStatus();
}

// Views of one dtype share the storage with another offset; of another dtype they are cut from the storage by bytes.
// Torch checks neither, so the bounds are checked here; a view of no elements may be anywhere.
absl::Status Function::MakeView(Frame& frame, uint32_t value) const {
  const Program::Value& v = program_.values[value];
  const Program::Value& base = program_.values[v.base];
  const TensorHandle from = frame.tensors[v.base];
  int64_t storage_offset = 0, storage_bytes = 0;
  if ((api_->storage_offset(from, &storage_offset) | api_->storage_size(from, &storage_bytes)) != 0) {
    return api_->Error(absl::StrCat("value ", value));
  }
  const int64_t unit = ByteSize(v.dtype);
  const std::optional<int64_t> extent = program_.ByteExtent(v, frame.slots);
  int64_t begin, end;
  if (!extent || __builtin_mul_overflow(frame.slots[v.offset], unit, &begin) ||
      __builtin_add_overflow(begin, storage_offset * ByteSize(base.dtype), &begin) || begin < 0 || begin % unit != 0 ||
      __builtin_add_overflow(begin, *extent, &end) || (end > storage_bytes && *extent != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("value ", value, ": the view does not lie inside its base's storage"));
  }
  const int64_t* sizes = frame.slots.data() + v.shape;
  const int64_t* strides = sizes + v.rank;
  OwnedTensor view(api_);
  int32_t failed;
  if (v.dtype == base.dtype) {
    failed = api_->reinterpret_tensor(from, v.rank, sizes, strides, frame.slots[v.offset], view.out());
  } else {
    OwnedTensor whole(api_);  // the pool must begin where its storage does
    const int64_t none = 0, one = 1;
    failed = api_->reinterpret_tensor(from, 1, &none, &one, -storage_offset, whole.out());
    if (*extent == 0) begin = 0;
    if (failed == 0) {
      failed = api_->alloc_from_pool(whole.get(), begin, api_->dtype_code[v.dtype], v.rank, sizes, strides, view.out());
    }
  }
  if (failed != 0) return api_->Error(absl::StrCat("value ", value, ": view"));
  frame.Set(value, view.release());
  return absl::OkStatus();
}

absl::Status Function::CallExternal(Frame& frame, uint32_t index, HostThread* host, bool left) const {
  const ExternalCall& call = program_.externals[index];
  const BoundExternal& bound = externals_[index];
  const CallContext context{frame.tensors.data(), frame.slots.data(), host, device_index_};
  if (bound.route() == BoundExternal::Route::kOut) {
    const uint32_t result = call.results[0];
    if (program_.values[result].storage == v1::PlanValue::TENSOR) return bound.RunOut(context, frame.tensors[result]);
    OwnedTensor out(api_);
    if (absl::Status s = EmptyLike(frame, result, pool_, out.out()); !s.ok()) return s;
    if (absl::Status s = bound.RunOut(context, out.get()); !s.ok()) return s;
    frame.Set(result, out.release());
    return program_.values[result].needs_data ? ReadData(frame, result) : absl::OkStatus();
  }
  absl::Status status;
  {
    const EnteredHost entered(left && bound.route() == BoundExternal::Route::kForeign ? host : nullptr);
    // A call inside this call has a frame of its own, so the scratch is ours alone.
    status = bound.Run(context, &frame.stack, &frame.results);
  }
  if (status.ok() && frame.results.size() != call.results.size()) {
    status = absl::InvalidArgumentError(absl::StrCat(call.op, " (node ", call.origin, ") gave ", frame.results.size(),
                                                     " results, the plan has ", call.results.size()));
  }
  for (size_t i = 0; i < frame.results.size(); ++i) {
    const TensorHandle handle = std::exchange(frame.results[i], nullptr);
    if (status.ok()) {
      status = Adopt(frame, call, i, handle);
    } else if (handle != nullptr) {
      api_->delete_tensor(handle);
    }
  }
  frame.results.clear();
  return status;
}

// A result as the plan expects it: torch's kernels sometimes give other strides, another dtype or device than their
// meta functions promise.
absl::Status Function::Adopt(Frame& frame, const ExternalCall& call, size_t result, TensorHandle handle) const {
  OwnedTensor tensor(api_, handle);
  const uint32_t value = call.results[result];
  if (value == Program::kNoValue) return absl::OkStatus();
  const auto where = [&] { return absl::StrCat(call.op, " (node ", call.origin, "), result ", result); };
  bool defined = false;
  if (handle != nullptr && api_->is_defined(handle, &defined) != 0) return api_->Error(where());
  if (!defined) return absl::InvalidArgumentError(absl::StrCat(where(), " is None, the plan wants a tensor"));

  const Program::Value& want = program_.values[value];
  const int64_t* want_sizes = frame.slots.data() + want.shape;
  int64_t dim = 0, *sizes = nullptr, *strides = nullptr;
  int32_t dtype = 0, device = 0;
  if ((api_->dtype(handle, &dtype) | api_->dim(handle, &dim) | api_->sizes(handle, &sizes) |
       api_->strides(handle, &strides) | api_->device_type(handle, &device)) != 0) {
    return api_->Error(where());
  }
  if (dim != want.rank || !std::equal(sizes, sizes + dim, want_sizes)) {
    return absl::InvalidArgumentError(absl::StrCat(where(), " has another shape than the plan's"));
  }
  const bool into = want.storage == v1::PlanValue::TENSOR;
  // Kernels want it where the plan says; to other external calls it is whatever it is.
  const bool there = device == api_->device_code[want.device] || !want.needs_data;
  if (!into && there && dtype == api_->dtype_code[want.dtype] &&
      SameStrides(want_sizes, strides, want_sizes + want.rank, want.rank)) {
    // Those of dims of one element too: autograd, and DDP after it, compare them.
    OwnedTensor exact(api_);
    if (!std::equal(strides, strides + dim, want_sizes + want.rank) &&
        api_->reinterpret_tensor(handle, dim, want_sizes, want_sizes + want.rank, 0, exact.out()) != 0) {
      return api_->Error(where());
    }
    frame.Set(value, exact.get() != nullptr ? exact.release() : tensor.release());
  } else {
    OwnedTensor fresh(api_);
    if (!into) {
      if (absl::Status s = EmptyLike(frame, value, pool_, fresh.out()); !s.ok()) return s;
    }
    if (api_->copy_(into ? frame.tensors[value] : fresh.get(), handle, 0) != 0) return api_->Error(where());
    if (into) return absl::OkStatus();
    frame.Set(value, fresh.release());
  }
  return want.needs_data ? ReadData(frame, value) : absl::OkStatus();
}

bool Function::IsContiguous(const Frame& frame, uint32_t value) const {
  const Program::Value& v = program_.values[value];
  int64_t expected = 1;
  for (uint32_t d = v.rank; d-- > 0;) {
    const int64_t size = frame.slots[v.shape + d];
    if (size != 1 && frame.slots[v.shape + v.rank + d] != expected) return false;
    expected *= size;  // cannot overflow: the tensor exists
  }
  return true;
}

// A tensor over the value's memory that owns nothing.
absl::Status Function::Blob(const Frame& frame, uint32_t value, OwnedTensor* out) const {
  const Program::Value& v = program_.values[value];
  const int64_t* sizes = frame.slots.data() + v.shape;
  if (api_->from_blob(frame.data[value], v.rank, sizes, sizes + v.rank, 0, api_->dtype_code[v.dtype],
                      api_->device_code[v.device], v.device == v1::CUDA ? device_index_ : -1, out->out(),
                      api_->strided_layout, nullptr, 0) != 0) {
    return api_->Error(absl::StrCat("value ", value));
  }
  return absl::OkStatus();
}

// Written through a blob, so that an input's version is not counted up here: the wrapper around the call does that.
absl::Status Function::Copy(Frame& frame, const Program::Copy& copy) const {
  const Program::Value& to = program_.values[copy.to];
  const Program::Value& from = program_.values[copy.from];
  const int64_t* to_sizes = frame.slots.data() + to.shape;
  const int64_t* from_sizes = frame.slots.data() + from.shape;
  if (to.rank != from.rank || !std::equal(to_sizes, to_sizes + to.rank, from_sizes)) {
    return absl::InvalidArgumentError(absl::StrCat("copy of value ", copy.from, " to ", copy.to, ": shapes differ"));
  }
  const std::optional<int64_t> bytes = program_.ByteExtent(to, frame.slots);
  if (bytes == 0) return absl::OkStatus();
  const bool on_host = to.device == v1::CPU && from.device == v1::CPU;
  if (on_host && to.dtype == from.dtype && !IsComplex(to.dtype) && bytes && *bytes <= kMaxMemmove &&
      IsContiguous(frame, copy.to) && IsContiguous(frame, copy.from)) {
    std::memmove(frame.data[copy.to], frame.data[copy.from], static_cast<size_t>(*bytes));
    return absl::OkStatus();
  }
  OwnedTensor to_blob(api_), from_blob(api_);
  if (absl::Status s = Blob(frame, copy.to, &to_blob); !s.ok()) return s;
  // A complex tensor may be marked as conjugated, which its memory does not tell.
  TensorHandle source = frame.tensors[copy.from];
  if (source == nullptr) {
    if (absl::Status s = Blob(frame, copy.from, &from_blob); !s.ok()) return s;
    source = from_blob.get();
  }
  if (api_->copy_(to_blob.get(), source, /*non_blocking=*/to.device == v1::CUDA) != 0) {
    return api_->Error(absl::StrCat("copy of value ", copy.from, " to ", copy.to));
  }
  return absl::OkStatus();
}

}  // namespace kiln
