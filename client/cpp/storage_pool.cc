#include "client/cpp/storage_pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr int64_t kHugePage = 2 << 20;
constexpr size_t kProbes = 8;
constexpr int kMaxBusyLooks = 64;
constexpr int64_t kLookMicroseconds = 1'000'000;
constexpr size_t kBasesAMiss = 256;  // that a miss pays for looking at

// Huge pages make streaming kernels faster, but a fresh one may cost a virtual machine milliseconds: its memory may
// have gone back to the host. So only memory that is used again asks for them: what is there stays until the kernel's
// khugepaged has gathered it in the background. Advice only: the tensor stays an ordinary one.
void UseHugePages(void* data, int64_t bytes) {
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) & ~static_cast<uintptr_t>(kHugePage - 1);
  const uintptr_t end =
      (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)) & ~static_cast<uintptr_t>(kHugePage - 1);
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

// --- torch's layout ---
//
//   at::Tensor   { TensorImpl* }
//   TensorImpl   { vtable; counts; StorageImpl*; … }
//   StorageImpl  { vtable; counts; … }
//
// counts is one atomic word: strong references in the low half; in the high half weak ones, all strong ones together
// being one of them, and the highest bit for a Python object. That object has a strong reference, and lives as long as
// there is another one: whether Python still has it cannot be told.
constexpr uint64_t kUnique = (uint64_t{1} << 32) | 1;
constexpr uint64_t kPython = uint64_t{1} << 63;

char* StorageOf(TensorHandle tensor) { return (*reinterpret_cast<char***>(tensor))[2]; }

// Orders what the last other holder did before what follows, as the release of its reference does in torch.
uint64_t Counts(char* storage) { return __atomic_load_n(reinterpret_cast<uint64_t*>(storage + 8), __ATOMIC_ACQUIRE); }

absl::Status Refuse(const char* what) {
  return absl::FailedPreconditionError(absl::StrCat("this torch's storages have another layout: ", what));
}

// Three tensors, two of them over one storage, tell whether the layout is as above.
class LayoutCheck {
 public:
  explicit LayoutCheck(const TorchApi& api) : api_(api), whole_(&api), part_(&api), other_(&api), clone_(&api) {}

  absl::Status Run() {
    const int64_t size = 64, part = 8, one = 1, two = 2;
    const int32_t f32 = api_.dtype_code[v1::FLOAT32];
    for (OwnedTensor* t : {&whole_, &other_}) {
      if (api_.empty_strided(1, &size, &one, f32, api_.device_code[v1::CPU], 0, t->out()) != 0) return Error();
    }
    if (api_.reinterpret_tensor(whole_.get(), 1, &part, &two, 4, part_.out()) != 0) return Error();
    if (absl::Status s = Storages(); !s.ok()) return s;
    if (absl::Status s = References(); !s.ok()) return s;
    return LazyClones();
  }

 private:
  absl::Status Error() const { return Refuse(api_.What().c_str()); }

  absl::Status Storages() {
    char *whole = StorageOf(whole_.get()), *part = StorageOf(part_.get()), *other = StorageOf(other_.get());
    void *data = nullptr, *part_data = nullptr;
    int64_t bytes = 0, part_bytes = 0;
    if ((api_.data_ptr(whole_.get(), &data) | api_.data_ptr(part_.get(), &part_data) |
         api_.storage_size(whole_.get(), &bytes) | api_.storage_size(part_.get(), &part_bytes)) != 0) {
      return Error();
    }
    if (part_data != static_cast<char*>(data) + 16) return Refuse("an offset is not in elements of the tensor");
    if (bytes != 256 || part_bytes != 256) return Refuse("a storage's size is not its tensor's");
    if (whole == data || whole != part || whole == other) return Refuse("no address of the storage in a tensor");
    const auto plausible = [](char* p) { return p != nullptr && reinterpret_cast<uintptr_t>(p) % alignof(void*) == 0; };
    if (!plausible(whole) || !plausible(other)) return Refuse("no address of the storage in a tensor");
    return absl::OkStatus();
  }

