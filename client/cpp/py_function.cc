#include "client/cpp/py_function.h"

#include <structmember.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "client/cpp/py_call.h"

// In the limited API from 3.12 on, in this form since 3.9.
extern "C" PyObject* PyVectorcall_Call(PyObject* callable, PyObject* args, PyObject* kwargs);

namespace kiln {
namespace {

using VectorcallFn = PyObject* (*)(PyObject* self, PyObject* const* args, size_t nargs, PyObject* names);
constexpr unsigned long kHasVectorcall = 1UL << 11;                         // Py_TPFLAGS_HAVE_VECTORCALL
constexpr size_t kArgumentsOffset = size_t{1} << (8 * sizeof(size_t) - 1);  // PY_VECTORCALL_ARGUMENTS_OFFSET

struct PyFunction {
  PyObject_HEAD;
  VectorcallFn vectorcall;
  PyObject* dict;  // holds _boxed_call, so that wrappers that copy a function's __dict__ keep it
  PyObject* artifact;
  Function* function;
};

PyTypeObject* g_type = nullptr;

// One call, from the list of arguments to the list of results.
class BoxedCall {
 public:
  BoxedCall(const PyTorch& torch, Function& function)
      : torch_(torch), program_(function.program()), function_(function), frame_(function.AcquireFrame()) {}
  ~BoxedCall() {
    for (void* reference : frame_->references) Py_XDECREF(static_cast<PyObject*>(reference));
    frame_->references.clear();
    function_.ReleaseFrame(std::move(frame_));
  }

  PyObject* Run(PyObject* list) {
    if (!ReadArguments(list)) return nullptr;
    if (const absl::Status s = function_.Bind(*frame_); !s.ok()) return RaiseStatus(s);
    if (!TakeArguments(list)) return nullptr;
    PyThread thread;
    if (const absl::Status s = function_.Run(*frame_, &thread); !s.ok()) return thread.Raise(s);
    return Results();
  }

 private:
  bool ReadArguments(PyObject* list) {
    const Py_ssize_t want = static_cast<Py_ssize_t>(program_.inputs.size());
    if (!PyList_Check(list) || PyList_Size(list) != want) {
      PyErr_Format(PyExc_TypeError, "%s takes one list of %zd arguments", program_.name.c_str(), want);
      return false;
    }
    for (Py_ssize_t i = 0; i < want; ++i) {
      if (!ReadArgument(PyList_GetItem(list, i), static_cast<uint32_t>(i))) return false;
    }
    return true;
  }

  bool ReadArgument(PyObject* object, uint32_t i) {
    if (program_.inputs[i].is_symbol) {
      const long long value = PyLong_AsLongLong(object);
      frame_->symbols[program_.inputs[i].symbol] = value;
      return value != -1 || PyErr_Occurred() == nullptr;
    }
    if (!torch_.IsTensor(object)) {
      PyErr_Format(PyExc_TypeError, "%s: argument %u is not a tensor", program_.name.c_str(), i);
      return false;
    }
    if (torch_.borrows_handles()) {
      frame_->tensors[i] = torch_.Borrow(object);
      return true;
    }
    const TensorHandle handle = torch_.Own(object);
    if (handle != nullptr) frame_->Set(i, handle);
    return handle != nullptr;
  }

  // Takes the arguments over from the list and clears it. A long call owns tensors that it can give back before its
  // end itself, so that they die early; a short one keeps the Python objects, which is cheaper.
  bool TakeArguments(PyObject* list) {
    frame_->references.resize(program_.inputs.size());
    for (uint32_t i = 0; i < program_.inputs.size(); ++i) {
      const Program::Input& input = program_.inputs[i];
      frame_->references[i] = nullptr;
      if (input.is_symbol) continue;
      if (frame_->long_call && input.released) {
        frame_->Own(i);
      } else {
        PyObject* object = PyList_GetItem(list, static_cast<Py_ssize_t>(i));
        Py_INCREF(object);
        frame_->references[i] = object;
      }
    }
    return PyList_SetSlice(list, 0, static_cast<Py_ssize_t>(program_.inputs.size()), nullptr) == 0;
  }

