#include "cache/ledger_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

constexpr size_t kMaxNamespace = 128;  // bytes

// Namespaces are part of stored keys, which rest on there being no zero byte in them.
bool IsNamespace(const std::string& ns) {
  return ns.size() <= kMaxNamespace &&
         std::all_of(ns.begin(), ns.end(), [](unsigned char c) { return c > ' ' && c < 0x7f && c != '/'; });
}

bool MaySee(const RequestContext& ctx, const std::string& ns) { return ns.empty() || ns == ctx.ns || ctx.admin; }

absl::Status NoRecord(const RecordId& id) { return absl::NotFoundError(absl::StrCat("no record ", id.ToString())); }

// To what a backing keeps. The infinities stay.
absl::Time Rounded(absl::Time t) {
  if (t == absl::InfiniteFuture() || t == absl::InfinitePast()) return t;
  return absl::FromUnixMicros(absl::ToUnixMicros(t));
}

NewRecord Weigh(const Record& record) { return {record.id, record.blobs, RecordBytes(record), record.expires}; }

LedgerOptions ForLedger(const StoreOptions& o) {
  return {.max_bytes = o.max_bytes, .max_idle = o.max_idle, .orphan_grace = o.orphan_grace};
}

}  // namespace

uint64_t RecordBytes(const Record& record) {
  return record.value.size() + sizeof(Digest) * record.blobs.size() + record.id.ns.size() + 2 * sizeof(Key);
}

LedgerStore::LedgerStore(const StoreOptions& options, std::unique_ptr<Backing> backing, const Inventory& inventory)
    : options_(options), backing_(std::move(backing)), ledger_(ForLedger(options)) {
  Load(inventory);
}

LedgerStore::~LedgerStore() {
  MutexLock write(&write_mu_);
  FlushAccess().IgnoreError();  // a cache loses no more by it than the order of eviction
}

void LedgerStore::Load(const Inventory& inventory) {
  const absl::Time now = options_.clock->Now();
  WriteSet drop;
  {
    MutexLock lock(&mu_);
    ledger_.Apply({.add_blobs = inventory.blobs}, now);
    Change complete;
    for (const NewRecord& record : inventory.records) {
      if (IsComplete(record)) complete.put_records.push_back(record);
      if (!IsComplete(record)) drop.delete_records.push_back(record.id);
    }
    ledger_.Apply(complete, now);
    for (const auto& [id, when] : inventory.access) ledger_.Touch(id, std::min(when, now));
    for (const LeaseEntry& lease : inventory.leases) {
      const bool live = ledger_.HasRecord(lease.id) && lease.until > now;
      if (live) ledger_.SetLease(lease.holder, lease.id, lease.until);
      if (!live) drop.delete_leases.push_back(lease);
    }
    stats_.corrupt += inventory.corrupt;
    stats_.incomplete += drop.delete_records.size();
  }
  backing_->Write(drop).IgnoreError();  // else they are found again at the next opening
}

bool LedgerStore::IsComplete(const NewRecord& record) const {
  for (const Digest& digest : record.blobs) {
    if (!ledger_.HasBlob(digest)) return false;
  }
  return true;
}

absl::Status LedgerStore::Check(const RequestContext& ctx) const {
  if (absl::Status s = ContextStatus(ctx, options_.clock->Now()); !s.ok()) return s;
  if (ctx.ns.empty() || !IsNamespace(ctx.ns)) return absl::InvalidArgumentError("cache: bad namespace in the context");
  return absl::OkStatus();
}

