// What a store holds, what it weighs, who uses it, and so what may go. Pure bookkeeping: no bytes, no I/O, no clock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/digest.h"
#include "cache/record.h"

namespace kiln {

struct LedgerOptions {
  uint64_t max_bytes = 0;                              // 0: no cap
  absl::Duration max_idle = absl::InfiniteDuration();  // a record not used for longer goes
  absl::Duration orphan_grace = absl::Minutes(10);     // how long a blob that no record names stays
};

// A record or a blob about to be stored, and its weight: bytes as stored.
struct NewRecord {
  RecordId id = {};
  std::vector<Digest> blobs = {};
  uint64_t bytes = 0;
  absl::Time expires = absl::InfiniteFuture();
};
struct NewBlob {
  Digest digest = {};
  uint64_t bytes = 0;
};

struct LeaseEntry {
  std::string holder;
  RecordId id;
  absl::Time until;
};

enum class Why { kAsked, kExpired, kEvicted, kIncomplete, kCorrupt };

// One atomic step from one consistent state to the next. Made by a Plan function, carried out on the disk by the store,
// then entered by Apply. In between nothing else may be planned or leased; touches may happen.
struct Change {
  std::vector<NewBlob> add_blobs = {};       // not held before
  std::vector<NewRecord> put_records = {};   // may replace
  std::vector<Digest> renewed_orphans = {};  // published again, without a record
  std::vector<std::pair<RecordId, Why>> remove_records = {};
  std::vector<Digest> remove_blobs = {};

  bool removes() const { return !remove_records.empty() || !remove_blobs.empty(); }
};

struct ListFilter {
  Table table = Table::kActions;
  std::optional<std::string> ns;  // the shared records and this namespace's; unset: all
  std::optional<Key> key;
  std::optional<RecordId> after;
  size_t limit = 0;
};

// Not thread-safe. Invariants after each Apply: every blob that a record names is held; a blob that no record names is
// an orphan, which stays for a time; bytes() is the sum of all weights.
//
// What goes, in this order: expired records; orphans, the oldest first; records, the one used longest ago first. A
// leased record goes only when it has expired or is removed by name, and its blobs then stay as long as the lease. What
// the publication at hand names does not go to make room for it.
class Ledger {
 public:
  explicit Ledger(LedgerOptions options) : options_(options) {}

  bool HasBlob(const Digest& digest) const { return blobs_.contains(digest); }
  bool HasRecord(const RecordId& id) const { return records_.contains(id); }
  // InfinitePast, and false, without the record.
  absl::Time Expires(const RecordId& id) const;
  absl::Time LastUsed(const RecordId& id) const;
  bool IsLeased(const RecordId& id, absl::Time now) const;
  // InfinitePast without a lease of the holder's on the record.
  absl::Time LeasedUntil(const std::string& holder, const RecordId& id) const;

  // Ids in order, without those that have expired.
  std::vector<RecordId> List(const ListFilter& filter, absl::Time now) const;

  // FailedPrecondition if a blob is named but neither new nor held; InvalidArgument for two records of one id;
  // ResourceExhausted if no room can be made.
  absl::StatusOr<Change> PlanPublish(const std::vector<NewBlob>& blobs, std::vector<NewRecord> records,
                                     absl::Time now) const;
  Change PlanRemove(const RecordId& id, Why why, absl::Time now) const;
  // With the blob go all records that name it.
  Change PlanRemoveBlob(const Digest& digest, absl::Time now) const;
  // Drops what has expired, idled or lapsed, and what exceeds the cap.
  Change PlanMaintain(absl::Time now) const;

  // `now` as given to the Plan function.
  void Apply(const Change& change, absl::Time now);

  // The record is, or was, used at `when`. False without the record.
  bool Touch(const RecordId& id, absl::Time when);

  // For `holder`, the record and its blobs stay until `until`. The record must be there.
  void SetLease(const std::string& holder, const RecordId& id, absl::Time until);
  // Ends leases: those of one holder, or those that have lapsed. Gives the ended ones.
  std::vector<LeaseEntry> DropLeases(const std::string& holder);
  std::vector<LeaseEntry> DropLapsedLeases(absl::Time now);
  std::vector<LeaseEntry> Leases(const RecordId& id) const;

  uint64_t bytes() const { return bytes_; }
  size_t blob_count() const { return blobs_.size(); }
  size_t record_count(Table table) const { return counts_.at(static_cast<size_t>(table)); }
  size_t lease_count(absl::Time now) const;

 private:
  // A place in an order by time; the number tells equal times apart by order of arrival.
  using Place = std::pair<absl::Time, uint64_t>;

  struct RecordEntry {
    std::vector<Digest> blobs;  // sorted, without duplicates
    uint64_t bytes = 0;
    Place used;                                           // in by_use_
    Place dies;                                           // in by_death_, unless it never does
    absl::flat_hash_map<std::string, absl::Time> leases;  // by holder
  };
  struct BlobEntry {
    uint64_t bytes = 0;
    uint64_t records = 0;                            // that name it
    Place stays;                                     // in orphans_, while records is 0
    absl::Time leased_until = absl::InfinitePast();  // by way of records that are gone
  };
  class Planner;

  void Insert(const NewRecord& record, absl::Time now);
  void Insert(const NewBlob& blob, absl::Time now);
  void Erase(const RecordId& id, absl::Time now);
  void Erase(const Digest& digest);
  void Name(const std::vector<Digest>& blobs);
  void Unname(const std::vector<Digest>& blobs, absl::Time leased_until, absl::Time now);
  void Orphan(const Digest& digest, BlobEntry& blob, absl::Time until);
  void ListInto(std::vector<RecordId>& out, const RecordId& first, const ListFilter& filter, absl::Time now) const;
  Place NewPlace(absl::Time when) { return {when, next_place_++}; }
  static absl::Time LeasedUntil(const RecordEntry& record);

  const LedgerOptions options_;
  uint64_t bytes_ = 0;
  uint64_t next_place_ = 0;
  std::array<size_t, kAllTables.size()> counts_{};
  absl::btree_map<RecordId, std::unique_ptr<RecordEntry>> records_;
  absl::flat_hash_map<Digest, BlobEntry> blobs_;
  absl::btree_map<Place, RecordId> by_use_;
  absl::btree_map<Place, RecordId> by_death_;
  absl::btree_map<Place, Digest> orphans_;  // by the time until which they stay
  absl::flat_hash_map<std::string, absl::flat_hash_set<RecordId>> holders_;
};

}  // namespace kiln