  PyObject* Results() {
    PyRef list(PyList_New(static_cast<Py_ssize_t>(program_.outputs.size())));
    for (size_t i = 0; list && i < program_.outputs.size(); ++i) {
      PyObject* result = Result(list.get(), program_.outputs[i], i);
      if (result == nullptr) return nullptr;
      PyList_SetItem(list.get(), static_cast<Py_ssize_t>(i), result);
    }
    return list.release();
  }

  PyObject* Result(PyObject* list, const Program::Output& output, size_t i) {
    if (output.kind == Program::Output::Kind::kNone) Py_RETURN_NONE;
    if (output.kind == Program::Output::Kind::kSize) return PyLong_FromLongLong(frame_->slots[output.index]);
    PyObject* known = nullptr;
    if (output.same_as != i) known = PyList_GetItem(list, static_cast<Py_ssize_t>(output.same_as));
    // An argument goes back as the very object.
    if (output.index < program_.inputs.size()) known = static_cast<PyObject*>(frame_->references[output.index]);
    if (known == nullptr) return torch_.Wrap(frame_->Take(output.index));
    Py_INCREF(known);
    return known;
  }

  const PyTorch& torch_;
  const Program& program_;
  Function& function_;
  std::unique_ptr<Frame> frame_;
};

PyObject* Vectorcall(PyObject* self, PyObject* const* args, size_t nargs, PyObject* names) {
  const PyTorch* torch = PyTorch::Get();
  if (torch == nullptr) return nullptr;
  if ((nargs & ~kArgumentsOffset) != 1 || names != nullptr) {
    PyErr_SetString(PyExc_TypeError, "a compiled function takes one list, by position");
    return nullptr;
  }
  Function& function = *reinterpret_cast<PyFunction*>(self)->function;
  return Guarded([&] { return BoxedCall(*torch, function).Run(args[0]); }, static_cast<PyObject*>(nullptr));
}

void Dealloc(PyObject* self) {
  auto* f = reinterpret_cast<PyFunction*>(self);
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(f->dict);
  Py_XDECREF(f->artifact);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* GetName(PyObject* self, void*) {
  return PyString(reinterpret_cast<PyFunction*>(self)->function->program().name);
}

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PyFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(PyFunction, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef kGetSet[] = {
    // What wraps a function (functools.wraps) copies its __dict__, and with it _boxed_call.
    {"__dict__", PyObject_GenericGetDict, nullptr, nullptr, nullptr},
    {"__name__", GetName, nullptr, "\"forward\", \"backward\" or \"inference\"", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot kSlots[] = {
    {Py_tp_doc, const_cast<char*>("A compiled function: takes one list, clears it, returns a list.")},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_members, kMembers},
    {Py_tp_getset, kGetSet},
    {0, nullptr},
};
PyType_Spec kSpec = {"kiln._kiln.Function", sizeof(PyFunction), 0, Py_TPFLAGS_DEFAULT | kHasVectorcall, kSlots};

}  // namespace

PyObject* NewFunction(Function* function, PyObject* artifact) {
  PyRef dict(Py_BuildValue("{sO}", "_boxed_call", Py_True));
  if (!dict) return nullptr;
  auto* f = PyObject_New(PyFunction, g_type);
  if (f == nullptr) return nullptr;
  f->vectorcall = Vectorcall;
  f->dict = dict.release();
  f->artifact = artifact;
  Py_INCREF(artifact);
  f->function = function;
  return reinterpret_cast<PyObject*>(f);
}

int AddFunction(PyObject* module) {
  g_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  if (g_type == nullptr) return -1;
  Py_INCREF(g_type);
  return PyModule_AddObject(module, "Function", reinterpret_cast<PyObject*>(g_type));
}

}  // namespace kiln
