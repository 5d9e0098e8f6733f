// Torch's tensors between Python and C++.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/cpp/py_common.h"
#include "client/cpp/storage_pool.h"
#include "client/cpp/torch_api.h"
#include "client/cpp/verify.h"

namespace kiln {

// The torch of this process. Made once, by init; never destroyed. All members but `api` and `pool` need the GIL.
//
// Two fast ways rest on torch's own layout and symbols, so each is tried on a probe first and left alone if it does not
// hold: a tensor's handle is the at::Tensor inside its Python object, and THPVariable_Wrap turns a handle into a Python
// object. The slow way for both is torch._C._aoti, through capsules.
class PyTorch {
 public:
  // `probe` is a dense CPU tensor. nullptr, with an exception set, on failure. Not `fast`: the slow ways only.
  static std::unique_ptr<PyTorch> Create(const std::string& libtorch_cpu, PyObject* probe, bool fast);
  // The one that init made; nullptr, with an exception set, before that.
  static PyTorch* Get();
  static void Set(std::unique_ptr<PyTorch> torch);

  const TorchApi& api() const { return *api_; }
  StoragePool& pool() const { return *pool_; }
  const HostFacts& host() const { return host_; }
  bool borrows_handles() const { return borrows_; }
  bool wraps() const { return wrap_ != nullptr; }

  bool IsTensor(PyObject* object) const {
    PyTypeObject* type = Py_TYPE(object);
    return type == tensor_ || type == parameter_ || PyType_IsSubtype(type, base_) != 0;
  }
  // Only if borrows_handles(): valid as long as the object.
  TensorHandle Borrow(PyObject* tensor) const {
    return reinterpret_cast<TensorHandle>(reinterpret_cast<char*>(tensor) + sizeof(PyObject));
  }
  // A new handle; nullptr with an exception set.
  TensorHandle Own(PyObject* tensor) const;
  // Consumes the handle. A new reference; nullptr with an exception set.
  PyObject* Wrap(TensorHandle owned) const;

 private:
  bool FindClasses();
  bool TryBorrow(PyObject* probe);
  bool TryWrap(const std::string& libtorch_cpu, PyObject* probe);

  std::unique_ptr<TorchApi> api_;
  std::unique_ptr<StoragePool> pool_;
  HostFacts host_;
  PyTypeObject* base_ = nullptr;       // torch._C.TensorBase
  PyTypeObject* tensor_ = nullptr;     // torch.Tensor
  PyTypeObject* parameter_ = nullptr;  // torch.nn.Parameter
  PyObject* to_capsule_ = nullptr;     // torch._C._aoti.unsafe_alloc_void_ptr_from_tensor
  PyObject* from_capsules_ = nullptr;  // torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs
  bool borrows_ = false;
  PyObject* (*wrap_)(TensorHandle) = nullptr;  // THPVariable_Wrap(at::TensorBase&&)
};

}  // namespace kiln