  absl::Status References() {
    char* const storage = StorageOf(whole_.get());
    if (Counts(storage) != kUnique + 1) return Refuse("two tensors are not two references");
    OwnedTensor third(&api_);
    const int64_t size = 1, stride = 1;
    if (api_.reinterpret_tensor(part_.get(), 1, &size, &stride, 0, third.out()) != 0) return Error();
    if (Counts(storage) != kUnique + 2) return Refuse("three tensors are not three references");
    third.reset();
    part_.reset();
    if (Counts(storage) != kUnique || Counts(StorageOf(other_.get())) != kUnique) {
      return Refuse("one tensor is not one reference");
    }
    return absl::OkStatus();
  }

  // A lazy clone has a storage of its own over the same memory. Asking for the data, to write to it, must part them.
  absl::Status LazyClones() {
    TensorHandle argument = nullptr;
    if (api_.new_handle(whole_.get(), &argument) != 0) return Error();
    StableIValue stack[1] = {reinterpret_cast<StableIValue>(argument)};
    const int32_t failed = api_.call_dispatcher != nullptr
                               ? api_.call_dispatcher("aten::_lazy_clone", "", stack, api_.abi_version())
                               : api_.call_dispatcher_v1("aten::_lazy_clone", "", stack);
    if (failed != 0) return Refuse("lazy clones cannot be tried");
    clone_.reset(reinterpret_cast<TensorHandle>(stack[0]));
    void *own = nullptr, *clones = nullptr;
    if ((api_.data_ptr(whole_.get(), &own) | api_.data_ptr(clone_.get(), &clones)) != 0) return Error();
    return own != clones ? absl::OkStatus() : Refuse("a lazy clone keeps its memory");
  }

  const TorchApi& api_;
  OwnedTensor whole_, part_, other_, clone_;
};

// Held across fork(), so that a child's pools are whole whatever other threads of its parent were doing. Nothing that
// is called under it takes the interpreter's lock.
std::mutex g_lock;

void HoldAcrossForks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork([] { g_lock.lock(); }, [] { g_lock.unlock(); }, [] { g_lock.unlock(); });
}

}  // namespace

int32_t EmptyTensor(const TorchApi& api, const TensorSpec& spec, TensorHandle* out) {
  return api.empty_strided(spec.rank, spec.sizes, spec.strides, spec.dtype, spec.device, spec.device_index, out);
}

// Declared before the lock is taken: deleting a tensor may unmap its memory, or need the interpreter's lock.
class StoragePool::Dead {
 public:
  explicit Dead(const TorchApi& api) : api_(api) {}
  ~Dead() {
    for (TensorHandle h : handles_) api_.delete_tensor(h);
  }
  void Add(TensorHandle handle) { handles_.push_back(handle); }

 private:
  const TorchApi& api_;
  std::vector<TensorHandle> handles_;
};

StoragePool::StoragePool(const TorchApi* api, Clock* clock)
    : api_(api), clock_(clock), layout_(LayoutCheck(*api).Run()), on_(layout_.ok()) {
  HoldAcrossForks();
}

StoragePool::~StoragePool() {
  for (auto& [key, ring] : rings_) {
    for (const Base& base : ring.bases) api_->delete_tensor(base.handle);
  }
}

int64_t StoragePool::MonotonicMicroseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

void StoragePool::Configure(const Options& options) {
  Dead dead(*api_);
  const std::lock_guard lock(g_lock);
  options_ = options;
  on_ = options.on && layout_.ok();
  if (!on_) {
    Sweep(dead, [](const Base&) { return true; });
  } else if (bytes_ > options.max_bytes) {
    DropIdle(bytes_ - options.max_bytes, 0, clock_(), dead);
  }
}

