#include "cache/ledger.h"

#include <algorithm>
#include <iterator>

namespace kiln {
namespace {

std::vector<Digest> Sorted(std::vector<Digest> digests) {
  std::sort(digests.begin(), digests.end());
  digests.erase(std::unique(digests.begin(), digests.end()), digests.end());
  return digests;
}

// Of two sorted lists, what is in the first only.
std::vector<Digest> Without(const std::vector<Digest>& all, const std::vector<Digest>& these) {
  std::vector<Digest> out;
  std::set_difference(all.begin(), all.end(), these.begin(), these.end(), std::back_inserter(out));
  return out;
}

}  // namespace

absl::Time Ledger::Expires(const RecordId& id) const {
  const auto it = records_.find(id);
  return it == records_.end() ? absl::InfinitePast() : it->second->dies.first;
}

absl::Time Ledger::LastUsed(const RecordId& id) const {
  const auto it = records_.find(id);
  return it == records_.end() ? absl::InfinitePast() : it->second->used.first;
}

bool Ledger::IsLeased(const RecordId& id, absl::Time now) const {
  const auto it = records_.find(id);
  return it != records_.end() && LeasedUntil(*it->second) > now;
}

std::vector<RecordId> Ledger::List(const ListFilter& filter, absl::Time now) const {
  std::vector<RecordId> out;
  const RecordId first{.table = filter.table, .ns = "", .key = filter.key.value_or(Key()), .item = {}};
  ListInto(out, first, filter, now);
  if (filter.ns.has_value() && !filter.ns->empty()) {
    ListInto(out, {.table = filter.table, .ns = *filter.ns, .key = first.key, .item = {}}, filter, now);
  }
  return out;
}

// Appends from `first` on. Where the filter names a namespace, only ids of first's own: they are one range, and with a
// key a small one.
void Ledger::ListInto(std::vector<RecordId>& out, const RecordId& first, const ListFilter& filter,
                      absl::Time now) const {
  auto it = filter.after.has_value() && first <= *filter.after ? records_.upper_bound(*filter.after)
                                                               : records_.lower_bound(first);
  for (; it != records_.end() && it->first.table == filter.table && out.size() < filter.limit; ++it) {
    const RecordId& id = it->first;
    const bool other_key = filter.key.has_value() && id.key != *filter.key;
    if (filter.ns.has_value() && (id.ns != first.ns || other_key)) return;
    if (!other_key && it->second->dies.first > now) out.push_back(id);
  }
}

absl::Time Ledger::LeasedUntil(const std::string& holder, const RecordId& id) const {
  const auto record = records_.find(id);
  if (record == records_.end()) return absl::InfinitePast();
  const auto lease = record->second->leases.find(holder);
  return lease == record->second->leases.end() ? absl::InfinitePast() : lease->second;
}

bool Ledger::Touch(const RecordId& id, absl::Time when) {
  const auto it = records_.find(id);
  if (it == records_.end()) return false;
  by_use_.erase(it->second->used);
  it->second->used = NewPlace(when);
  by_use_.emplace(it->second->used, id);
  return true;
}

void Ledger::SetLease(const std::string& holder, const RecordId& id, absl::Time until) {
  records_.at(id)->leases[holder] = until;
  holders_[holder].insert(id);
}

std::vector<LeaseEntry> Ledger::DropLeases(const std::string& holder) {
  std::vector<LeaseEntry> out;
  const auto held = holders_.find(holder);
  if (held == holders_.end()) return out;
  for (const RecordId& id : held->second) {
    auto& leases = records_.at(id)->leases;
    out.push_back({holder, id, leases.at(holder)});
    leases.erase(holder);
  }
  holders_.erase(held);
  return out;
}

std::vector<LeaseEntry> Ledger::DropLapsedLeases(absl::Time now) {
  std::vector<LeaseEntry> out;
  for (auto& [holder, ids] : holders_) {
    absl::erase_if(ids, [&, &holder = holder](const RecordId& id) {
      auto& leases = records_.at(id)->leases;
      if (leases.at(holder) > now) return false;
      out.push_back({holder, id, leases.at(holder)});
      leases.erase(holder);
      return true;
    });
  }
  absl::erase_if(holders_, [](const auto& held) { return held.second.empty(); });
  return out;
}

std::vector<LeaseEntry> Ledger::Leases(const RecordId& id) const {
  std::vector<LeaseEntry> out;
  const auto it = records_.find(id);
  if (it == records_.end()) return out;
  for (const auto& [holder, until] : it->second->leases) out.push_back({holder, id, until});
  return out;
}

size_t Ledger::lease_count(absl::Time now) const {
  size_t n = 0;
  for (const auto& [holder, ids] : holders_) {
    n += static_cast<size_t>(std::count_if(
        ids.begin(), ids.end(), [&](const RecordId& id) { return records_.at(id)->leases.at(holder) > now; }));
  }
  return n;
}

absl::Time Ledger::LeasedUntil(const RecordEntry& record) {
  absl::Time until = absl::InfinitePast();
  for (const auto& [holder, lease] : record.leases) until = std::max(until, lease);
  return until;
}

void Ledger::Apply(const Change& change, absl::Time now) {
  for (const NewBlob& blob : change.add_blobs) Insert(blob, now);
  for (const Digest& digest : change.renewed_orphans) {
    Orphan(digest, blobs_.at(digest), now + options_.orphan_grace);
  }
  for (const NewRecord& record : change.put_records) Insert(record, now);
  for (const auto& [id, why] : change.remove_records) Erase(id, now);
  for (const Digest& digest : change.remove_blobs) Erase(digest);
}

void Ledger::Insert(const NewBlob& blob, absl::Time now) {
  BlobEntry& entry = blobs_[blob.digest];
  entry.bytes = blob.bytes;
  bytes_ += blob.bytes;
  Orphan(blob.digest, entry, now + options_.orphan_grace);
}

// A record that replaces another inherits its leases; blobs that both name are left as they are.
void Ledger::Insert(const NewRecord& record, absl::Time now) {
  auto entry = std::make_unique<RecordEntry>();
  entry->blobs = Sorted(record.blobs);
  entry->bytes = record.bytes;
  entry->used = NewPlace(now);
  entry->dies = NewPlace(record.expires);
  std::vector<Digest> old;
  std::unique_ptr<RecordEntry>& slot = records_[record.id];
  if (slot != nullptr) {
    old = slot->blobs;
    entry->leases = slot->leases;
    bytes_ -= slot->bytes;
    by_use_.erase(slot->used);
    by_death_.erase(slot->dies);
  } else {
    ++counts_.at(static_cast<size_t>(record.id.table));
  }
  Name(Without(entry->blobs, old));
  Unname(Without(old, entry->blobs), LeasedUntil(*entry), now);
  bytes_ += record.bytes;
  by_use_.emplace(entry->used, record.id);
  if (record.expires != absl::InfiniteFuture()) by_death_.emplace(entry->dies, record.id);
  slot = std::move(entry);
}

void Ledger::Erase(const RecordId& id, absl::Time now) {
  const auto it = records_.find(id);
  if (it == records_.end()) return;
  const RecordEntry& entry = *it->second;
  Unname(entry.blobs, LeasedUntil(entry), now);
  bytes_ -= entry.bytes;
  by_use_.erase(entry.used);
  by_death_.erase(entry.dies);
  for (const auto& [holder, until] : entry.leases) {
    const auto held = holders_.find(holder);
    held->second.erase(id);
    if (held->second.empty()) holders_.erase(held);
  }
  --counts_.at(static_cast<size_t>(id.table));
  records_.erase(it);
}

void Ledger::Erase(const Digest& digest) {
  const auto it = blobs_.find(digest);
  if (it == blobs_.end()) return;
  bytes_ -= it->second.bytes;
  orphans_.erase(it->second.stays);
  blobs_.erase(it);
}

void Ledger::Name(const std::vector<Digest>& blobs) {
  for (const Digest& digest : blobs) {
    BlobEntry& blob = blobs_.at(digest);
    if (blob.records++ == 0) orphans_.erase(blob.stays);
  }
}

void Ledger::Unname(const std::vector<Digest>& blobs, absl::Time leased_until, absl::Time now) {
  for (const Digest& digest : blobs) {
    BlobEntry& blob = blobs_.at(digest);
    blob.leased_until = std::max(blob.leased_until, leased_until);
    if (--blob.records == 0) Orphan(digest, blob, std::max(blob.leased_until, now));
  }
}

void Ledger::Orphan(const Digest& digest, BlobEntry& blob, absl::Time until) {
  orphans_.erase(blob.stays);
  blob.stays = NewPlace(until);
  orphans_.emplace(blob.stays, digest);
}

}  // namespace kiln
