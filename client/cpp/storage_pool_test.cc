#include "client/cpp/storage_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/fake_torch.h"

namespace kiln {
namespace {

using Growth = StoragePool::Growth;
constexpr int64_t kMin = StoragePool::kMinBytes;
constexpr int64_t kSecond = 1'000'000;

std::atomic<int64_t> g_now{0};
int64_t Now() { return g_now; }

void* Data(TensorHandle tensor) {
  void* data = nullptr;
  EXPECT_EQ(FakeTorch().data_ptr(tensor, &data), 0);
  return data;
}

class StoragePoolTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(pool_->layout().ok()) << pool_->layout(); }
  void TearDown() override {
    pool_ = nullptr;
    EXPECT_EQ(FakeTensorCount(), 0);
  }

  // A tensor of `bytes` as f32.
  OwnedTensor Make(int64_t bytes = kMin, Growth growth = Growth::kFree, v1::DType dtype = v1::FLOAT32) {
    const int64_t item = dtype == v1::FLOAT32 ? 4 : 1, size = bytes / item, stride = 1;
    OwnedTensor t(&FakeTorch());
    const TensorSpec spec{FakeTorch().dtype_code[dtype], item, 1, &size, &stride, bytes};
    EXPECT_EQ(pool_->Empty(spec, growth, t.out()), 0);
    int64_t storage = 0;
    EXPECT_EQ(FakeTorch().storage_size(t.get(), &storage), 0);
    EXPECT_EQ(storage, bytes);
    return t;
  }

  // The address of a tensor that is made and given up; those that follow show whether it is used again.
  void* MakeAndDrop(int64_t bytes = kMin, Growth growth = Growth::kFree) { return Data(Make(bytes, growth).get()); }

  std::unique_ptr<StoragePool> pool_ = std::make_unique<StoragePool>(&FakeTorch(), Now);
};

TEST_F(StoragePoolTest, IdleMemoryIsUsedAgain) {
  void* const first = MakeAndDrop();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(MakeAndDrop(), first);
  const StoragePool::Stats stats = pool_->Read();
  EXPECT_EQ(stats.reused, 100);
  EXPECT_EQ(stats.fresh, 1);
  EXPECT_EQ(stats.bytes, kMin);
  EXPECT_EQ(stats.idle_bytes, kMin);
  pool_->ResetCounts();
  EXPECT_EQ(pool_->Read().reused, 0);
}

TEST_F(StoragePoolTest, SmallTensorsAreNew) {
  MakeAndDrop(kMin - 4);
  EXPECT_EQ(pool_->Read().bytes, 0);
  EXPECT_EQ(pool_->Read().fresh, 0);
}

TEST_F(StoragePoolTest, OnlyOfTheSameSizeAndDtype) {
  MakeAndDrop(2 * kMin);
  MakeAndDrop(kMin);
  Make(kMin, Growth::kFree, v1::UINT8);
  EXPECT_EQ(pool_->Read().reused, 0);
  EXPECT_EQ(pool_->Read().fresh, 3);
}

TEST_F(StoragePoolTest, WhatIsHeldIsNeverHandedOut) {
  const OwnedTensor held = Make();
  OwnedTensor gone = Make();
  OwnedTensor view(&FakeTorch());
  const int64_t one = 1;
  ASSERT_EQ(FakeTorch().reinterpret_tensor(gone.get(), 1, &one, &one, 7, view.out()), 0);
  void* const viewed = Data(gone.get());
  gone.reset();
  for (int i = 0; i < 20; ++i) {
    void* const data = MakeAndDrop();
    EXPECT_NE(data, Data(held.get()));
    EXPECT_NE(data, viewed);
  }
  view.reset();
  std::set<void*> seen;
  for (int i = 0; i < 4; ++i) seen.insert(MakeAndDrop());
  EXPECT_TRUE(seen.contains(viewed));
}

