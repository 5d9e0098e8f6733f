// Where a LedgerStore keeps its bytes. Mechanism only: every decision is the ledger's.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/digest.h"
#include "cache/ledger.h"
#include "cache/record.h"
#include "cache/store_options.h"

namespace kiln {

// One atomic write. Pointers are the caller's, valid during the call.
struct WriteSet {
  std::vector<const Blob*> put_blobs = {};
  std::vector<const Record*> put_records = {};
  std::vector<RecordId> delete_records = {};
  std::vector<Digest> delete_blobs = {};
  std::vector<std::pair<RecordId, absl::Time>> access = {};  // times of last use
  std::vector<LeaseEntry> put_leases = {};
  std::vector<LeaseEntry> delete_leases = {};  // `until` is ignored
  bool sync = false;                           // on stable storage before Write returns
  PublishHook hook = nullptr;                  // told of the steps kBlobsStaged and kRecordsStaged
};

// Thread-safe.
class Backing {
 public:
  virtual ~Backing() = default;

  // NotFound if it is not there, DataLoss if it is not what was written, DeadlineExceeded if it took longer than
  // `left`.
  virtual absl::StatusOr<std::string> ReadBlob(const Digest& digest, absl::Duration left) = 0;
  virtual absl::StatusOr<Record> ReadRecord(const RecordId& id, absl::Duration left) = 0;

  // All or nothing. What a record or blob weighs is its RecordBytes or BlobBytes.
  virtual absl::Status Write(const WriteSet& writes) = 0;

  // Tries to get out of an earlier error. Ok when writes are possible.
  virtual absl::Status Recover() = 0;
};

// Weights, the same for every backing: what is stored, and a little for its key.
uint64_t RecordBytes(const Record& record);
inline uint64_t BlobBytes(uint64_t stored_size) { return stored_size + sizeof(Digest); }

}  // namespace kiln
