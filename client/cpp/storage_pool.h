// Memory of large CPU tensors that is used again, so that a call does not pay for the page faults of fresh memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/torch_api.h"

namespace kiln {

// A dense tensor to make. `bytes` reach from element 0 to the end of the last element.
struct TensorSpec {
  int32_t dtype = 0;  // torch's code
  int64_t item_bytes = 0;
  int64_t rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  int64_t bytes = 0;
  int32_t device = 0;  // torch's code
  int32_t device_index = 0;
};

// An ordinary new tensor, not initialised. Returns what the shim returns.
int32_t EmptyTensor(const TorchApi& api, const TensorSpec& spec, TensorHandle* out);

// Makes tensors over ordinary torch storages, of exactly the tensor's size, and keeps a handle of its own (a base) of
// each. A storage is *idle* when nobody else refers to it in any way (tensor, view, Python storage, weak reference,
// lazy clone): then the next tensor of its dtype and size is made over it. The pool forgets a storage whose memory or
// size somebody has changed, that Python has seen or that has weak references, or that somebody holds for long: such a
// storage is its holder's alone, as any other.
//
// Idle storages are the only memory that would not be there without a pool. They go, those first that have been idle
// for longest, when they have not been used for kIdleMicroseconds (noticed by the next call of Empty), when the pool
// would grow beyond its limit, when it grows frugally, and by Trim.
//
// Thread-safe, with or without the interpreter's lock. A child process may go on using the pool after fork().
class StoragePool {
 public:
  static constexpr int64_t kMinBytes = 64 << 10;  // a smaller tensor is always a new one
  static constexpr int64_t kIdleMicroseconds = 10'000'000;
  static constexpr int64_t kBusyMicroseconds = 60'000'000;  // until a storage that is not idle is forgotten
  static constexpr int64_t kFrugalBytes = 16 << 20;

  // Where no idle storage has the right size. Frugally, idle ones of other sizes make room first, but for kFrugalBytes
  // of them: so the phases of a training step do not add up to more memory than the largest of them needs.
  enum class Growth { kFrugal, kFree };

  struct Options {
    bool on = true;
    int64_t max_bytes = int64_t{8} << 30;  // of all storages, idle or not; beyond, tensors are new ones
  };
  struct Stats {
    int64_t bytes = 0;       // of all storages that may be used again
    int64_t idle_bytes = 0;  // of those, what nobody else holds
    int64_t reused = 0;      // tensors made over an idle storage
    int64_t fresh = 0;       // tensors of at least kMinBytes with new memory
  };
  using Clock = int64_t();  // microseconds, never backwards

  // `api` must outlive the pool. The clock may be called from any thread.
  explicit StoragePool(const TorchApi* api, Clock* clock = MonotonicMicroseconds);
  ~StoragePool();  // storages that are in use live on
  StoragePool(const StoragePool&) = delete;
  StoragePool& operator=(const StoragePool&) = delete;

  // Recycling reads two words of torch's objects that no interface gives. Ok if they proved to be what they are taken
  // for; otherwise FailedPrecondition says which check failed, and every tensor is a new one.
  const absl::Status& layout() const { return layout_; }

  // Gives back what the new options do not allow; off, forgets all storages.
  void Configure(const Options& options);

  // An ordinary CPU tensor, not initialised. Returns what the shims return; nothing is out then.
  int32_t Empty(const TensorSpec& spec, Growth growth, TensorHandle* out);

  // Gives all idle memory back. Returns its bytes.
  int64_t Trim();

  Stats Read() const;
  void ResetCounts();  // `reused` and `fresh`

  static int64_t MonotonicMicroseconds();

 private:
  struct Base {
    TensorHandle handle;
    void* data;
    int64_t bytes;
    int64_t given;         // when a tensor was last made over it
    int64_t used;          // when it was last known to be in use
    int busy_looks = 0;    // in a row
    bool advised = false;  // to be in huge pages
  };
  // Bases of one dtype and size. The search begins at the hand, behind what was handed out last.
  struct Ring {
    std::vector<Base> bases;
    size_t hand = 0;
  };
  using Key = std::pair<int32_t, int64_t>;  // dtype, bytes
  class Dead;                               // deletes handles once the lock is free

  enum class Use { kIdle, kBusy, kForeign };  // foreign: to be forgotten

  Use UseOf(const Base& base) const;
  bool IsIntact(const Base& base) const;
  Base* FindIdle(Ring& ring, int64_t now, Dead& dead);
  int32_t Fresh(const TensorSpec& spec, const Key& key, int64_t now, TensorHandle* out);
  bool MakeRoom(int64_t bytes, Growth growth, int64_t now, Dead& dead);
  // Drops idle bases, longest idle first, until `bytes` are gone or no more than `keep` are left; returns their bytes.
  int64_t DropIdle(int64_t bytes, int64_t keep, int64_t now, Dead& dead);
  void DropOld(int64_t now, Dead& dead);
  template <typename Drop>
  void Sweep(Dead& dead, Drop drop);
  void Forget(Ring& ring, size_t index, Dead& dead);
  void Bury(const Base& base, Dead& dead);

  const TorchApi* const api_;
  Clock* const clock_;
  absl::Status layout_;
  std::atomic<bool> on_{false};
  // All below is guarded by the lock that all pools of the process share.
  Options options_;
  std::map<Key, Ring> rings_;
  size_t num_bases_ = 0;
  int64_t bytes_ = 0;
  int64_t reused_ = 0;
  int64_t fresh_ = 0;
  int64_t next_look_ = 0;  // when to look for bases that are too old
  // Since idle bases were last looked for:
  size_t misses_ = 0;
  int64_t grown_ = 0;  // bytes, frugally
};

}  // namespace kiln
