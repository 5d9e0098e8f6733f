// What tests of stores share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cache/context.h"
#include "cache/fake_clock.h"
#include "cache/memory_store.h"
#include "cache/record.h"
#include "cache/rocksdb_store.h"
#include "cache/store.h"
#include "cache/store_options.h"

namespace kiln {

// A new directory, removed with all that is in it.
class TempDir {
 public:
  TempDir() {
    std::string path = Parent() + "/kiln_cache_XXXXXX";
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  // In memory if there is room: what a test syncs need not outlive the machine.
  static std::string Parent() {
    std::error_code error;
    const std::filesystem::space_info memory = std::filesystem::space("/dev/shm", error);
    return !error && memory.available > (uint64_t{256} << 20) ? "/dev/shm" : "/tmp";
  }

  std::string path_;
};

inline Key MakeKey(const std::string& name) { return KeyBuilder(name).Build()->ToKey(); }

inline RecordId Id(const std::string& name, Table table = Table::kActions, const std::string& ns = "") {
  return {.table = table, .ns = ns, .key = MakeKey(name), .item = {}};
}

inline Record MakeRecord(const RecordId& id, const std::string& value, const std::vector<Digest>& blobs = {}) {
  Record record;
  record.id = id;
  record.value = value;
  record.blobs = blobs;
  return record;
}

inline void PrintTo(const RecordId& id, std::ostream* out) { *out << id.ToString(); }

// A record `name` of value "value of <name>" that names one blob, "blob of <name>" padded to `size` bytes.
inline Blob BlobOf(const std::string& name, size_t size = 100) {
  std::string bytes = "blob of " + name;
  bytes.resize(size, '.');
  return MakeBlob(bytes);
}
inline Publication Entry(const std::string& name, size_t size = 100) {
  const Blob blob = BlobOf(name, size);
  return {{blob}, {MakeRecord(Id(name), "value of " + name, {blob.digest})}};
}

inline RequestContext Job(const std::string& id) {
  RequestContext ctx;
  ctx.job_id = id;
  return ctx;
}

// A store of either kind, that can be closed and opened again (one in memory then stays as it is).
class TestStore {
 public:
  enum Kind { kMemory, kRocksDb };

  TestStore(Kind kind, StoreOptions options) : kind_(kind), options_(options) { Open(); }

  void Open() {
    if (kind_ == kMemory) {
      store_ = NewMemoryStore(options_);
    } else {
      absl::StatusOr<std::unique_ptr<Store>> store = OpenRocksDbStore(dir_.path(), options_, &report_);
      ASSERT_TRUE(store.ok()) << store.status();
      store_ = *std::move(store);
    }
  }
  void Reopen() {
    if (kind_ == kMemory) return;
    store_.reset();
    Open();
  }

  Store* operator->() const { return store_.get(); }
  Store& operator*() const { return *store_; }
  const OpenReport& report() const { return report_; }
  const std::string& dir() const { return dir_.path(); }
  StoreOptions& options() { return options_; }

 private:
  const Kind kind_;
  StoreOptions options_;
  TempDir dir_;
  OpenReport report_;
  std::unique_ptr<Store> store_;
};

}  // namespace kiln