TEST_F(StoragePoolTest, StoragesWithWeakReferencesOrPythonObjectsAreForgotten) {
  OwnedTensor weak = Make(), python = Make();
  FakeWeakReference(weak.get(), 1);
  FakePythonObject(python.get(), true);
  weak.reset();
  MakeAndDrop();
  EXPECT_EQ(pool_->Read().reused, 0);
  EXPECT_EQ(pool_->Read().bytes, kMin);
  FakePythonObject(python.get(), false);
}

TEST_F(StoragePoolTest, LazyClonesKeepTheirValues) {
  OwnedTensor t = Make();
  std::memset(Data(t.get()), 1, kMin);
  TensorHandle argument = nullptr;
  ASSERT_EQ(FakeTorch().new_handle(t.get(), &argument), 0);
  StableIValue stack[1] = {reinterpret_cast<StableIValue>(argument)};
  ASSERT_EQ(FakeTorch().call_dispatcher("aten::_lazy_clone", "", stack, 0), 0);
  const OwnedTensor clone(&FakeTorch(), reinterpret_cast<TensorHandle>(stack[0]));
  t.reset();
  for (int i = 0; i < 10; ++i) std::memset(MakeAndDrop(), 2, kMin);
  const auto* bytes = static_cast<const char*>(Data(clone.get()));
  EXPECT_EQ(std::count(bytes, bytes + kMin, 1), kMin);
}

TEST_F(StoragePoolTest, StoragesThatAUserChangedAreForgotten) {
  OwnedTensor resized = Make(), moved = Make();
  FakeResize(resized.get(), 2 * kMin);
  FakeRehome(moved.get());
  resized.reset();
  moved.reset();
  const OwnedTensor next = Make();
  EXPECT_EQ(pool_->Read().reused, 0);
  EXPECT_EQ(pool_->Read().bytes, kMin);
}

TEST_F(StoragePoolTest, ManyOutputsOfOneCallAreAllUsedAgain) {
  for (int call = 0; call < 3; ++call) {
    std::vector<OwnedTensor> outputs;
    for (int i = 0; i < 500; ++i) outputs.push_back(Make());
  }
  EXPECT_EQ(pool_->Read().fresh, 500);
  EXPECT_EQ(pool_->Read().reused, 1000);
}

TEST_F(StoragePoolTest, WhatIsHeldForLongIsForgotten) {
  std::vector<OwnedTensor> held;
  for (int i = 0; i < 20; ++i) held.push_back(Make());
  for (int i = 0; i < 1000; ++i) MakeAndDrop();
  EXPECT_EQ(pool_->Read().fresh, 21) << "one that is idle is found among many that are not";
  EXPECT_LE(pool_->Read().bytes, 21 * kMin);
  for (int second = 0; second <= 62; ++second) {
    g_now += kSecond;
    MakeAndDrop();
  }
  EXPECT_EQ(pool_->Read().bytes, kMin);
}

TEST_F(StoragePoolTest, HoldingEverythingDoesNotMakeSearchesLonger) {
  std::vector<OwnedTensor> held;
  for (int i = 0; i < 3000; ++i) held.push_back(Make());
  EXPECT_EQ(pool_->Read().reused, 0);
  EXPECT_EQ(pool_->Read().idle_bytes, 0);
}

TEST_F(StoragePoolTest, WhatIsNotUsedGoes) {
  MakeAndDrop(2 * kMin);
  for (int second = 0; second < 9; ++second) {
    MakeAndDrop();
    g_now += kSecond;
  }
  EXPECT_EQ(pool_->Read().bytes, 3 * kMin);
  g_now += 2 * kSecond;
  MakeAndDrop();
  EXPECT_EQ(pool_->Read().bytes, kMin) << "of the size that is in use";
}

