// kiln._kiln.load and kiln._kiln.Artifact.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "client/cpp/cuda_kernels.h"
#include "client/cpp/loader.h"
#include "client/cpp/py_call.h"
#include "client/cpp/py_common.h"
#include "client/cpp/py_function.h"
#include "client/cpp/py_torch.h"

namespace kiln {
namespace {

struct PyArtifact {
  PyObject_HEAD;
  LoadedArtifact* artifact;
};

PyTypeObject* g_type = nullptr;

LoadedArtifact& Of(PyObject* self) { return *reinterpret_cast<PyArtifact*>(self)->artifact; }

PyObject* Load(PyObject*, PyObject* args) {
  const char *artifact, *object;
  Py_ssize_t artifact_size, object_size;
  PyObject* resolve;
  int device = -1;
  if (!PyArg_ParseTuple(args, "y#y#O|i:load", &artifact, &artifact_size, &object, &object_size, &resolve, &device)) {
    return nullptr;
  }
  const PyTorch* torch = PyTorch::Get();
  if (torch == nullptr) return nullptr;
  HostFacts host = torch->host();
  if (device >= 0) {
    absl::StatusOr<std::string> target = CudaTarget(device);
    if (!target.ok()) return RaiseStatus(target.status());
    host.target = *std::move(target);
  }
  return Guarded(
      [&]() -> PyObject* {
        PyOps ops(torch, resolve);
        absl::StatusOr<std::unique_ptr<LoadedArtifact>> loaded = LoadedArtifact::Load(
            {artifact, static_cast<size_t>(artifact_size)}, {object, static_cast<size_t>(object_size)}, host,
            &torch->api(), &ops, &torch->pool(), std::max(device, 0));
        if (!loaded.ok()) return RaiseStatus(loaded.status());
        auto* self = PyObject_New(PyArtifact, g_type);
        if (self == nullptr) return nullptr;
        self->artifact = loaded->release();
        return reinterpret_cast<PyObject*>(self);
      },
      static_cast<PyObject*>(nullptr));
}

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete &Of(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* GetFunction(PyObject* self, PyObject* index) {
  const Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
  if (i == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (i < 0 || static_cast<size_t>(i) >= Of(self).num_functions()) {
    PyErr_Format(PyExc_IndexError, "the artifact has %zu functions", Of(self).num_functions());
    return nullptr;
  }
  return NewFunction(&Of(self).function(static_cast<size_t>(i)), self);
}

PyObject* DictOf(const std::map<std::string, int>& counts) {
  PyRef dict(PyDict_New());
  for (const auto& [key, count] : counts) {
    const PyRef value(PyLong_FromLong(count));
    if (!dict || !value || PyDict_SetItemString(dict.get(), key.c_str(), value.get()) != 0) return nullptr;
  }
  return dict.release();
}

PyObject* Info(PyObject* self, PyObject*) {
  const LoadedArtifact& artifact = Of(self);
  PyRef launches(PyList_New(0));
  std::map<std::string, int> calls, python_calls;
  for (size_t i = 0; launches && i < artifact.num_functions(); ++i) {
    const Function& f = artifact.function(i);
    const auto is_launch = [](const Program::Step& step) { return step.kind == Program::Step::Kind::kLaunch; };
    const PyRef count(PyLong_FromLong(std::ranges::count_if(f.program().steps, is_launch)));
    if (!count || PyList_Append(launches.get(), count.get()) != 0) return nullptr;
    for (size_t k = 0; k < f.program().externals.size(); ++k) {
      ++calls[f.program().externals[k].op];
      if (f.route(k) == BoundExternal::Route::kForeign) ++python_calls[f.program().externals[k].op];
    }
  }
  PyRef by_op(DictOf(calls)), by_python(DictOf(python_calls));
  if (!launches || !by_op || !by_python) return nullptr;
  return Py_BuildValue("{snsNsNsN}", "kernels", static_cast<Py_ssize_t>(artifact.num_kernels()), "launches",
                       launches.release(), "external_calls", by_op.release(), "python_calls", by_python.release());
}

PyObject* GetSignature(PyObject* self, void*) { return PyBytes(Of(self).signature().SerializeAsString()); }

PyObject* GetNumFunctions(PyObject* self, void*) { return PyLong_FromSize_t(Of(self).num_functions()); }

PyMethodDef kMethods[] = {
    {"function", GetFunction, METH_O, "function(i) -> Function: 0 is the forward or inference, 1 the backward."},
    {"info", Info, METH_NOARGS,
     "info() -> {kernels: int, launches: [int of each function], external_calls: {op: int}, python_calls: {op: int}}"},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef kGetSet[] = {
    {"signature", GetSignature, nullptr, "A serialised v1.PlanSignature.", nullptr},
    {"num_functions", GetNumFunctions, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot kSlots[] = {
    {Py_tp_doc, const_cast<char*>("A loaded artifact.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kGetSet},
    {0, nullptr},
};
PyType_Spec kSpec = {"kiln._kiln.Artifact", sizeof(PyArtifact), 0, Py_TPFLAGS_DEFAULT, kSlots};
PyMethodDef kFunctions[] = {
    {"load", Load, METH_VARARGS,
     "load(artifact: bytes, shared_object: bytes, resolve: callable, device: int = -1) -> Artifact\n\n"
     "Verifies, maps and binds, for CUDA device `device` or, where that is -1, for the CPU. resolve(op: str, schema: "
     "str) gives the callable for an operator that the C shims do "
     "not\n"
     "take: every argument by position, enums as the numbers of proto/graph.proto. RuntimeError says what is wrong."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int AddArtifact(PyObject* module) {
  g_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  if (g_type == nullptr || PyModule_AddFunctions(module, kFunctions) != 0) return -1;
  Py_INCREF(g_type);
  return PyModule_AddObject(module, "Artifact", reinterpret_cast<PyObject*>(g_type));
}

}  // namespace kiln
