// How a plan's external calls reach torch: an op's own C shim, the dispatcher shim, or the host language.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/program.h"
#include "client/cpp/torch_api.h"

namespace kiln {

// The interpreter under which a call is made. Leave and Enter alternate; a call starts entered.
class HostThread {
 public:
  virtual ~HostThread() = default;
  virtual void Leave() = 0;  // gives up the interpreter's lock
  virtual void Enter() = 0;  // takes it again
};

// Outside the interpreter for a scope; nothing if there is no interpreter.
class LeftHost {
 public:
  explicit LeftHost(HostThread* host) : host_(host) {
    if (host_ != nullptr) host_->Leave();
  }
  ~LeftHost() {
    if (host_ != nullptr) host_->Enter();
  }
  LeftHost(const LeftHost&) = delete;
  LeftHost& operator=(const LeftHost&) = delete;

 private:
  HostThread* const host_;
};

// Back inside for a scope.
class EnteredHost {
 public:
  explicit EnteredHost(HostThread* host) : host_(host) {
    if (host_ != nullptr) host_->Enter();
  }
  ~EnteredHost() {
    if (host_ != nullptr) host_->Leave();
  }
  EnteredHost(const EnteredHost&) = delete;
  EnteredHost& operator=(const EnteredHost&) = delete;

 private:
  HostThread* const host_;
};

// What a running external call sees. Handles are borrowed.
struct CallContext {
  const TensorHandle* tensors;  // by value id
  const int64_t* slots;
  HostThread* host;      // entered when a ForeignCall runs; may be null if there are none
  int device_index = 0;  // of the GPU, where there is one
};

// An external call that the host language makes, because the shims refuse it: those with a Scalar argument, mainly.
class ForeignCall {
 public:
  virtual ~ForeignCall() = default;
  // Appends an owned handle for each tensor of the result, in order, nullptr for a None; lists item by item; what is
  // neither (an int) also as nullptr.
  virtual absl::Status Run(const ExternalCall& call, const CallContext& context,
                           std::vector<TensorHandle>* results) = 0;
};

class ForeignOps {
 public:
  virtual ~ForeignOps() = default;
  // The host's op. NotFound: it has none, or its schema is another, so that the arguments would be taken for what they
  // are not; then no route may call it. Called while loading, for every call, with the host entered.
  virtual absl::StatusOr<std::unique_ptr<ForeignCall>> Resolve(const ExternalCall& call) = 0;
};

// An external call bound to its implementation. Immutable, so may run in several threads.
class BoundExternal {
 public:
  enum class Route { kOut, kDispatcher, kForeign };

  // `call` and `api` must outlive the result. Unimplemented: the host does not know the op, or the shims refuse it, by
  // the reason given, and there is no host. With no `foreign` the schema is trusted.
  static absl::StatusOr<BoundExternal> Bind(const ExternalCall& call, const Program& program, const TorchApi& api,
                                            ForeignOps* foreign);

  Route route() const { return route_; }

  // kOut: writes into `out`, a tensor of the right shape.
  absl::Status RunOut(const CallContext& context, TensorHandle out) const;
  // Others: appends results as ForeignCall::Run does. `stack` is scratch.
  absl::Status Run(const CallContext& context, std::vector<StableIValue>* stack,
                   std::vector<TensorHandle>* results) const;

 private:
  using OutFn = int32_t (*)(const BoundExternal&, const TensorHandle* tensors, TensorHandle out);
  struct OutShim;

  BoundExternal(const ExternalCall* call, const TorchApi* api) : call_(call), api_(api) {}
  bool BindOut(const Program& program);
  const TorchApi::OutShims& shims() const { return *out_shims_; }
  std::string WhyNotDispatcher() const;
  StableIValue Encode(const CallArg& arg, const CallContext& context) const;
  StableIValue EncodeList(const CallArg& arg, const CallContext& context) const;
  absl::Status TakeResults(const std::vector<StableIValue>& stack, std::vector<TensorHandle>* results) const;
  absl::Status Error() const;

  const ExternalCall* call_;
  const TorchApi* api_;
  Route route_ = Route::kDispatcher;
  OutFn out_fn_ = nullptr;
  const TorchApi::OutShims* out_shims_ = nullptr;  // kOut: the result's device's
  double beta_ = 1, alpha_ = 1;                    // kOut
  std::unique_ptr<ForeignCall> foreign_;
};

}  // namespace kiln