TEST_F(StoragePoolTest, TrimGivesIdleMemoryBack) {
  const OwnedTensor held = Make();
  {
    const OwnedTensor a = Make(), b = Make(3 * kMin);
  }
  EXPECT_EQ(pool_->Read().idle_bytes, 4 * kMin);
  EXPECT_EQ(pool_->Trim(), 4 * kMin);
  EXPECT_EQ(pool_->Read().bytes, kMin);
  EXPECT_EQ(pool_->Trim(), 0);
}

TEST_F(StoragePoolTest, BeyondTheLimitTensorsAreNew) {
  pool_->Configure({.max_bytes = 4 * kMin});
  {
    std::vector<OwnedTensor> outputs;
    for (int i = 0; i < 10; ++i) outputs.push_back(Make());
    EXPECT_EQ(pool_->Read().bytes, 4 * kMin);
    const OwnedTensor large = Make(5 * kMin);
    EXPECT_EQ(pool_->Read().bytes, 4 * kMin);
  }
  g_now += 1;
  const OwnedTensor fresh = Make(2 * kMin);
  EXPECT_EQ(pool_->Read().bytes, 4 * kMin) << "idle ones made room";
  pool_->Configure({.max_bytes = kMin});
  EXPECT_EQ(pool_->Read().bytes, 2 * kMin) << "what is held stays";
}

TEST_F(StoragePoolTest, FrugalGrowthNeedsNoMoreThanTheLargestPhase) {
  constexpr int64_t kBig = 1 << 20, kSmall = 1 << 19;
  const auto phase = [&](int64_t bytes, int count, Growth growth) {
    std::vector<OwnedTensor> held;
    for (int i = 0; i < count; ++i) {
      g_now += 1;
      held.push_back(Make(bytes, growth));
    }
  };
  for (int step = 0; step < 3; ++step) {
    phase(kBig, 40, Growth::kFrugal);
    EXPECT_LE(pool_->Read().bytes, 40 * kBig + StoragePool::kFrugalBytes + kBig);
    phase(kSmall, 80, Growth::kFrugal);
    EXPECT_LE(pool_->Read().bytes, 40 * kBig + StoragePool::kFrugalBytes + kBig);
  }
  pool_->Trim();
  phase(kBig, 40, Growth::kFree);
  phase(kSmall, 80, Growth::kFree);
  EXPECT_GT(pool_->Read().bytes, 70 * kBig);
}

TEST_F(StoragePoolTest, FrugalGrowthDropsNoMoreThanItAdds) {
  constexpr int64_t kBig = 4 << 20, kSmall = 1 << 19;
  const auto phase = [&](int64_t bytes, int count) {
    std::vector<OwnedTensor> held;
    for (int i = 0; i < count; ++i) held.push_back(Make(bytes, Growth::kFrugal));
  };
  phase(kBig, 20);
  phase(kSmall, 16);
  EXPECT_EQ(pool_->Read().bytes, 20 * kBig) << "two large ones made room for all small ones";
}

TEST_F(StoragePoolTest, TheLongestIdleGoesFirst) {
  pool_->Configure({.max_bytes = 6 * kMin});
  for (int64_t size : {1, 2, 3}) {
    g_now += 1;
    MakeAndDrop(size * kMin);
  }
  g_now += 1;
  MakeAndDrop(kMin);
  MakeAndDrop(2 * kMin - 64);
  pool_->ResetCounts();
  MakeAndDrop(kMin);
  MakeAndDrop(3 * kMin);
  EXPECT_EQ(pool_->Read().reused, 2) << "the one of twice the size went";
}

TEST_F(StoragePoolTest, Off) {
  const OwnedTensor held = Make();
  MakeAndDrop();
  pool_->Configure({.on = false});
  EXPECT_EQ(pool_->Read().bytes, 0);
  MakeAndDrop();
  EXPECT_EQ(pool_->Read().bytes, 0);
  EXPECT_EQ(pool_->Read().reused, 0);
  pool_->Configure({});
  MakeAndDrop();
  EXPECT_EQ(pool_->Read().bytes, kMin);
}

