// What all files of the extension share. Limited API of CPython 3.10: one binary for every later version.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace kiln {

// An owned reference. Used with the GIL held.
class PyRef {
 public:
  explicit PyRef(PyObject* owned = nullptr) : object_(owned) {}
  PyRef(PyRef&& o) noexcept : object_(o.release()) {}
  PyRef& operator=(PyRef&& o) noexcept {
    std::swap(object_, o.object_);
    return *this;
  }
  ~PyRef() { Py_XDECREF(object_); }

  static PyRef Borrow(PyObject* object) {
    Py_XINCREF(object);
    return PyRef(object);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

inline PyObject* PyBytes(std::string_view s) {
  return PyBytes_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}
inline PyObject* PyString(std::string_view s) {
  return PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace");
}

// Sets the exception that stands for `status` and returns nullptr: IndexError for OutOfRange, else RuntimeError.
PyObject* RaiseStatus(const absl::Status& status);

// Runs `body` (returning a PyObject* or an int) so that no C++ exception leaves it: `failed` is returned instead, with
// a Python exception set.
template <typename Body, typename Result>
Result Guarded(Body body, Result failed) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return failed;
}

// Makes the heap types; 0, or -1 with an exception set. Each adds what is public to the module.
int AddClient(PyObject* module);
int AddArtifact(PyObject* module);
int AddFunction(PyObject* module);
PyObject* PyWrittenApart(PyObject*, PyObject* args);

}  // namespace kiln