absl::StatusOr<std::string> LedgerStore::GetBlob(const RequestContext& ctx, const Digest& digest) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  const absl::Status missing = absl::NotFoundError(absl::StrCat("no blob ", digest.ToString()));
  {
    MutexLock lock(&mu_);
    if (!ledger_.HasBlob(digest)) return missing;
  }
  absl::StatusOr<std::string> blob = backing_->ReadBlob(digest, Left(ctx));
  if (!absl::IsNotFound(blob.status())) return blob;
  // It has just been removed, perhaps published again since, or the books are wrong: nothing changes under the writer's
  // lock.
  MutexLock write(&write_mu_);
  {
    MutexLock lock(&mu_);
    if (!ledger_.HasBlob(digest)) return missing;
  }
  blob = backing_->ReadBlob(digest, Left(ctx));
  return absl::IsNotFound(blob.status()) ? absl::DataLossError(missing.message()) : blob;
}

absl::StatusOr<std::vector<Digest>> LedgerStore::FindMissing(const RequestContext& ctx,
                                                             std::span<const Digest> digests) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  std::vector<Digest> missing;
  MutexLock lock(&mu_);
  for (const Digest& digest : digests) {
    if (!ledger_.HasBlob(digest)) missing.push_back(digest);
  }
  return missing;
}

absl::StatusOr<Record> LedgerStore::GetRecord(const RequestContext& ctx, const RecordId& id) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  if (!MaySee(ctx, id.ns)) return NoRecord(id);
  bool present, expired;
  {
    MutexLock lock(&mu_);
    present = ledger_.HasRecord(id);
    expired = present && ledger_.Expires(id) <= options_.clock->Now();
  }
  if (expired) Remove(id, Why::kExpired).IgnoreError();
  if (!present || expired) return NoRecord(id);
  absl::StatusOr<Record> record = Read(id, Left(ctx));
  if (record.ok()) Use(id);
  return record;
}

absl::StatusOr<Record> LedgerStore::Read(const RecordId& id, absl::Duration left) {
  absl::StatusOr<Record> record = backing_->ReadRecord(id, left);
  if (!absl::IsNotFound(record.status()) && !absl::IsDataLoss(record.status())) return record;
  Remove(id, Why::kCorrupt).IgnoreError();
  return NoRecord(id);
}

void LedgerStore::Use(const RecordId& id) {
  const absl::Time now = options_.clock->Now();
  {
    MutexLock lock(&mu_);
    if (ledger_.Touch(id, now)) access_[id] = now;
    if (access_.size() < kAccessBatch) return;
  }
  MutexLock write(&write_mu_);
  FlushAccess().IgnoreError();
}

absl::StatusOr<std::vector<ListedRecord>> LedgerStore::List(const RequestContext& ctx, const ListRequest& request) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  if (request.all_namespaces && !ctx.admin) return absl::PermissionDeniedError("list: all namespaces are an admin's");
  ListFilter filter{request.table, ctx.ns, request.key, request.after, request.limit};
  if (request.all_namespaces) filter.ns.reset();
  const absl::Time now = options_.clock->Now();
  std::vector<RecordId> ids;
  {
    MutexLock lock(&mu_);
    ids = ledger_.List(filter, now);
  }
  std::vector<ListedRecord> out;
  for (const RecordId& id : ids) {
    absl::StatusOr<Record> record = Read(id, Left(ctx));
    if (absl::IsNotFound(record.status())) continue;
    if (!record.ok()) return record.status();
    MutexLock lock(&mu_);
    out.push_back({*std::move(record), ledger_.LastUsed(id), ledger_.IsLeased(id, now)});
  }
  return out;
}

absl::StatusOr<std::vector<Record>> LedgerStore::Prepare(const RequestContext& ctx, const Publication& publication,
                                                         absl::Time now) const {
  std::vector<Record> records = publication.records;
  for (Record& record : records) {
    if (!IsNamespace(record.id.ns)) return absl::InvalidArgumentError("publish: bad namespace in a record's id");
    if (!MaySee(ctx, record.id.ns)) {
      return absl::PermissionDeniedError(absl::StrCat("publish: namespace ", record.id.ns, " is not ", ctx.ns, "'s"));
    }
    if (record.created == absl::InfinitePast()) record.created = now;
    if (record.expires == absl::InfiniteFuture() && record.id.table == Table::kNegative) {
      record.expires = record.created + options_.negative_ttl;
    }
    record.created = Rounded(record.created);
    record.expires = Rounded(record.expires);
  }
  return records;
}