TEST_F(StoragePoolTest, TensorsOutliveThePool) {
  const OwnedTensor t = Make();
  pool_ = nullptr;
  std::memset(Data(t.get()), 1, kMin);
  pool_ = std::make_unique<StoragePool>(&FakeTorch(), Now);
}

TEST_F(StoragePoolTest, Threads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      std::vector<OwnedTensor> held;
      for (int i = 0; i < 2000; ++i) {
        held.push_back(Make(kMin * (1 + i % 3)));
        std::memset(Data(held.back().get()), id, 64);
        if (i % 100 == 0) pool_->Trim();
        if (held.size() < 5) continue;
        for (const OwnedTensor& t : held) wrong += *static_cast<char*>(Data(t.get())) != id;
        held.clear();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(pool_->Read().reused, 1000);
}

TEST_F(StoragePoolTest, AChildGoesOnWhateverThreadsDid) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) MakeAndDrop();
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      MakeAndDrop();
      pool_->Trim();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << status;
  }
  stop = true;
  busy.join();
}

// --- torches of another layout ---

// Why a pool refuses the fake torch with `change` made to it. Its tensors are made all the same.
std::string WhyNot(void (*change)(TorchApi&)) {
  TorchApi api = FakeTorch();
  change(api);
  StoragePool pool(&api, Now);
  pool.Configure({.on = true});
  const int64_t size = kMin, one = 1;
  OwnedTensor t(&FakeTorch());
  EXPECT_EQ(pool.Empty({api.dtype_code[v1::UINT8], 1, 1, &size, &one, kMin}, Growth::kFree, t.out()), 0);
  EXPECT_EQ(pool.Read().bytes, 0);
  EXPECT_EQ(pool.layout().code(), absl::StatusCode::kFailedPrecondition);
  return std::string(pool.layout().message());
}

TEST(StorageLayout, AFailedCheckSaysWhatIsDifferent) {
  const std::string other = "this torch's storages have another layout: ";
  EXPECT_EQ(WhyNot([](TorchApi& api) { api.storage_size = [](TensorHandle, int64_t* out) { return *out = 512, 0; }; }),
            other + "a storage's size is not its tensor's");
  EXPECT_EQ(WhyNot([](TorchApi& api) {
              api.reinterpret_tensor = [](TensorHandle, int64_t, const int64_t*, const int64_t*, int64_t,
                                          TensorHandle* out) {
                const int64_t size = 68, one = 1;
                TensorHandle whole = nullptr;
                FakeTorch().empty_strided(1, &size, &one, v1::FLOAT32, 0, 0, &whole);
                return *out = whole, 0;
              };
            }),
            other + "an offset is not in elements of the tensor");
  EXPECT_EQ(WhyNot([](TorchApi& api) {
              api.empty_strided = [](int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                     int32_t type, int32_t index, TensorHandle* out) {
                if (FakeTorch().empty_strided(rank, sizes, strides, dtype, type, index, out) != 0) return 1;
                if (*sizes == 64) FakeWeakReference(*out, 1);  // some other count in that word
                return 0;
              };
            }),
            other + "two tensors are not two references");
  EXPECT_EQ(WhyNot([](TorchApi& api) {
              api.call_dispatcher = [](const char*, const char*, StableIValue* stack, uint64_t) {
                FakeTorch().delete_tensor(reinterpret_cast<TensorHandle>(stack[0]));
                return 1;
              };
            }),
            other + "lazy clones cannot be tried");
  EXPECT_EQ(WhyNot([](TorchApi& api) {
              api.call_dispatcher = [](const char*, const char*, StableIValue*, uint64_t) { return 0; };
            }),
            other + "a lazy clone keeps its memory");
  EXPECT_EQ(FakeTensorCount(), 0);
}

}  // namespace
}  // namespace kiln
