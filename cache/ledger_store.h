// A Store made of a ledger, which decides, and a backing, which keeps the bytes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/backing.h"
#include "cache/ledger.h"
#include "cache/mutex.h"
#include "cache/store.h"
#include "cache/store_options.h"

namespace kiln {

// What a backing holds when the store is opened.
struct Inventory {
  std::vector<NewBlob> blobs;
  std::vector<NewRecord> records;
  std::vector<std::pair<RecordId, absl::Time>> access;
  std::vector<LeaseEntry> leases;
  uint64_t corrupt = 0;  // entries that were found bad, and are gone
};

// Thread-safe. Changes are made one at a time, each while write_mu_ is held: planned, written, then entered into the
// books. Reads wait for no disk write.
class LedgerStore final : public Store {
 public:
  // Enters the inventory; what in it is expired or incomplete is removed from the backing.
  LedgerStore(const StoreOptions& options, std::unique_ptr<Backing> backing, const Inventory& inventory);
  ~LedgerStore() override;  // writes access times down

  absl::StatusOr<std::string> GetBlob(const RequestContext& ctx, const Digest& digest) override;
  absl::StatusOr<std::vector<Digest>> FindMissing(const RequestContext& ctx, std::span<const Digest> digests) override;
  absl::StatusOr<Record> GetRecord(const RequestContext& ctx, const RecordId& id) override;
  absl::StatusOr<std::vector<ListedRecord>> List(const RequestContext& ctx, const ListRequest& request) override;
  absl::Status Publish(const RequestContext& ctx, const Publication& publication) override;
  absl::Status RemoveRecord(const RequestContext& ctx, const RecordId& id) override;
  absl::Status RemoveBlob(const RequestContext& ctx, const Digest& digest) override;
  absl::Status Lease(const RequestContext& ctx, const RecordId& id, absl::Time until) override;
  absl::Status ReleaseLeases(const RequestContext& ctx) override;
  absl::Status Maintain(const RequestContext& ctx) override;
  absl::StatusOr<StoreStats> Stats(const RequestContext& ctx) override;

 private:
  // Access times are written down when there are so many, or at Maintain.
  static constexpr size_t kAccessBatch = 1024;

  void Load(const Inventory& inventory);
  absl::Status Check(const RequestContext& ctx) const;
  absl::Duration Left(const RequestContext& ctx) const { return ctx.deadline - options_.clock->Now(); }
  // A publication as it is stored: times set and rounded. InvalidArgument says what is wrong with it.
  absl::StatusOr<std::vector<Record>> Prepare(const RequestContext& ctx, const Publication& publication,
                                              absl::Time now) const;
  absl::Status Hook(PublishStep step) const;

  // Writes the change and enters it. The sources hold what the change adds.
  absl::Status Commit(const Change& change, const Publication& publication, const std::vector<Record>& records,
                      absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mu_);
  absl::Status Commit(const Change& change, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mu_) {
    return change.removes() ? Commit(change, {}, {}, now) : absl::OkStatus();
  }
  // Does nothing if the reason no longer holds.
  absl::Status Remove(const RecordId& id, Why why);
  bool StillHolds(const RecordId& id, Why why, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mu_);
  // A record that is in the books; if it can't be read, it is removed.
  absl::StatusOr<Record> Read(const RecordId& id, absl::Duration left);
  void Use(const RecordId& id);
  absl::Status FlushAccess() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mu_);
  void Count(const Change& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsComplete(const NewRecord& record) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const StoreOptions options_;
  const std::unique_ptr<Backing> backing_;
  Mutex write_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  mutable Mutex mu_;  // held for no I/O
  Ledger ledger_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<RecordId, absl::Time> access_ ABSL_GUARDED_BY(mu_);  // not yet written down
  StoreStats stats_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kiln
