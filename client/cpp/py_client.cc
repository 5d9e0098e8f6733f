// kiln._kiln.Client and kiln._kiln.RpcError.
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "client/cpp/py_common.h"
#include "client/cpp/rpc.h"

namespace kiln {
namespace {

struct PyClient {
  PyObject_HEAD;
  Client* client;
};

PyTypeObject* g_type = nullptr;
PyObject* g_error = nullptr;

Client& Of(PyObject* self) { return *reinterpret_cast<PyClient*>(self)->client; }

// Sets attributes of an exception; steals the values.
bool SetAttribute(PyObject* object, const char* name, PyObject* stolen) {
  const PyRef value(stolen);
  return value && PyObject_SetAttrString(object, name, value.get()) == 0;
}

PyObject* RaiseRpcError(const absl::Status& status) {
  const std::string name = absl::StatusCodeToString(status.code());
  const std::optional<v1::Failure> failure = FailureOf(status);
  const std::string message(status.message());
  const PyRef error(PyObject_CallFunction(g_error, "N", PyString(name + ": " + message)));
  if (!error || !SetAttribute(error.get(), "code", PyLong_FromLong(status.raw_code())) ||
      !SetAttribute(error.get(), "name", PyString(name)) || !SetAttribute(error.get(), "message", PyString(message)) ||
      !SetAttribute(error.get(), "node", PyLong_FromLongLong(failure ? failure->node() : -1)) ||
      !SetAttribute(error.get(), "details", PyBytes(failure ? failure->SerializeAsString() : ""))) {
    return nullptr;
  }
  PyErr_SetObject(g_error, error.get());
  return nullptr;
}

// A call in which the GIL is given up, taken back now and then to look for signals, and for events. Once an exception
// is set, Python is left alone and the call cancelled.
class WaitingCall {
 public:
  explicit WaitingCall(double timeout_s) {
    if (std::isfinite(timeout_s)) options_.deadline = absl::Now() + absl::Seconds(timeout_s);
    options_.cancelled = [this] { return failed_ || !WithGil([] { return PyErr_CheckSignals() == 0; }); };
  }

  // call(options) without the GIL.
  template <typename Call>
  auto Run(Call call) {
    thread_ = PyEval_SaveThread();
    try {
      auto result = call(options_);
      PyEval_RestoreThread(thread_);
      return result;
    } catch (...) {
      PyEval_RestoreThread(thread_);
      throw;
    }
  }

  void OnEvent(PyObject* callable, const v1::CompileEvent& event) {
    const std::string bytes = event.SerializeAsString();
    if (!failed_)
      WithGil([&] { return static_cast<bool>(PyRef(PyObject_CallFunction(callable, "N", PyBytes(bytes)))); });
  }

  // What to return for a failed call.
  PyObject* Raise(const absl::Status& status) const { return failed_ ? nullptr : RaiseRpcError(status); }
  bool failed() const { return failed_; }

 private:
  template <typename Body>
  bool WithGil(Body body) {
    PyEval_RestoreThread(thread_);
    if (!body()) failed_ = true;
    thread_ = PyEval_SaveThread();
    return !failed_;
  }

