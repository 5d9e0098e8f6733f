// kiln._kiln.written_apart.
#include <vector>

#include "client/cpp/overlap.h"
#include "client/cpp/program.h"
#include "client/cpp/py_common.h"
#include "client/cpp/py_torch.h"

namespace kiln {
namespace {

int64_t ElementBytes(const TorchApi& api, int32_t dtype) {
  for (size_t d = 0; d < api.dtype_code.size(); ++d) {
    if (api.dtype_code[d] == dtype) return ByteSize(static_cast<v1::DType>(d));
  }
  return 16;  // of the widest there is
}

// From its first to its last element; false with an exception set.
bool RangeOf(const TorchApi& api, TensorHandle tensor, MemoryRange* range) {
  void* data;
  int64_t *sizes, *strides, dim;
  int32_t dtype;
  if ((api.data_ptr(tensor, &data) | api.sizes(tensor, &sizes) | api.strides(tensor, &strides) | api.dim(tensor, &dim) |
       api.dtype(tensor, &dtype)) != 0) {
    RaiseStatus(api.Error("reading an input"));
    return false;
  }
  int64_t elements = 1;
  for (int64_t d = 0; d < dim; ++d)
    elements = sizes[d] == 0 ? 0 : elements == 0 ? 0 : elements + (sizes[d] - 1) * strides[d];
  range->begin = reinterpret_cast<uintptr_t>(data);
  range->end = range->begin + static_cast<uintptr_t>(elements * ElementBytes(api, dtype));
  return true;
}

}  // namespace

PyObject* PyWrittenApart(PyObject*, PyObject* args) {
  PyObject *inputs, *written;
  if (!PyArg_ParseTuple(args, "O!O!:written_apart", &PyTuple_Type, &inputs, &PyTuple_Type, &written)) return nullptr;
  return Guarded(
      [&]() -> PyObject* {
        const PyTorch* torch = PyTorch::Get();
        if (torch == nullptr) return nullptr;
        std::vector<MemoryRange> ranges(static_cast<size_t>(PyTuple_Size(inputs)));
        for (size_t i = 0; i < ranges.size(); ++i) {
          PyObject* input = PyTuple_GetItem(inputs, static_cast<Py_ssize_t>(i));
          if (!torch->IsTensor(input)) continue;
          const bool borrowed = torch->borrows_handles();
          OwnedTensor owned(&torch->api(), borrowed ? nullptr : torch->Own(input));
          if (!borrowed && owned.get() == nullptr) return nullptr;
          if (!RangeOf(torch->api(), borrowed ? torch->Borrow(input) : owned.get(), &ranges[i])) return nullptr;
        }
        for (Py_ssize_t i = 0; i < PyTuple_Size(written); ++i) {
          const size_t position = PyLong_AsSize_t(PyTuple_GetItem(written, i));
          if (position >= ranges.size()) {
            if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_IndexError, "written_apart: no such input");
            return nullptr;
          }
          ranges[position].written = true;
        }
        return PyBool_FromLong(WrittenApart(ranges));
      },
      static_cast<PyObject*>(nullptr));
}

}  // namespace kiln