absl::Status LedgerStore::Publish(const RequestContext& ctx, const Publication& publication) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  MutexLock write(&write_mu_);
  const absl::Time now = options_.clock->Now();
  absl::StatusOr<std::vector<Record>> records = Prepare(ctx, publication, now);
  if (!records.ok()) return records.status();
  std::vector<NewBlob> blobs;
  for (const Blob& blob : publication.blobs) blobs.push_back({blob.digest, BlobBytes(blob.bytes.size())});
  std::vector<NewRecord> weighed;
  for (const Record& record : *records) weighed.push_back(Weigh(record));
  Change change;
  {
    MutexLock lock(&mu_);
    absl::StatusOr<Change> plan = ledger_.PlanPublish(blobs, std::move(weighed), now);
    if (!plan.ok()) return plan.status();
    change = *std::move(plan);
  }
  if (absl::Status s = Hook(PublishStep::kPlanned); !s.ok()) return s;
  if (absl::Status s = Commit(change, publication, *records, now); !s.ok()) return s;
  {
    MutexLock lock(&mu_);
    ++stats_.published;
  }
  return Hook(PublishStep::kAcknowledged);
}

absl::Status LedgerStore::Hook(PublishStep step) const {
  return options_.publish_hook ? options_.publish_hook(step) : absl::OkStatus();
}

absl::Status LedgerStore::Commit(const Change& change, const Publication& publication,
                                 const std::vector<Record>& records, absl::Time now) {
  WriteSet writes;
  absl::flat_hash_set<Digest> added;
  for (const NewBlob& blob : change.add_blobs) added.insert(blob.digest);
  for (const Blob& blob : publication.blobs) {
    if (added.erase(blob.digest) > 0) writes.put_blobs.push_back(&blob);  // once, if it comes twice
  }
  for (const Record& record : records) {
    writes.put_records.push_back(&record);
    writes.access.emplace_back(record.id, now);
  }
  writes.delete_blobs = change.remove_blobs;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, why] : change.remove_records) {
      writes.delete_records.push_back(id);
      for (LeaseEntry& lease : ledger_.Leases(id)) writes.delete_leases.push_back(std::move(lease));
    }
  }
  // Only what is promised needs the disk's word for it: what is removed may well come back.
  const bool publishes = !writes.put_records.empty() || !writes.put_blobs.empty();
  writes.sync = publishes;
  if (publishes) writes.hook = options_.publish_hook;
  if (absl::Status s = backing_->Write(writes); !s.ok()) return s;
  const absl::Status hook = publishes ? Hook(PublishStep::kCommitted) : absl::OkStatus();
  MutexLock lock(&mu_);
  ledger_.Apply(change, now);
  Count(change);
  // What is written down already must not be overwritten with an earlier time.
  for (const auto& [id, why] : change.remove_records) access_.erase(id);
  for (const NewRecord& record : change.put_records) access_.erase(record.id);
  return hook;
}

void LedgerStore::Count(const Change& change) {
  for (const auto& [id, why] : change.remove_records) {
    stats_.evicted += why == Why::kEvicted;
    stats_.expired += why == Why::kExpired;
    stats_.incomplete += why == Why::kIncomplete;
    stats_.corrupt += why == Why::kCorrupt;
  }
}

absl::Status LedgerStore::RemoveRecord(const RequestContext& ctx, const RecordId& id) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  if (!MaySee(ctx, id.ns)) return absl::PermissionDeniedError(absl::StrCat("remove: namespace ", id.ns));
  return Remove(id, Why::kAsked);
}

absl::Status LedgerStore::Remove(const RecordId& id, Why why) {
  MutexLock write(&write_mu_);
  const absl::Time now = options_.clock->Now();
  if (!StillHolds(id, why, now)) return absl::OkStatus();
  Change change;
  {
    MutexLock lock(&mu_);
    change = ledger_.PlanRemove(id, why, now);
  }
  return Commit(change, now);
}

