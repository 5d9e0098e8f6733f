// The module kiln._kiln: the client and the run time for Python.
#include <memory>
#include <string>
#include <utility>

#include "client/cpp/cuda_kernels.h"
#include "client/cpp/host.h"
#include "client/cpp/py_common.h"
#include "client/cpp/py_torch.h"
#include "compiler/artifact/abi.h"

namespace kiln {
namespace {

PyObject* Facts(const PyTorch& torch) {
  PyRef missing(PyList_New(0));
  for (const std::string& symbol : torch.api().missing) {
    const PyRef name(PyString(symbol));
    if (!missing || !name || PyList_Append(missing.get(), name.get()) != 0) return nullptr;
  }
  if (!missing) return nullptr;
  return Py_BuildValue("{sKsIsssssOsOsssN}", "aoti_abi", static_cast<unsigned long long>(torch.host().aoti_abi),
                       "kiln_abi", static_cast<unsigned int>(kKilnAbi), "torch_version",
                       torch.host().torch_version.c_str(), "target", torch.host().target.c_str(), "borrowed_handles",
                       torch.borrows_handles() ? Py_True : Py_False, "wraps", torch.wraps() ? Py_True : Py_False,
                       "not_recycled", std::string(torch.pool().layout().message()).c_str(), "missing",
                       missing.release());
}

PyObject* Init(PyObject*, PyObject* args) {
  const char* path;
  PyObject* probe;
  int fast = 1;
  if (!PyArg_ParseTuple(args, "sO|p:init", &path, &probe, &fast)) return nullptr;
  static bool done = false;  // functions that were loaded hold on to the first
  return Guarded(
      [&]() -> PyObject* {
        if (!done) {
          std::unique_ptr<PyTorch> torch = PyTorch::Create(path, probe, fast != 0);
          if (torch == nullptr) return nullptr;
          PyTorch::Set(std::move(torch));
          done = true;
        }
        return Facts(*PyTorch::Get());
      },
      static_cast<PyObject*>(nullptr));
}

PyObject* HostTargetName(PyObject*, PyObject*) { return PyString(HostTarget()); }

PyObject* CudaTargetName(PyObject*, PyObject* device) {
  const long index = PyLong_AsLong(device);
  if (index == -1 && PyErr_Occurred() != nullptr) return nullptr;
  const absl::StatusOr<std::string> target = CudaTarget(static_cast<int>(index));
  return target.ok() ? PyString(*target) : RaiseStatus(target.status());
}

PyObject* Recycle(PyObject*, PyObject* args) {
  int on;
  long long max_bytes;
  if (!PyArg_ParseTuple(args, "pL:recycle", &on, &max_bytes)) return nullptr;
  const PyTorch* torch = PyTorch::Get();
  if (torch == nullptr) return nullptr;
  torch->pool().Configure({.on = on != 0, .max_bytes = max_bytes});
  Py_RETURN_NONE;
}

PyObject* Recycled(PyObject*, PyObject* args) {
  int reset = 0;
  if (!PyArg_ParseTuple(args, "|p:recycled", &reset)) return nullptr;
  const PyTorch* torch = PyTorch::Get();
  if (torch == nullptr) return nullptr;
  const StoragePool::Stats stats = torch->pool().Read();
  if (reset != 0) torch->pool().ResetCounts();
  return Py_BuildValue("{sLsLsLsL}", "bytes", static_cast<long long>(stats.bytes), "idle_bytes",
                       static_cast<long long>(stats.idle_bytes), "reused", static_cast<long long>(stats.reused),
                       "fresh", static_cast<long long>(stats.fresh));
}

PyObject* Trim(PyObject*, PyObject*) {
  const PyTorch* torch = PyTorch::Get();
  return torch == nullptr ? nullptr : PyLong_FromLongLong(torch->pool().Trim());
}

PyMethodDef kMethods[] = {
    {"init", Init, METH_VARARGS,
     "init(libtorch_cpu_path: str, probe: torch.Tensor, fast: bool = True) -> dict\n\n"
     "Binds the run time to the torch of this process; a second call only reports. `missing` lists C "
     "shims\nthat this torch lacks, and without which something is slower; `not_recycled`, why outputs always have\n"
     "new memory, or nothing. Not `fast`: without the ways that rest on torch's own layout."},
    {"recycle", Recycle, METH_VARARGS,
     "recycle(on: bool, max_bytes: int): whether outputs may be made over memory that is no longer used, and how much\n"
     "memory takes part in it. For the whole process."},
    {"recycled", Recycled, METH_VARARGS,
     "recycled(reset: bool = False) -> {bytes, idle_bytes, reused, fresh}: of all memory that takes part; of that,\n"
     "what only kiln holds; large outputs over used and over new memory, from zero on again after `reset`."},
    {"trim", Trim, METH_NOARGS, "trim() -> int: gives back the memory that only kiln holds; its bytes."},
    {"host_target", HostTargetName, METH_NOARGS,
     "host_target() -> str: the best of x86-64-v2, -v3 and -v4 that this machine runs; empty if none."},
    {"cuda_target", CudaTargetName, METH_O,
     "cuda_target(device: int) -> str: the compute capability of that CUDA device, \"sm_90\" and the like."},
    {"written_apart", PyWrittenApart, METH_VARARGS,
     "written_apart(inputs: tuple, written: tuple[int, ...]) -> bool\n\n"
     "Whether the tensors at the positions `written` share no memory with another of the inputs. From a tensor's "
     "first\n"
     "element to its last counts as its own."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {
    PyModuleDef_HEAD_INIT, "_kiln", "kiln's client and run time.", -1, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace kiln

PyMODINIT_FUNC PyInit__kiln() {
  kiln::PyRef module(PyModule_Create(&kiln::kModule));
  if (!module || kiln::AddClient(module.get()) != 0 || kiln::AddArtifact(module.get()) != 0 ||
      kiln::AddFunction(module.get()) != 0) {
    return nullptr;
  }
  return module.release();
}
