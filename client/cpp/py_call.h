// Calls under Python: its lock, its exceptions, and operators that only Python can call.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/external.h"
#include "client/cpp/py_common.h"
#include "client/cpp/py_torch.h"

namespace kiln {

// The Python thread that makes a call. Entered means: holds the GIL.
class PyThread : public HostThread {
 public:
  ~PyThread() override;
  void Leave() override { state_ = PyEval_SaveThread(); }
  void Enter() override { PyEval_RestoreThread(state_); }

  // Takes the exception that is set and keeps it until the call has been cleaned up.
  void Keep();
  // Sets the exception for `status`, caused by the kept one if there is one. Returns nullptr.
  PyObject* Raise(const absl::Status& status);

 private:
  PyThreadState* state_ = nullptr;
  PyRef exception_;
};

// Resolves operators through a Python callable, once for all calls of one: resolve(op: str, schema: str) returns a
// callable that takes every argument by position, in schema order; dtypes, devices, layouts and memory formats as
// proto/graph.proto's numbers. It raises if this torch's operator has another schema.
class PyOps : public ForeignOps {
 public:
  PyOps(const PyTorch* torch, PyObject* resolve) : torch_(torch), resolve_(resolve) {}  // borrows both
  absl::StatusOr<std::unique_ptr<ForeignCall>> Resolve(const ExternalCall& call) override;

 private:
  const PyTorch* torch_;
  PyObject* resolve_;
  std::map<std::pair<std::string, std::string>, PyRef> known_;  // by op and schema
};

}  // namespace kiln