// The record may have been replaced since it was found to be expired or corrupt.
bool LedgerStore::StillHolds(const RecordId& id, Why why, absl::Time now) {
  if (why == Why::kCorrupt) return !backing_->ReadRecord(id, absl::InfiniteDuration()).ok();
  MutexLock lock(&mu_);
  return why != Why::kExpired || ledger_.Expires(id) <= now;
}

absl::Status LedgerStore::RemoveBlob(const RequestContext& ctx, const Digest& digest) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  MutexLock write(&write_mu_);
  const absl::Time now = options_.clock->Now();
  Change change;
  {
    MutexLock lock(&mu_);
    change = ledger_.PlanRemoveBlob(digest, now);
  }
  return Commit(change, now);
}

absl::Status LedgerStore::Lease(const RequestContext& ctx, const RecordId& id, absl::Time until) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  if (ctx.job_id.empty()) return absl::InvalidArgumentError("lease: the context has no job id");
  if (!MaySee(ctx, id.ns)) return NoRecord(id);
  // A lease that is there already, to the instant, costs no write.
  const auto present = [&]() -> absl::StatusOr<bool> {
    MutexLock lock(&mu_);
    const absl::Time now = options_.clock->Now();
    if (!ledger_.HasRecord(id) || ledger_.Expires(id) <= now) return NoRecord(id);
    return until > now && ledger_.LeasedUntil(ctx.job_id, id) == until;
  };
  if (const absl::StatusOr<bool> there = present(); !there.ok() || *there) return there.status();
  MutexLock write(&write_mu_);
  if (const absl::StatusOr<bool> there = present(); !there.ok() || *there) return there.status();
  if (absl::Status s = backing_->Write({.put_leases = {{ctx.job_id, id, until}}}); !s.ok()) return s;
  MutexLock lock(&mu_);
  ledger_.SetLease(ctx.job_id, id, until);
  return absl::OkStatus();
}

absl::Status LedgerStore::ReleaseLeases(const RequestContext& ctx) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  MutexLock write(&write_mu_);
  WriteSet writes;
  {
    MutexLock lock(&mu_);
    writes.delete_leases = ledger_.DropLeases(ctx.job_id);
  }
  return backing_->Write(writes);
}

absl::Status LedgerStore::Maintain(const RequestContext& ctx) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  MutexLock write(&write_mu_);
  if (absl::Status s = backing_->Recover(); !s.ok()) return s;
  const absl::Time now = options_.clock->Now();
  Change change;
  {
    MutexLock lock(&mu_);
    change = ledger_.PlanMaintain(now);
  }
  if (absl::Status s = Commit(change, now); !s.ok()) return s;
  WriteSet lapsed;
  {
    MutexLock lock(&mu_);
    lapsed.delete_leases = ledger_.DropLapsedLeases(now);
  }
  if (absl::Status s = backing_->Write(lapsed); !s.ok()) return s;
  return FlushAccess();
}

absl::Status LedgerStore::FlushAccess() {
  WriteSet writes;
  {
    MutexLock lock(&mu_);
    writes.access.assign(access_.begin(), access_.end());
    access_.clear();
  }
  return writes.access.empty() ? absl::OkStatus() : backing_->Write(writes);
}

absl::StatusOr<StoreStats> LedgerStore::Stats(const RequestContext& ctx) {
  if (absl::Status s = Check(ctx); !s.ok()) return s;
  MutexLock lock(&mu_);
  StoreStats stats = stats_;
  for (Table table : kAllTables) stats.records[table] = ledger_.record_count(table);
  stats.blobs = ledger_.blob_count();
  stats.bytes = ledger_.bytes();
  stats.max_bytes = options_.max_bytes;
  stats.leases = ledger_.lease_count(options_.clock->Now());
  return stats;
}

}  // namespace kiln
