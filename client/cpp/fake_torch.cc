#include "client/cpp/fake_torch.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "client/cpp/program.h"

namespace kiln {

namespace {

// As torch's StorageImpl begins: counts are the second word, strong references in its low half. Lazy clones share the
// bytes until somebody asks for them.
struct Storage {
  void* vtable = nullptr;
  std::atomic<uint64_t> counts{uint64_t{1} << 32};
  std::shared_ptr<std::vector<char>> bytes;
};

class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(std::shared_ptr<std::vector<char>> bytes) : storage_(new Storage) {
    storage_->bytes = std::move(bytes);
    ++storage_->counts;
  }
  StorageRef(const StorageRef& o) : storage_(o.storage_) {
    if (storage_ != nullptr) ++storage_->counts;
  }
  StorageRef(StorageRef&& o) noexcept : storage_(std::exchange(o.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef o) noexcept {
    std::swap(storage_, o.storage_);
    return *this;
  }
  ~StorageRef() {
    if (storage_ != nullptr && static_cast<uint32_t>(--storage_->counts) == 0) delete storage_;
  }
  Storage* operator->() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }

 private:
  Storage* storage_ = nullptr;
};

// As torch's TensorImpl begins. A copy is another tensor over the same storage.
struct Impl {
  void* vtable = nullptr;
  uint64_t counts = 0;
  StorageRef storage;
};

class ImplRef {
 public:
  ImplRef() : impl_(std::make_unique<Impl>()) {}
  ImplRef(const ImplRef& o) : impl_(std::make_unique<Impl>(*o.impl_)) {}
  ImplRef(ImplRef&&) noexcept = default;
  ImplRef& operator=(ImplRef o) noexcept {
    impl_ = std::move(o.impl_);
    return *this;
  }
  Impl* operator->() const { return impl_.get(); }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace

struct AtenTensorOpaque {
  ImplRef impl;          // its storage is null where the tensor is undefined
  char* blob = nullptr;  // memory of somebody else, instead of a storage
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  v1::DType dtype = v1::FLOAT32;
  int32_t device = 0, device_index = -1;

  const StorageRef& storage() const { return impl->storage; }
  char* base() const {
    if (blob != nullptr) return blob;
    std::shared_ptr<std::vector<char>>& bytes = impl->storage->bytes;
    if (bytes.use_count() != 1) bytes = std::make_shared<std::vector<char>>(*bytes);
    return bytes->data();
  }
  char* data() const { return base() + offset * ByteSize(dtype); }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
};

struct StableListOpaque {
  std::vector<StableIValue> items;
};

struct StableStringOpaque {
  std::string value;
};

namespace {

std::atomic<int64_t> g_live{0};
thread_local std::string t_what;
constexpr int64_t kMaxBytes = 1 << 22;

int32_t Fail(std::string what) {
  t_what = std::move(what);
  return 1;
}

TensorHandle New(AtenTensorOpaque tensor) {
  ++g_live;
  return new AtenTensorOpaque(std::move(tensor));
}

// Element offset of each element, in row-major order.
std::vector<int64_t> Offsets(const AtenTensorOpaque& t) {
  std::vector<int64_t> offsets{0};
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    std::vector<int64_t> next;
    for (int64_t o : offsets) {
      for (int64_t i = 0; i < t.sizes[d]; ++i) next.push_back(o + i * t.strides[d]);
    }
    offsets = std::move(next);
  }
  return offsets;
}

bool Extent(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, int64_t* elements) {
  int64_t last = 0;
  *elements = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0 || strides[d] < 0) return false;
  }
  for (int64_t s : sizes) {
    if (s == 0) return true;
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t step;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) || __builtin_add_overflow(last, step, &last))
      return false;
  }
  return !__builtin_add_overflow(last, 1, elements);
}