int32_t StoragePool::Empty(const TensorSpec& spec, Growth growth, TensorHandle* out) {
  if (spec.bytes < kMinBytes || !on_.load(std::memory_order_relaxed)) return EmptyTensor(*api_, spec, out);
  const Key key(spec.dtype, spec.bytes);
  const int64_t now = clock_();
  bool room;
  {
    Dead dead(*api_);
    const std::lock_guard lock(g_lock);
    Ring& ring = rings_[key];
    int32_t failed = 0;
    Base* const base = FindIdle(ring, now, dead);
    if (base != nullptr) {
      failed = api_->reinterpret_tensor(base->handle, spec.rank, spec.sizes, spec.strides, 0, out);
      if (failed == 0) ++reused_;
    }
    if (now >= next_look_) DropOld(now, dead);
    if (base != nullptr) return failed;
    ++fresh_;
    room = MakeRoom(spec.bytes, growth, now, dead);
    if (room) bytes_ += spec.bytes;
  }
  return room ? Fresh(spec, key, now, out) : EmptyTensor(*api_, spec, out);
}

int64_t StoragePool::Trim() {
  Dead dead(*api_);
  const std::lock_guard lock(g_lock);
  return DropIdle(bytes_, 0, clock_(), dead);
}

StoragePool::Stats StoragePool::Read() const {
  const std::lock_guard lock(g_lock);
  Stats stats{.bytes = bytes_, .reused = reused_, .fresh = fresh_};
  for (const auto& [key, ring] : rings_) {
    for (const Base& base : ring.bases) stats.idle_bytes += UseOf(base) == Use::kIdle ? base.bytes : 0;
  }
  return stats;
}

void StoragePool::ResetCounts() {
  const std::lock_guard lock(g_lock);
  reused_ = fresh_ = 0;
}

StoragePool::Use StoragePool::UseOf(const Base& base) const {
  const uint64_t counts = Counts(StorageOf(base.handle));
  if (counts == kUnique) return Use::kIdle;
  const bool only_weak = static_cast<uint32_t>(counts) == 1;
  return only_weak || (counts & kPython) != 0 ? Use::kForeign : Use::kBusy;
}

// Of an idle base. Asking for the data also parts it from a lazy clone, which leaves it with other memory.
bool StoragePool::IsIntact(const Base& base) const {
  void* data = nullptr;
  int64_t bytes = 0;
  return api_->data_ptr(base.handle, &data) == 0 && api_->storage_size(base.handle, &bytes) == 0 && data == base.data &&
         bytes == base.bytes;
}

StoragePool::Base* StoragePool::FindIdle(Ring& ring, int64_t now, Dead& dead) {
  const auto take = [&](size_t index) {
    Base& base = ring.bases[index];
    base.given = base.used = now;
    base.busy_looks = 0;
    if (!std::exchange(base.advised, true)) UseHugePages(base.data, base.bytes);
    ring.hand = index + 1;
    return &base;
  };
  for (size_t probes = std::min(kProbes, ring.bases.size()); probes != 0; --probes) {
    ring.hand %= ring.bases.size();
    Base& base = ring.bases[ring.hand];
    const Use use = UseOf(base);
    if (use == Use::kIdle && IsIntact(base)) return take(ring.hand);
    if (use != Use::kBusy || ++base.busy_looks > kMaxBusyLooks) {
      Forget(ring, ring.hand, dead);
    } else {
      base.used = now;
      ++ring.hand;
    }
  }
  // Before memory is added, a longer look.
  const size_t size = ring.bases.size();
  for (size_t i = 0; i < std::min(kBasesAMiss, size); ++i) {
    const size_t index = (ring.hand + i) % size;
    if (UseOf(ring.bases[index]) == Use::kIdle && IsIntact(ring.bases[index])) return take(index);
  }
  return nullptr;
}