  CallOptions options_;
  PyThreadState* thread_ = nullptr;
  bool failed_ = false;  // an exception is set in the thread
};

// Parses "y#d" arguments' bytes; false with ValueError set.
template <typename Request>
bool ParseRequest(const char* data, Py_ssize_t size, Request* request) {
  if (request->ParseFromArray(data, static_cast<int>(size))) return true;
  PyErr_Format(PyExc_ValueError, "not a serialised %s", std::string(Request::descriptor()->full_name()).c_str());
  return false;
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject*) {
  const char* address;
  if (!PyArg_ParseTuple(args, "s:Client", &address)) return nullptr;
  auto* self = PyObject_New(PyClient, type);
  if (self == nullptr) return nullptr;
  self->client = new Client(address);
  return reinterpret_cast<PyObject*>(self);
}

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete &Of(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* Capabilities(PyObject* self, PyObject* args) {
  double timeout_s;
  if (!PyArg_ParseTuple(args, "d:capabilities", &timeout_s)) return nullptr;
  return Guarded(
      [&]() -> PyObject* {
        WaitingCall call(timeout_s);
        const auto reply = call.Run([&](const CallOptions& options) { return Of(self).GetCapabilities(options); });
        if (!reply.ok() || call.failed()) return call.Raise(reply.status());
        return PyBytes(reply->SerializeAsString());
      },
      static_cast<PyObject*>(nullptr));
}

PyObject* Compile(PyObject* self, PyObject* args) {
  const char* data;
  Py_ssize_t size;
  double timeout_s;
  PyObject* on_event = Py_None;
  if (!PyArg_ParseTuple(args, "y#d|O:compile", &data, &size, &timeout_s, &on_event)) return nullptr;
  return Guarded(
      [&]() -> PyObject* {
        v1::CompileRequest request;
        if (!ParseRequest(data, size, &request)) return nullptr;
        WaitingCall call(timeout_s);
        std::function<void(const v1::CompileEvent&)> events;
        if (on_event != Py_None) events = [&](const v1::CompileEvent& event) { call.OnEvent(on_event, event); };
        const auto done =
            call.Run([&](const CallOptions& options) { return Of(self).Compile(request, options, events); });
        if (!done.ok() || call.failed()) return call.Raise(done.status());
        return PyBytes(done->SerializeAsString());
      },
      static_cast<PyObject*>(nullptr));
}

// A request's bytes and a time limit in, the reply's bytes out.
template <typename Request, typename Method>
PyObject* CallUnary(PyObject* self, PyObject* args, const char* format, Method method) {
  const char* data;
  Py_ssize_t size;
  double timeout_s;
  if (!PyArg_ParseTuple(args, format, &data, &size, &timeout_s)) return nullptr;
  return Guarded(
      [&]() -> PyObject* {
        Request request;
        if (!ParseRequest(data, size, &request)) return nullptr;
        WaitingCall call(timeout_s);
        const auto reply = call.Run([&](const CallOptions& options) { return (Of(self).*method)(request, options); });
        if (!reply.ok() || call.failed()) return call.Raise(reply.status());
        return PyBytes(reply->SerializeAsString());
      },
      static_cast<PyObject*>(nullptr));
}

PyObject* Lookup(PyObject* self, PyObject* args) {
  return CallUnary<v1::LookupRequest>(self, args, "y#d:lookup", &Client::Lookup);
}

PyObject* PutCallSpec(PyObject* self, PyObject* args) {
  return CallUnary<v1::PutCallSpecRequest>(self, args, "y#d:put_call_spec", &Client::PutCallSpec);
}

PyObject* Reset(PyObject* self, PyObject*) {
  Of(self).Reset();
  Py_RETURN_NONE;
}

PyObject* GetAddress(PyObject* self, void*) { return PyString(Of(self).address()); }

PyMethodDef kMethods[] = {
    {"capabilities", Capabilities, METH_VARARGS, "capabilities(timeout_s: float) -> bytes: a v1.Capabilities."},
    {"compile", Compile, METH_VARARGS,
     "compile(request: bytes, timeout_s: float, on_event: callable | None = None) -> bytes\n\n"
     "A v1.Done with both blobs, for a v1.CompileRequest. on_event gets each v1.CompileEvent before it, serialised; "
     "an\n"
     "exception in it cancels the call."},
    {"lookup", Lookup, METH_VARARGS,
     "lookup(request: bytes, timeout_s: float) -> bytes\n\nA v1.LookupReply for a v1.LookupRequest; on a hit with both "
     "blobs."},
    {"put_call_spec", PutCallSpec, METH_VARARGS,
     "put_call_spec(request: bytes, timeout_s: float) -> bytes\n\nA v1.PutCallSpecReply for a v1.PutCallSpecRequest."},
    {"reset", Reset, METH_NOARGS, "Drops the connection; the next call makes one."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef kGetSet[] = {
    {"address", GetAddress, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot kSlots[] = {
    {Py_tp_doc,
     const_cast<char*>(
         "Client(address: str): \"unix:/path\" or \"host:port\".\n\nThread-safe; connects at the first call; "
         "after a fork the child has a connection of its own. Errors are RpcError.")},
    {Py_tp_new, reinterpret_cast<void*>(New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
    {Py_tp_methods, kMethods},
    {Py_tp_getset, kGetSet},
    {0, nullptr},
};
PyType_Spec kSpec = {"kiln._kiln.Client", sizeof(PyClient), 0, Py_TPFLAGS_DEFAULT, kSlots};

constexpr char kErrorDoc[] =
    "A call to a server failed. code: int and name: str of the status (\"UNAVAILABLE\"), message: str, node: int of "
    "the\n"
    "graph or -1, details: bytes, a serialised v1.Failure if the server sent one.";

}  // namespace

int AddClient(PyObject* module) {
  g_error = PyErr_NewExceptionWithDoc("kiln._kiln.RpcError", kErrorDoc, PyExc_RuntimeError, nullptr);
  g_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kSpec));
  if (g_error == nullptr || g_type == nullptr) return -1;
  Py_INCREF(g_error);
  Py_INCREF(g_type);
  if (PyModule_AddObject(module, "RpcError", g_error) != 0) return -1;
  return PyModule_AddObject(module, "Client", reinterpret_cast<PyObject*>(g_type));
}

}  // namespace kiln
