// The Plan functions of Ledger: what has to change, found without changing anything.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cache/ledger.h"

namespace kiln {

// A change in the making, and the state as it would be after it.
class Ledger::Planner {
 public:
  Planner(const Ledger& ledger, absl::Time now) : ledger_(ledger), now_(now), bytes_(ledger.bytes_) {}

  void Add(const NewBlob& blob);
  absl::Status Put(NewRecord record);
  void UnnameReplaced();

  void Remove(const RecordId& id, Why why);
  void RemoveExpired();
  void RemoveIdle();
  void RemoveLapsedOrphans();
  void RemoveBlob(const Digest& digest);

  // Removes until the cap is kept, or nothing is left that may go.
  absl::Status MakeRoom();

  Change Take() { return std::move(change_); }

 private:
  bool Fits() const { return ledger_.options_.max_bytes == 0 || bytes_ <= ledger_.options_.max_bytes; }
  bool Present(const Digest& digest) const { return added_.contains(digest) || ledger_.HasBlob(digest); }
  bool MayEvict(const RecordId& id) const { return !put_.contains(id) && !ledger_.IsLeased(id, now_); }
  // Held, and neither named, nor leased, nor part of the publication.
  bool MayRemove(const Digest& digest) const;
  void Unname(const RecordEntry& record);

  const Ledger& ledger_;
  const absl::Time now_;
  Change change_;
  uint64_t bytes_;
  absl::flat_hash_set<RecordId> put_, removed_;
  absl::flat_hash_set<Digest> added_, removed_blobs_;
  absl::flat_hash_set<Digest> kept_;            // held, and published again or a removed record's that is leased
  absl::flat_hash_map<Digest, int64_t> names_;  // more (or fewer) records that name it
};

void Ledger::Planner::Add(const NewBlob& blob) {
  if (ledger_.HasBlob(blob.digest)) {
    const bool orphan = ledger_.blobs_.at(blob.digest).records == 0;
    if (kept_.insert(blob.digest).second && orphan) change_.renewed_orphans.push_back(blob.digest);
  } else if (added_.insert(blob.digest).second) {
    bytes_ += blob.bytes;
    change_.add_blobs.push_back(blob);
  }
}

absl::Status Ledger::Planner::Put(NewRecord record) {
  if (!put_.insert(record.id).second) {
    return absl::InvalidArgumentError(absl::StrCat("publish: two records ", record.id.ToString()));
  }
  for (const Digest& digest : absl::flat_hash_set<Digest>(record.blobs.begin(), record.blobs.end())) {
    if (!Present(digest)) {
      return absl::FailedPreconditionError(
          absl::StrCat("publish: ", record.id.ToString(), " names blob ", digest.ToString(), ", which is not stored"));
    }
    ++names_[digest];
  }
  bytes_ += record.bytes;
  change_.put_records.push_back(std::move(record));
  return absl::OkStatus();
}

void Ledger::Planner::UnnameReplaced() {
  for (const NewRecord& record : change_.put_records) {
    const auto old = ledger_.records_.find(record.id);
    if (old != ledger_.records_.end()) Unname(*old->second);
  }
}

void Ledger::Planner::Unname(const RecordEntry& record) {
  const bool leased = LeasedUntil(record) > now_;
  bytes_ -= record.bytes;
  for (const Digest& digest : record.blobs) {
    --names_[digest];
    if (leased) kept_.insert(digest);
    if (MayRemove(digest)) RemoveBlob(digest);
  }
}

bool Ledger::Planner::MayRemove(const Digest& digest) const {
  const BlobEntry& blob = ledger_.blobs_.at(digest);
  const auto more = names_.find(digest);
  const int64_t names = static_cast<int64_t>(blob.records) + (more == names_.end() ? 0 : more->second);
  return names == 0 && blob.leased_until <= now_ && !kept_.contains(digest);
}

void Ledger::Planner::RemoveBlob(const Digest& digest) {
  if (!removed_blobs_.insert(digest).second) return;
  bytes_ -= ledger_.blobs_.at(digest).bytes;
  change_.remove_blobs.push_back(digest);
}

void Ledger::Planner::Remove(const RecordId& id, Why why) {
  const auto it = ledger_.records_.find(id);
  if (it == ledger_.records_.end() || !removed_.insert(id).second) return;
  change_.remove_records.emplace_back(id, why);
  Unname(*it->second);
}

void Ledger::Planner::RemoveExpired() {
  for (const auto& [place, id] : ledger_.by_death_) {
    if (place.first > now_) return;
    if (!put_.contains(id)) Remove(id, Why::kExpired);
  }
}

void Ledger::Planner::RemoveIdle() {
  for (const auto& [place, id] : ledger_.by_use_) {
    if (now_ - place.first < ledger_.options_.max_idle) return;
    if (MayEvict(id)) Remove(id, Why::kEvicted);
  }
}

void Ledger::Planner::RemoveLapsedOrphans() {
  for (const auto& [place, digest] : ledger_.orphans_) {
    if (place.first > now_) return;
    if (MayRemove(digest)) RemoveBlob(digest);
  }
}

absl::Status Ledger::Planner::MakeRoom() {
  if (Fits()) return absl::OkStatus();
  RemoveExpired();
  for (auto it = ledger_.orphans_.begin(); it != ledger_.orphans_.end() && !Fits(); ++it) {
    if (MayRemove(it->second)) RemoveBlob(it->second);
  }
  for (auto it = ledger_.by_use_.begin(); it != ledger_.by_use_.end() && !Fits(); ++it) {
    if (MayEvict(it->second)) Remove(it->second, Why::kEvicted);
  }
  if (Fits()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cache: ", bytes_, " bytes are new or leased, the cap is ", ledger_.options_.max_bytes));
}

absl::StatusOr<Change> Ledger::PlanPublish(const std::vector<NewBlob>& blobs, std::vector<NewRecord> records,
                                           absl::Time now) const {
  Planner planner(*this, now);
  for (const NewBlob& blob : blobs) planner.Add(blob);
  for (NewRecord& record : records) {
    if (absl::Status s = planner.Put(std::move(record)); !s.ok()) return s;
  }
  planner.UnnameReplaced();
  if (absl::Status s = planner.MakeRoom(); !s.ok()) return s;
  return planner.Take();
}

Change Ledger::PlanRemove(const RecordId& id, Why why, absl::Time now) const {
  Planner planner(*this, now);
  planner.Remove(id, why);
  return planner.Take();
}

Change Ledger::PlanRemoveBlob(const Digest& digest, absl::Time now) const {
  Planner planner(*this, now);
  if (!HasBlob(digest)) return Change();
  for (const auto& [id, entry] : records_) {
    if (std::binary_search(entry->blobs.begin(), entry->blobs.end(), digest)) planner.Remove(id, Why::kIncomplete);
  }
  planner.RemoveBlob(digest);
  return planner.Take();
}

Change Ledger::PlanMaintain(absl::Time now) const {
  Planner planner(*this, now);
  planner.RemoveExpired();
  planner.RemoveIdle();
  planner.RemoveLapsedOrphans();
  planner.MakeRoom().IgnoreError();  // what is leased may exceed a cap that was lowered
  return planner.Take();
}

}  // namespace kiln