// The memory has been counted already, with the lock held; it is got without. The base is added when a tensor shares
// it: it cannot be idle before.
int32_t StoragePool::Fresh(const TensorSpec& spec, const Key& key, int64_t now, TensorHandle* out) {
  const int64_t items = spec.bytes / spec.item_bytes, one = 1;
  TensorSpec flat = spec;
  flat.rank = 1;
  flat.sizes = &items;
  flat.strides = &one;
  OwnedTensor base(api_);
  int32_t failed = EmptyTensor(*api_, flat, base.out());
  if (failed != 0 && Trim() != 0) failed = EmptyTensor(*api_, flat, base.out());
  void* data = nullptr;
  if (failed == 0) failed = api_->data_ptr(base.get(), &data);
  if (failed == 0) failed = api_->reinterpret_tensor(base.get(), spec.rank, spec.sizes, spec.strides, 0, out);
  const std::lock_guard lock(g_lock);
  if (failed != 0) {
    bytes_ -= spec.bytes;
    return failed;
  }
  Ring& ring = rings_[key];
  const size_t at = std::min(ring.hand, ring.bases.size());
  ring.bases.insert(ring.bases.begin() + static_cast<ptrdiff_t>(at), {base.release(), data, spec.bytes, now, now});
  ring.hand = at + 1;
  ++num_bases_;
  return 0;
}

bool StoragePool::MakeRoom(int64_t bytes, Growth growth, int64_t now, Dead& dead) {
  if (bytes > options_.max_bytes) return false;
  if (growth == Growth::kFrugal) grown_ += bytes;
  if (++misses_ * kBasesAMiss >= num_bases_) {
    misses_ = 0;
    if (grown_ > 0) grown_ = std::min(grown_ - DropIdle(grown_, kFrugalBytes, now, dead), int64_t{0});
    if (const int64_t excess = bytes_ + bytes - options_.max_bytes; excess > 0) DropIdle(excess, 0, now, dead);
  }
  return bytes_ + bytes <= options_.max_bytes;
}

int64_t StoragePool::DropIdle(int64_t bytes, int64_t keep, int64_t now, Dead& dead) {
  std::vector<std::pair<int64_t, int64_t>> idle;  // used, bytes
  int64_t left = 0;
  for (auto& [key, ring] : rings_) {
    for (Base& base : ring.bases) {
      if (UseOf(base) == Use::kIdle) {
        idle.push_back({base.used, base.bytes});
        left += base.bytes;
      } else {
        base.used = now;
      }
    }
  }
  std::ranges::sort(idle);
  int64_t last = -1, dropped = 0;  // what was used last by then goes
  for (size_t i = 0; i < idle.size() && dropped < bytes && left - dropped > keep; ++i) {
    last = idle[i].first;
    dropped += idle[i].second;
  }
  const int64_t want = std::exchange(dropped, 0);
  Sweep(dead, [&](const Base& base) {
    const Use use = UseOf(base);
    if (use != Use::kIdle) return use == Use::kForeign;
    if (base.used > last || dropped >= want) return false;
    dropped += base.bytes;
    return true;
  });
  return dropped;
}

void StoragePool::DropOld(int64_t now, Dead& dead) {
  next_look_ = now + kLookMicroseconds;
  Sweep(dead, [&](Base& base) {
    const Use use = UseOf(base);
    if (use == Use::kIdle) return now - base.used >= kIdleMicroseconds;
    if (use == Use::kForeign) return true;
    base.used = now;
    return now - base.given >= kBusyMicroseconds;
  });
}

template <typename Drop>
void StoragePool::Sweep(Dead& dead, Drop drop) {
  for (auto it = rings_.begin(); it != rings_.end();) {
    std::vector<Base>& bases = it->second.bases;
    size_t kept = 0;
    for (Base& base : bases) {
      if (drop(base)) {
        Bury(base, dead);
      } else {
        bases[kept++] = base;
      }
    }
    bases.resize(kept);
    it = kept == 0 ? rings_.erase(it) : std::next(it);
  }
}

void StoragePool::Bury(const Base& base, Dead& dead) {
  dead.Add(base.handle);
  bytes_ -= base.bytes;
  --num_bases_;
}

void StoragePool::Forget(Ring& ring, size_t index, Dead& dead) {
  Bury(ring.bases[index], dead);
  ring.bases.erase(ring.bases.begin() + static_cast<ptrdiff_t>(index));
}

}  // namespace kiln
