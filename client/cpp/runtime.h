// Runs the functions of a loaded artifact.
//
//   std::unique_ptr<Frame> frame = function.AcquireFrame();
//   frame->tensors[i] = …;                   // borrowed handles of the tensor arguments
//   frame->symbols[…] = …;                   // values of the SymInt arguments
//   function.Bind(*frame);                   // checks and sizes; nothing has run if it fails
//   function.Run(*frame, host);              // the steps
//   frame->Take(value);                      // outputs
//   function.ReleaseFrame(std::move(frame));
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/external.h"
#include "client/cpp/kernels.h"
#include "client/cpp/program.h"
#include "client/cpp/storage_pool.h"
#include "client/cpp/torch_api.h"

namespace kiln {

// The state of one call. Kept for the next call of the same function, so that a call allocates nothing but tensors.
struct Frame {
  Frame(const Program& program, const TorchApi* api);
  ~Frame() { Clear(); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // An owned handle of a live value, once a value: it leaves the frame, or is a new handle if the frame only borrowed
  // it.
  TensorHandle Take(uint32_t value);
  // Becomes the owner of an argument's tensor, so that the caller's reference need not outlive Bind.
  void Own(uint32_t input);
  void Set(uint32_t value, TensorHandle owned);
  void Drop(uint32_t value);
  void Clear();  // drops all

  const TorchApi* api;
  std::vector<int64_t> symbols;  // by symbol
  std::vector<int64_t> exprs;    // by size expression
  std::vector<int64_t> slots;
  std::vector<TensorHandle> tensors;  // by value
  std::vector<uint8_t> owned;         // by value
  std::vector<char*> data;            // by value: address of element 0
  std::vector<uint32_t> restride;     // inputs whose strides are not the plan's
  bool long_call = false;             // worth giving up the interpreter's lock
  std::vector<void*> references;      // the host's, to the arguments: nothing here touches them
  // Scratch of Run.
  LaunchScratch launch;
  std::vector<StableIValue> stack;
  std::vector<TensorHandle> results;
};

// One function of an artifact, bound to this process's torch. Thread-safe: concurrent calls use frames of their own.
class Function {
 public:
  // `constants` are in the order of Artifact.constants, and must outlive the function with `kernels`, `api` and `pool`.
  // `foreign` and `pool` may be null; `device_index` is the GPU's, for a program with values there. Errors as
  // BoundExternal::Bind's, or ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Function>> Create(Program program, const Kernels* kernels,
                                                          std::span<const std::string> constants, const TorchApi* api,
                                                          ForeignOps* foreign, StoragePool* pool = nullptr,
                                                          int device_index = 0);
  ~Function();

  const Program& program() const { return program_; }
  BoundExternal::Route route(size_t external) const { return externals_[external].route(); }

  std::unique_ptr<Frame> AcquireFrame();
  void ReleaseFrame(std::unique_ptr<Frame> frame);

  // Reads shapes, evaluates all sizes. InvalidArgument names the argument whose dtype, rank, size or (if kernels read
  // it) device is not the plan's, or a mutated one with other strides; FailedPrecondition: a symbol's range or a
  // predicate does not hold. The arguments must stay alive until Run ends, but for those that the frame owns.
  absl::Status Bind(Frame& frame) const;

  // Runs the steps. On success every output value has a tensor in the frame. OutOfRange: an index was out of range
  // (eager's IndexError); other errors are the external calls'. `host` may be null.
  absl::Status Run(Frame& frame, HostThread* host) const;

 private:
  Function(Program program, const Kernels* kernels, const TorchApi* api, StoragePool* pool, int device_index);
  absl::Status MakeConstants(std::span<const std::string> constants);

  absl::Status ReadSymbols(Frame& frame) const;
  absl::Status EvaluateSizes(Frame& frame) const;
  absl::Status CheckInput(Frame& frame, uint32_t input) const;
  absl::Status CheckDevice(const Frame& frame, uint32_t input) const;
  bool IsLong(const Frame& frame) const;

  absl::Status RunSteps(Frame& frame, HostThread* host, bool left) const;
  absl::Status Restride(Frame& frame) const;
  absl::Status Allocate(Frame& frame, uint32_t value) const;
  absl::Status MakeView(Frame& frame, uint32_t value) const;
  absl::Status CallExternal(Frame& frame, uint32_t index, HostThread* host, bool left) const;
  absl::Status Adopt(Frame& frame, const ExternalCall& call, size_t result, TensorHandle handle) const;
  absl::Status Copy(Frame& frame, const Program::Copy& copy) const;

  int32_t IndexOn(v1::DeviceType device) const { return device == v1::CUDA ? device_index_ : 0; }
  absl::Status EmptyLike(const Frame& frame, uint32_t value, StoragePool* pool, TensorHandle* out) const;
  absl::Status EmptyBytes(v1::DeviceType device, int64_t bytes, TensorHandle* out) const;
  absl::Status Blob(const Frame& frame, uint32_t value, OwnedTensor* out) const;
  // Element 0 of the value is `offset` bytes into the `bytes` of memory at `begin`: fills in its address and those of
  // its views. InvalidArgument if a view reaches outside.
  absl::Status SetData(Frame& frame, uint32_t value, void* begin, int64_t offset, int64_t bytes) const;
  absl::Status ReadData(Frame& frame, uint32_t value) const;  // likewise, for a value with a tensor
  bool IsContiguous(const Frame& frame, uint32_t value) const;

  const Program program_;
  const Kernels* const kernels_;
  const TorchApi* api_;
  StoragePool* pool_;  // null: every tensor has new memory
  const int device_index_;
  const StoragePool::Growth growth_;
  std::vector<BoundExternal> externals_;
  std::vector<std::pair<uint32_t, TensorHandle>> constants_;  // value id, owned tensor
  std::vector<uint32_t> inputs_with_data_;
  bool calls_torch_ = false;     // so that autograd must be off
  std::optional<bool> is_long_;  // known if there are no symbols
  std::atomic<Frame*> idle_{nullptr};
};

}  // namespace kiln
