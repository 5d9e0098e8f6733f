#include "client/cpp/py_torch.h"

#include <dlfcn.h>

#include <utility>

#include "client/cpp/host.h"

namespace kiln {
namespace {

PyTorch* g_torch = nullptr;

PyObject* Attribute(const char* module, const char* name) {
  const PyRef m(PyImport_ImportModule(module));
  return m ? PyObject_GetAttrString(m.get(), name) : nullptr;
}

}  // namespace

PyTorch* PyTorch::Get() {
  if (g_torch == nullptr) PyErr_SetString(PyExc_RuntimeError, "kiln._kiln.init has not been called");
  return g_torch;
}

void PyTorch::Set(std::unique_ptr<PyTorch> torch) { g_torch = torch.release(); }

std::unique_ptr<PyTorch> PyTorch::Create(const std::string& libtorch_cpu, PyObject* probe, bool fast) {
  absl::StatusOr<std::unique_ptr<TorchApi>> api = TorchApi::Load(libtorch_cpu);
  if (!api.ok()) {
    RaiseStatus(api.status());
    return nullptr;
  }
  auto torch = std::make_unique<PyTorch>();
  torch->api_ = *std::move(api);
  torch->pool_ = std::make_unique<StoragePool>(torch->api_.get());
  torch->host_ = {std::string(HostTarget()), torch->api_->Version(), torch->api_->abi_version()};
  if (!torch->FindClasses()) return nullptr;
  if (!torch->IsTensor(probe)) {
    PyErr_SetString(PyExc_TypeError, "the probe is not a tensor");
    return nullptr;
  }
  if (fast && (!torch->TryBorrow(probe) || !torch->TryWrap(libtorch_cpu, probe))) return nullptr;
  return torch;
}

bool PyTorch::FindClasses() {
  base_ = reinterpret_cast<PyTypeObject*>(Attribute("torch._C", "TensorBase"));
  tensor_ = reinterpret_cast<PyTypeObject*>(Attribute("torch", "Tensor"));
  parameter_ = reinterpret_cast<PyTypeObject*>(Attribute("torch.nn", "Parameter"));
  to_capsule_ = Attribute("torch._C._aoti", "unsafe_alloc_void_ptr_from_tensor");
  from_capsules_ = Attribute("torch._C._aoti", "alloc_tensors_by_stealing_from_void_ptrs");
  return base_ != nullptr && tensor_ != nullptr && parameter_ != nullptr && to_capsule_ != nullptr &&
         from_capsules_ != nullptr;
}

// The word after the object's head must be what the probe's own handle holds: the same TensorImpl*.
bool PyTorch::TryBorrow(PyObject* probe) {
  const TensorHandle owned = Own(probe);
  if (owned == nullptr) return false;
  borrows_ = *reinterpret_cast<void**>(Borrow(probe)) == *reinterpret_cast<void**>(owned);
  api_->delete_tensor(owned);
  return true;
}

// The probe's handle must come back as the probe itself.
bool PyTorch::TryWrap(const std::string& libtorch_cpu, PyObject* probe) {
  const std::string path = libtorch_cpu.substr(0, libtorch_cpu.rfind('/') + 1) + "libtorch_python.so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return true;
  wrap_ = reinterpret_cast<PyObject* (*)(TensorHandle)>(dlsym(library, "_Z16THPVariable_WrapON2at10TensorBaseE"));
  if (wrap_ == nullptr) return true;
  const TensorHandle owned = Own(probe);
  if (owned == nullptr) return false;
  const PyRef back(Wrap(owned));
  if (back.get() == probe) return true;
  PyErr_Clear();
  wrap_ = nullptr;
  return true;
}

TensorHandle PyTorch::Own(PyObject* tensor) const {
  if (borrows_) {
    TensorHandle handle = nullptr;
    if (api_->new_handle(Borrow(tensor), &handle) == 0) return handle;
    RaiseStatus(api_->Error("new_tensor_handle"));
    return nullptr;
  }
  const PyRef capsule(PyObject_CallFunctionObjArgs(to_capsule_, tensor, nullptr));
  if (!capsule) return nullptr;
  return static_cast<TensorHandle>(PyCapsule_GetPointer(capsule.get(), PyCapsule_GetName(capsule.get())));
}

PyObject* PyTorch::Wrap(TensorHandle owned) const {
  if (wrap_ != nullptr) {
    PyObject* object = Guarded([&] { return wrap_(owned); }, static_cast<PyObject*>(nullptr));
    api_->delete_tensor(owned);  // moved from, but still an object
    if (object == nullptr && PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_RuntimeError, "torch wrapped nothing");
    return object;
  }
  PyObject* capsule = PyCapsule_New(owned, nullptr, nullptr);
  if (capsule == nullptr) {
    api_->delete_tensor(owned);
    return nullptr;
  }
  // The function for one capsule leaks the tensor.
  const PyRef capsules(Py_BuildValue("[N]", capsule));
  const PyRef tensors(capsules ? PyObject_CallFunctionObjArgs(from_capsules_, capsules.get(), nullptr) : nullptr);
  return tensors ? PySequence_GetItem(tensors.get(), 0) : nullptr;
}

}  // namespace kiln