std::vector<int64_t> Contiguous(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

// Expanded tensors may have little memory but many elements.
bool TooManyElements(const std::vector<int64_t>& sizes) {
  int64_t numel = 1;
  for (int64_t s : sizes) {
    if (__builtin_mul_overflow(numel, s, &numel) || numel > kMaxBytes) return true;
  }
  return false;
}

int32_t EmptyStrided(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device,
                     int32_t index, TensorHandle* out) {
  AtenTensorOpaque t;
  t.device = device;
  t.device_index = device == 0 ? -1 : index;
  t.sizes.assign(sizes, sizes + rank);
  t.strides.assign(strides, strides + rank);
  t.dtype = static_cast<v1::DType>(dtype);
  int64_t elements = 0;
  if (!Extent(t.sizes, t.strides, &elements) || elements > kMaxBytes / ByteSize(t.dtype)) return Fail("too large");
  if (TooManyElements(t.sizes)) return Fail("too many elements");
  const auto bytes = static_cast<size_t>(elements * ByteSize(t.dtype));
  t.impl->storage = StorageRef(std::make_shared<std::vector<char>>(bytes, '\x7f'));
  *out = New(std::move(t));
  return 0;
}

int32_t Reinterpret(TensorHandle self, int64_t rank, const int64_t* sizes, const int64_t* strides, int64_t offset,
                    TensorHandle* out) {
  AtenTensorOpaque t = *self;
  t.sizes.assign(sizes, sizes + rank);
  t.strides.assign(strides, strides + rank);
  t.offset += offset;
  int64_t elements = 0;
  // Torch does not check; whoever calls must.
  if (!Extent(t.sizes, t.strides, &elements) || t.offset < 0 ||
      (elements != 0 && (t.offset + elements) * ByteSize(t.dtype) > static_cast<int64_t>(t.storage()->bytes->size()))) {
    std::abort();
  }
  if (TooManyElements(t.sizes)) return Fail("too many elements");
  *out = New(std::move(t));
  return 0;
}

int32_t AllocFromPool(TensorHandle self, int64_t offset, int32_t dtype, int64_t rank, const int64_t* sizes,
                      const int64_t* strides, TensorHandle* out) {
  if (self->offset != 0) return Fail("pool");
  AtenTensorOpaque t = *self;
  t.dtype = static_cast<v1::DType>(dtype);
  return Reinterpret(&t, rank, sizes, strides, offset / ByteSize(t.dtype), out);
}

int32_t FromBlob(void* data, int64_t rank, const int64_t* sizes, const int64_t* strides, int64_t offset, int32_t dtype,
                 int32_t device, int32_t index, TensorHandle* out, int32_t, const uint8_t*, int64_t) {
  if ((index == -1) != (device == 0)) return Fail("device index");
  AtenTensorOpaque t;
  t.device = device;
  t.device_index = index;
  t.blob = static_cast<char*>(data);
  t.sizes.assign(sizes, sizes + rank);
  if (TooManyElements(t.sizes)) return Fail("too many elements");
  t.strides.assign(strides, strides + rank);
  t.offset = offset;
  t.dtype = static_cast<v1::DType>(dtype);
  *out = New(std::move(t));
  return 0;
}

int32_t CopyInto(TensorHandle self, TensorHandle src, int32_t) {
  if (self->sizes != src->sizes) return Fail("shapes differ");
  if (self->dtype != src->dtype) return Fail("the fake torch converts nothing");
  const int64_t unit = ByteSize(self->dtype);
  const std::vector<int64_t> to = Offsets(*self), from = Offsets(*src);
  for (size_t i = 0; i < to.size() && self->numel() != 0; ++i) {
    std::memmove(self->data() + to[i] * unit, src->data() + from[i] * unit, static_cast<size_t>(unit));
  }
  return 0;
}

int32_t Delete(TensorHandle t) {
  --g_live;
  delete t;
  return 0;
}

std::vector<float> Read(const AtenTensorOpaque& t) {
  std::vector<float> values;
  if (t.numel() == 0) return values;
  for (int64_t o : Offsets(t)) {
    float v;
    std::memcpy(&v, t.data() + o * 4, 4);
    values.push_back(v);
  }
  return values;
}

AtenTensorOpaque Make(std::vector<int64_t> sizes, std::vector<int64_t> strides, const std::vector<float>& values) {
  AtenTensorOpaque t;
  t.impl->storage = StorageRef(std::make_shared<std::vector<char>>(values.size() * 4));
  if (!values.empty()) std::memcpy(t.base(), values.data(), values.size() * 4);
  t.sizes = std::move(sizes);
  t.strides = std::move(strides);
  return t;
}

bool IsMatrix(const AtenTensorOpaque& t) { return t.dtype == v1::FLOAT32 && t.sizes.size() == 2 && t.numel() < 10000; }

bool MatMul(const AtenTensorOpaque& a, const AtenTensorOpaque& b, AtenTensorOpaque* out) {
  if (!IsMatrix(a) || !IsMatrix(b) || a.sizes[1] != b.sizes[0]) return false;
  const std::vector<float> x = Read(a), y = Read(b);
  const auto m = static_cast<size_t>(a.sizes[0]), k = static_cast<size_t>(a.sizes[1]),
             n = static_cast<size_t>(b.sizes[1]);
  std::vector<float> z(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t l = 0; l < k; ++l) z[i * n + j] += x[i * k + l] * y[l * n + j];
    }
  }
  const std::vector<int64_t> sizes{a.sizes[0], b.sizes[1]};
  *out = Make(sizes, Contiguous(sizes), z);
  return true;
}

