#include "client/cpp/py_call.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// "ValueError: …" of the exception that is set, which it takes; empty if there is none.
std::string TakeMessage(PyRef* exception) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  if (type == nullptr) return "";
  PyErr_NormalizeException(&type, &value, &traceback);
  const PyRef own_type(type), own_traceback(traceback);
  PyRef own_value(value);
  if (value != nullptr && traceback != nullptr) PyException_SetTraceback(value, traceback);
  const PyRef text(value == nullptr ? nullptr : PyObject_Str(value));
  const PyRef bytes(text ? PyUnicode_AsUTF8String(text.get()) : nullptr);
  const char* message = bytes ? PyBytes_AsString(bytes.get()) : nullptr;
  PyErr_Clear();
  *exception = std::move(own_value);
  return message == nullptr ? "an exception" : message;
}

// An operator that Python calls. Destroyed with the GIL held.
class PyCall : public ForeignCall {
 public:
  PyCall(const PyTorch* torch, PyRef callable) : torch_(torch), callable_(std::move(callable)) {}

  absl::Status Run(const ExternalCall& call, const CallContext& context, std::vector<TensorHandle>* results) override {
    PyRef result;
    const PyRef args = Arguments(call, context);
    if (args) result = PyRef(PyObject_CallObject(callable_.get(), args.get()));
    if (result && TakeResults(result.get(), results)) return absl::OkStatus();
    static_cast<PyThread*>(context.host)->Keep();
    return absl::InternalError(absl::StrCat(call.op, " (node ", call.origin, ")"));
  }

 private:
  PyRef Arguments(const ExternalCall& call, const CallContext& context) const {
    PyRef args(PyTuple_New(static_cast<Py_ssize_t>(call.args.size())));
    for (size_t i = 0; args && i < call.args.size(); ++i) {
      PyObject* arg = Argument(call, call.args[i], context);
      if (arg == nullptr) return PyRef();
      PyTuple_SetItem(args.get(), static_cast<Py_ssize_t>(i), arg);
    }
    return args;
  }

  // A new reference; nullptr with an exception set.
  PyObject* Argument(const ExternalCall& call, const CallArg& arg, const CallContext& context) const {
    switch (arg.kind) {
      case CallArg::Kind::kNone:
      case CallArg::Kind::kUndefined:
        Py_RETURN_NONE;
      case CallArg::Kind::kTensor: {
        TensorHandle handle = nullptr;
        if (torch_->api().new_handle(context.tensors[arg.index], &handle) != 0) {
          return RaiseStatus(torch_->api().Error("new_tensor_handle"));
        }
        return torch_->Wrap(handle);
      }
      case CallArg::Kind::kSym:
        return PyLong_FromLongLong(context.slots[arg.index]);
      case CallArg::Kind::kFloat:
        return PyFloat_FromDouble(arg.f);
      case CallArg::Kind::kBool:
        return PyBool_FromLong(arg.i != 0);
      case CallArg::Kind::kString:
        return PyString(arg.s);
      case CallArg::Kind::kList: {
        PyRef list(PyList_New(arg.i));
        for (int64_t k = 0; list && k < arg.i; ++k) {
          PyObject* item = Argument(call, call.items[arg.index + static_cast<size_t>(k)], context);
          if (item == nullptr) return nullptr;
          PyList_SetItem(list.get(), k, item);
        }
        return list.release();
      }
      default:  // integers, and enums by number
        return PyLong_FromLongLong(arg.i);
    }
  }

  // Tuples and lists, one in the other, item by item.
  bool TakeResults(PyObject* result, std::vector<TensorHandle>* results) const {
    if (PyTuple_Check(result) || PyList_Check(result)) {
      const Py_ssize_t size = PySequence_Size(result);
      for (Py_ssize_t i = 0; i < size; ++i) {
        const PyRef item(PySequence_GetItem(result, i));
        if (!item) return false;
        if (PyTuple_Check(item.get()) || PyList_Check(item.get())) {
          for (Py_ssize_t k = 0; k < PySequence_Size(item.get()); ++k) {
            const PyRef inner(PySequence_GetItem(item.get(), k));
            if (!inner || !TakeResult(inner.get(), results)) return false;
          }
        } else if (!TakeResult(item.get(), results)) {
          return false;
        }
      }
      return true;
    }
    return TakeResult(result, results);
  }

  bool TakeResult(PyObject* item, std::vector<TensorHandle>* results) const {
    TensorHandle handle = nullptr;
    if (torch_->IsTensor(item)) {
      handle = torch_->Own(item);
      if (handle == nullptr) return false;
    }
    results->push_back(handle);
    return true;
  }

  const PyTorch* torch_;
  PyRef callable_;
};

}  // namespace

PyObject* RaiseStatus(const absl::Status& status) {
  PyObject* type = absl::IsOutOfRange(status) ? PyExc_IndexError : PyExc_RuntimeError;
  PyErr_SetString(type, std::string(status.message()).c_str());
  return nullptr;
}

PyThread::~PyThread() = default;

void PyThread::Keep() { static_cast<void>(TakeMessage(&exception_)); }

PyObject* PyThread::Raise(const absl::Status& status) {
  if (!exception_) return RaiseStatus(status);
  PyObject* cause = exception_.get();
  if (PyObject_IsInstance(cause, PyExc_Exception) != 1) {  // KeyboardInterrupt and the like stay what they are
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(cause)), cause);
    return nullptr;
  }
  const PyRef text(PyObject_Str(cause));
  PyObject* type = PyObject_IsInstance(cause, PyExc_IndexError) == 1 ? PyExc_IndexError : PyExc_RuntimeError;
  const PyRef error(PyObject_CallFunction(
      type, "N", PyUnicode_FromFormat("%s: %S", std::string(status.message()).c_str(), text ? text.get() : Py_None)));
  if (!error) return nullptr;
  PyException_SetCause(error.get(), exception_.release());
  PyErr_SetObject(type, error.get());
  return nullptr;
}

absl::StatusOr<std::unique_ptr<ForeignCall>> PyOps::Resolve(const ExternalCall& call) {
  PyRef& callable = known_[{call.op, call.schema_text}];
  if (!callable) callable = PyRef(PyObject_CallFunction(resolve_, "ss", call.op.c_str(), call.schema_text.c_str()));
  if (callable && PyCallable_Check(callable.get())) {
    return std::make_unique<PyCall>(torch_, PyRef::Borrow(callable.get()));
  }
  PyRef exception;
  const std::string why = TakeMessage(&exception);
  return absl::NotFoundError(why.empty() ? "it resolved to something that cannot be called" : why);
}

}  // namespace kiln
