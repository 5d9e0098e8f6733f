// A file system that can be full, can fail, and can lose what was not synced. For tests.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cache/mutex.h"

namespace kiln {

// Thread-safe.
class FaultyFs final : public rocksdb::FileSystemWrapper {
 public:
  enum Fault { kNone, kFull, kBroken };

  FaultyFs() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FaultyFs"; }

  // From now on writes fail so.
  void Set(Fault fault) { fault_ = fault; }

  // What a power failure would do: every file becomes what it was at its last sync.
  void DropUnsynced() {
    MutexLock lock(&mu_);
    for (const auto& [name, size] : synced_) {
      std::error_code ignored;
      if (std::filesystem::exists(name, ignored)) std::filesystem::resize_file(name, size, ignored);
    }
  }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus s = Check();
    if (s.ok()) s = FileSystemWrapper::NewWritableFile(name, options, result, debug);
    if (!s.ok()) return s;
    SetSynced(name, 0);
    *result = std::make_unique<File>(std::move(*result), this, name);
    return s;
  }

  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    {
      MutexLock lock(&mu_);
      if (const auto it = synced_.find(from); it != synced_.end()) {
        synced_[to] = it->second;
        synced_.erase(it);
      }
    }
    return FileSystemWrapper::RenameFile(from, to, options, debug);
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile>&& file, FaultyFs* fs, std::string name)
        : FSWritableFileOwnerWrapper(std::move(file)), fs_(fs), name_(std::move(name)) {}

    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* debug) override {
      rocksdb::IOStatus s = fs_->Check();
      if (s.ok()) s = FSWritableFileOwnerWrapper::Append(data, options, debug);
      if (s.ok()) size_ += data.size();
      return s;
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* debug) override {
      return Append(data, options, debug);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
      rocksdb::IOStatus s = fs_->Check();
      if (s.ok()) s = FSWritableFileOwnerWrapper::Sync(options, debug);
      if (s.ok()) fs_->SetSynced(name_, size_);
      return s;
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
      return Sync(options, debug);
    }

   private:
    FaultyFs* const fs_;
    const std::string name_;
    uint64_t size_ = 0;
  };

  rocksdb::IOStatus Check() const {
    switch (fault_.load()) {
      case kNone:
        break;
      case kFull:
        return rocksdb::IOStatus::NoSpace("the test says so");
      case kBroken:
        return rocksdb::IOStatus::IOError("the test says so");
    }
    return rocksdb::IOStatus::OK();
  }
  void SetSynced(const std::string& name, uint64_t size) {
    MutexLock lock(&mu_);
    synced_[name] = size;
  }

  std::atomic<Fault> fault_ = kNone;
  Mutex mu_;
  std::map<std::string, uint64_t> synced_ ABSL_GUARDED_BY(mu_);  // bytes, by file
};

}  // namespace kiln