int32_t MmOut(TensorHandle out, TensorHandle a, TensorHandle b) {
  AtenTensorOpaque result;
  if (!MatMul(*a, *b, &result)) return Fail("mm: bad operands");
  return CopyInto(out, &result, 0);
}

int32_t AddmmOut(TensorHandle out, TensorHandle self, TensorHandle a, TensorHandle b, double beta, double alpha) {
  AtenTensorOpaque result;
  if (!MatMul(*a, *b, &result) || self->sizes != result.sizes || self->dtype != v1::FLOAT32) return Fail("addmm");
  std::vector<float> x = Read(*self), y = Read(result);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(beta * x[i] + alpha * y[i]);
  result = Make(result.sizes, result.strides, x);
  return CopyInto(out, &result, 0);
}

TensorHandle Tensor(StableIValue v) { return reinterpret_cast<TensorHandle>(v); }

// aten::cat(Tensor[] tensors, int dim=0) of vectors. Consumes the list.
int32_t Cat(StableIValue* stack) {
  std::unique_ptr<StableListOpaque> list(reinterpret_cast<StableList>(stack[0]));
  std::vector<float> all;
  bool ok = stack[1] == 0;
  for (StableIValue item : list->items) {
    ok &= Tensor(item)->sizes.size() == 1 && Tensor(item)->dtype == v1::FLOAT32;
    if (ok) {
      const std::vector<float> values = Read(*Tensor(item));
      all.insert(all.end(), values.begin(), values.end());
    }
    Delete(Tensor(item));
  }
  if (!ok) return Fail("cat: bad operands");
  const std::vector<int64_t> sizes{static_cast<int64_t>(all.size())};
  stack[0] = reinterpret_cast<StableIValue>(New(Make(sizes, {1}, all)));
  return 0;
}

int32_t Dispatch(const char* name, const char*, StableIValue* stack) {
  const std::string op = name;
  if (op == "aten::cat") return Cat(stack);
  if (op == "test::none") {  // test::none(int i) -> (Tensor, Tensor): both undefined
    stack[0] = reinterpret_cast<StableIValue>(New({}));
    stack[1] = reinterpret_cast<StableIValue>(New({}));
    return 0;
  }
  if (op == "test::transposed") {  // test::transposed(Tensor self) -> Tensor: a copy in column-major order
    OwnedTensor self(&FakeTorch(), Tensor(stack[0]));
    const AtenTensorOpaque& t = *self.get();
    if (!IsMatrix(t)) return Fail("transposed: bad operand");
    AtenTensorOpaque flat = Make(t.sizes, {1, t.sizes[0]}, std::vector<float>(static_cast<size_t>(t.numel())));
    CopyInto(&flat, self.get(), 0);
    stack[0] = reinterpret_cast<StableIValue>(New(std::move(flat)));
    return 0;
  }
  if (op == "aten::_lazy_clone") {
    OwnedTensor self(&FakeTorch(), Tensor(stack[0]));
    AtenTensorOpaque clone = *self.get();
    clone.impl->storage = StorageRef(self.get()->storage()->bytes);
    stack[0] = reinterpret_cast<StableIValue>(New(std::move(clone)));
    return 0;
  }
  return Fail(op == "test::fails" ? "index 9 is out of bounds for dimension 0 with size 3" : "no such op: " + op);
}

int32_t Dispatch2(const char* name, const char* overload, StableIValue* stack, uint64_t) {
  return Dispatch(name, overload, stack);
}

// Chunks of `grain`, on threads of their own.
int32_t ParallelFor(int64_t begin, int64_t end, int64_t grain, ParallelBody* body, void* context) {
  std::vector<std::thread> threads;
  const int64_t chunk = std::max(grain, (end - begin + 3) / 4);
  for (int64_t i = begin; i < end; i += chunk) threads.emplace_back(body, i, std::min(i + chunk, end), context);
  for (std::thread& t : threads) t.join();
  return 0;
}

thread_local bool t_grad = true;

void FillTensors(TorchApi* api) {
  api->abi_version = [] { return uint64_t{0x020d000000000000}; };
  api->data_ptr = [](TensorHandle t, void** out) { return *out = t->data(), 0; };
  api->sizes = [](TensorHandle t, int64_t** out) { return *out = t->sizes.data(), 0; };
  api->strides = [](TensorHandle t, int64_t** out) { return *out = t->strides.data(), 0; };
  api->dim = [](TensorHandle t, int64_t* out) { return *out = static_cast<int64_t>(t->sizes.size()), 0; };
  api->dtype = [](TensorHandle t, int32_t* out) { return *out = t->dtype, 0; };
  api->device_type = [](TensorHandle t, int32_t* out) { return *out = t->device, 0; };
  api->device_index = [](TensorHandle t, int32_t* out) { return *out = t->device_index, 0; };
  api->storage_offset = [](TensorHandle t, int64_t* out) { return *out = t->offset, 0; };
  api->storage_size = [](TensorHandle t, int64_t* out) {
    return *out = static_cast<int64_t>(t->storage()->bytes->size()), 0;
  };
  api->is_defined = [](TensorHandle t, bool* out) { return *out = t->storage() || t->blob != nullptr, 0; };
  api->new_handle = [](TensorHandle t, TensorHandle* out) { return *out = New(*t), 0; };
  api->delete_tensor = Delete;
  api->empty_strided = EmptyStrided;
  api->reinterpret_tensor = Reinterpret;
  api->alloc_from_pool = AllocFromPool;
  api->from_blob = FromBlob;
  api->copy_ = CopyInto;
}

void FillCalls(TorchApi* api) {
  api->call_dispatcher_v1 = Dispatch;
  api->call_dispatcher = Dispatch2;
  api->grad_mode_is_enabled = [] { return t_grad; };
  api->grad_mode_set_enabled = [](bool on) { t_grad = on; };
  api->exception_what = []() -> const char* { return t_what.c_str(); };
  api->parallel_for = ParallelFor;
  api->num_threads = [](uint32_t* out) { return *out = 4, 0; };
  api->new_list = [](size_t, StableList* out) { return *out = new StableListOpaque, 0; };
  api->list_push_back = [](StableList list, StableIValue v) { return list->items.push_back(v), 0; };
  api->list_size = [](StableList list, size_t* out) { return *out = list->items.size(), 0; };
  api->list_get = [](StableList list, size_t i, StableIValue* out) { return *out = list->items[i], 0; };
  api->delete_list = [](StableList list) { return delete list, 0; };
  api->out_shims[v1::CPU].mm_out = MmOut;
  api->out_shims[v1::CPU].addmm_out = AddmmOut;
  api->current_cuda_stream = [](int32_t index, void** out) { return *out = FakeStream(index), 0; };
}

}  // namespace

const TorchApi& FakeTorch() {
  static const TorchApi* const api = [] {
    auto* a = new TorchApi;
    FillTensors(a);
    FillCalls(a);
    for (int i = 0; i < v1::DType_ARRAYSIZE; ++i) a->dtype_code[static_cast<size_t>(i)] = i;
    a->device_code[v1::CUDA] = 1;
    a->memory_format_code = {0, 1, 2, 3};
    return a;
  }();
  return *api;
}

bool FakeHasOperator(const std::string& op, const std::string& schema) {
  static const auto* const known = new std::map<std::string, std::string>{
      {"aten.mm.default", "aten::mm(Tensor self, Tensor mat2) -> Tensor"},
      {"aten.addmm.default",
       "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"},
      {"aten.cat.default", "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"},
      {"test.none.default", "test::none(int i) -> (Tensor, Tensor)"},
      {"test.transposed.default", "test::transposed(Tensor self) -> Tensor"},
      {"test.fails.default", "test::fails() -> ()"},
  };
  const auto found = known->find(op);
  return found != known->end() && found->second == schema;
}

int64_t FakeTensorCount() { return g_live; }

OwnedTensor FakeTensor(std::vector<int64_t> sizes, std::vector<float> values) {
  std::vector<int64_t> strides = Contiguous(sizes);
  return FakeStrided(std::move(sizes), std::move(strides), std::move(values));
}

OwnedTensor FakeStrided(std::vector<int64_t> sizes, std::vector<int64_t> strides, std::vector<float> values) {
  return OwnedTensor(&FakeTorch(), New(Make(std::move(sizes), std::move(strides), values)));
}

void* FakeStream(int32_t device) { return reinterpret_cast<void*>(intptr_t{0x5000} + device); }

OwnedTensor FakeOnGpu(int32_t device, std::vector<int64_t> sizes, std::vector<float> values) {
  OwnedTensor tensor = FakeTensor(std::move(sizes), std::move(values));
  tensor.get()->device = 1;
  tensor.get()->device_index = device;
  return tensor;
}

std::vector<float> FakeValues(TensorHandle tensor) { return Read(*tensor); }

void FakeResize(TensorHandle tensor, size_t bytes) { tensor->storage()->bytes->resize(bytes); }

void FakeRehome(TensorHandle tensor) {
  std::shared_ptr<std::vector<char>>& bytes = tensor->storage()->bytes;
  bytes = std::make_shared<std::vector<char>>(*bytes);
}

void FakeWeakReference(TensorHandle tensor, int change) {
  tensor->storage()->counts += static_cast<uint64_t>(static_cast<int64_t>(change)) << 32;
}

void FakePythonObject(TensorHandle tensor, bool has) {
  const uint64_t object = (uint64_t{1} << 63) + 1;
  tensor->storage()->counts += has ? object : -object;
}

}  // namespace kiln
