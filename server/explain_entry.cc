#include "server/explain_entry.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/call_spec.pb.h"
#include "proto/compile.pb.h"
#include "server/entries.h"
#include "server/explain.h"
#include "server/wire.h"

namespace kiln {
namespace {

// Of requests and guards, in one explanation; entries beyond are compared by the parts of their keys alone.
constexpr uint64_t kMaxBytesRead = 64 << 20;

// Variants of one look-up whose conditions on sizes are compared.
constexpr size_t kMaxSiblings = 100;

// What a record says, but for what may be large.
struct Candidate {
  RecordId id;
  absl::Time created;
  std::vector<v1::KeyPart> key_parts;
  v1::Digest content;  // of the CompileRequest (of look-ups), else of the GuardSpec
  v1::Digest provenance;
};

bool IsNewer(const Candidate& a, const Candidate& b) { return std::tie(a.created, a.id) > std::tie(b.created, b.id); }

std::optional<Candidate> Read(const Record& record) {
  Candidate out{record.id, record.created, {}, {}, {}};
  if (record.id.table == Table::kVariants) {
    v1::Variant variant;
    if (!variant.ParseFromString(record.value)) return std::nullopt;
    out.key_parts.assign(variant.key_parts().begin(), variant.key_parts().end());
    out.content = variant.request();
    out.provenance = variant.record().provenance();
  } else {
    v1::ActionRecord action;
    if (!action.ParseFromString(record.value)) return std::nullopt;
    out.key_parts.assign(action.key_parts().begin(), action.key_parts().end());
    out.content = action.guards();
    out.provenance = action.provenance();
  }
  return out;
}

// The newest records of a table, and those whose keys start with a prefix.
struct Scan {
  std::vector<Candidate> newest;         // newest first
  bool truncated = false;                // there are more
  std::vector<Key> keys;                 // distinct ones with the prefix; two tell that there are several
  std::optional<Candidate> with_prefix;  // the newest
};

absl::StatusOr<Scan> ScanTable(Store& store, const RequestContext& ctx, Table table, const std::string& prefix) {
  Scan scan;
  const absl::Status status = ForEachRecord(store, ctx, table, [&](const ListedRecord& listed) {
    std::optional<Candidate> candidate = Read(listed.record);
    if (!candidate) return true;
    const Key& key = candidate->id.key;
    if (!prefix.empty() && absl::StartsWith(key.Hex(), prefix)) {
      if (std::find(scan.keys.begin(), scan.keys.end(), key) == scan.keys.end()) scan.keys.push_back(key);
      if (!scan.with_prefix || IsNewer(*candidate, *scan.with_prefix)) scan.with_prefix = candidate;
    }
    // A heap with the oldest on top.
    scan.newest.push_back(*std::move(candidate));
    std::push_heap(scan.newest.begin(), scan.newest.end(), IsNewer);
    if (scan.newest.size() > kMaxCompared) {
      scan.truncated = true;
      std::pop_heap(scan.newest.begin(), scan.newest.end(), IsNewer);
      scan.newest.pop_back();
    }
    return scan.keys.size() < 2;
  });
  if (!status.ok()) return status;
  std::sort_heap(scan.newest.begin(), scan.newest.end(), IsNewer);
  return scan;
}

class Explainer {
 public:
  Explainer(Store& store, const RequestContext& ctx) : store_(store), ctx_(ctx) {}

  absl::StatusOr<v1::ExplainReply> Run(const v1::ExplainRequest& which) {
    const std::string& prefix = which.key_prefix();
    if (which.which_case() == v1::ExplainRequest::WHICH_NOT_SET) {
      return absl::InvalidArgumentError("key_prefix, last_of_job: want one of them");
    }
    if (which.has_key_prefix()) {
      if (absl::Status s = CheckKeyPrefix(prefix); !s.ok()) return s;
    }
    std::array<Scan, 2> scans;
    for (const auto& [i, table] : {std::pair(0, Table::kActions), std::pair(1, Table::kVariants)}) {
      absl::StatusOr<Scan> scan = ScanTable(store_, ctx_, table, prefix);
      if (!scan.ok()) return scan.status();
      scans[static_cast<size_t>(i)] = *std::move(scan);
    }
    const absl::StatusOr<Candidate> entry =
        which.has_key_prefix() ? WithPrefix(scans, prefix) : LastOfJob(scans, which.last_of_job());
    if (!entry.ok()) return entry.status();
    return Explain(*entry, scans[entry->id.table == Table::kVariants ? 1 : 0]);
  }

 private:
  static absl::StatusOr<Candidate> WithPrefix(const std::array<Scan, 2>& scans, const std::string& prefix) {
    std::vector<Key> keys;
    for (const Scan& scan : scans) keys.insert(keys.end(), scan.keys.begin(), scan.keys.end());
    if (keys.empty()) return absl::NotFoundError(absl::StrCat("no entry's key starts with ", prefix));
    if (keys.size() > 1) return SeveralKeys(prefix, keys[0], keys[1]);
    return *(scans[0].with_prefix ? scans[0] : scans[1]).with_prefix;
  }

  absl::StatusOr<Candidate> LastOfJob(const std::array<Scan, 2>& scans, const std::string& job) {
    std::vector<const Candidate*> newest;
    for (const Scan& scan : scans) {
      for (const Candidate& candidate : scan.newest) newest.push_back(&candidate);
    }
    std::sort(newest.begin(), newest.end(), [](const Candidate* a, const Candidate* b) { return IsNewer(*a, *b); });
    for (const Candidate* candidate : newest) {
      const absl::StatusOr<std::string> of = JobOf(*candidate);
      if (!of.ok()) return of.status();
      if (*of == job) return *candidate;
    }
    return absl::NotFoundError(absl::StrCat("none of the ", newest.size(), " newest entries was compiled for the job '",
                                            OneLine(job, 100), "'"));
  }

  absl::StatusOr<v1::ExplainReply> Explain(const Candidate& entry, const Scan& scan) {
    const bool lookup = entry.id.table == Table::kVariants;
    if (lookup) {
      if (absl::Status s = ReadPredicates(entry.id.key); !s.ok()) return s;
    }
    v1::ExplainReply reply;
    if (absl::Status s = Describe(entry, reply.mutable_entry()); !s.ok()) return s;
    reply.set_lookup(lookup);
    reply.set_truncated(scan.truncated);
    const absl::StatusOr<ExplainedEntry> after = Load(entry);
    if (!after.ok()) return after.status();
    struct Near {
      const Candidate* candidate;
      Comparison comparison;
    };
    std::vector<Near> nearest;
    for (const Candidate* candidate : ByParts(entry, *after, scan)) {
      const absl::StatusOr<ExplainedEntry> before = Load(*candidate);
      if (!before.ok()) return before.status();
      reply.set_compared(reply.compared() + 1);
      Comparison comparison = Compare(*before, *after);
      const auto place = std::find_if(nearest.begin(), nearest.end(),
                                      [&](const Near& n) { return IsNearer(comparison, n.comparison); });
      if (place - nearest.begin() == kMaxNearest) continue;
      nearest.insert(place, {candidate, std::move(comparison)});
      if (nearest.size() > kMaxNearest) nearest.pop_back();
    }
    for (const Near& near : nearest) {
      v1::ExplainReply::Neighbour* out = reply.add_nearest();
      if (absl::Status s = Describe(*near.candidate, out->mutable_entry()); !s.ok()) return s;
      *out->mutable_differences() = {near.comparison.differences.begin(), near.comparison.differences.end()};
      out->set_omitted(static_cast<uint32_t>(near.comparison.count - near.comparison.differences.size()));
    }
    return reply;
  }

  // Those that share most with the entry first, so that it is their content that is read, then the newest.
  static std::vector<const Candidate*> ByParts(const Candidate& entry, const ExplainedEntry& after, const Scan& scan) {
    struct Ranked {
      Comparison by_parts;
      const Candidate* candidate;
    };
    ExplainedEntry parts_only;
    parts_only.key = after.key;
    parts_only.ns = after.ns;
    parts_only.key_parts = after.key_parts;
    std::vector<Ranked> ranked;
    for (const Candidate& candidate : scan.newest) {
      if (candidate.id == entry.id) continue;
      ExplainedEntry before;
      before.key = std::string(candidate.id.key.bytes());
      before.ns = candidate.id.ns;
      before.key_parts = candidate.key_parts;
      ranked.push_back({Compare(before, parts_only), &candidate});
    }
    std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
      if (IsNearer(a.by_parts, b.by_parts)) return true;
      return !IsNearer(b.by_parts, a.by_parts) && IsNewer(*a.candidate, *b.candidate);
    });
    std::vector<const Candidate*> out;
    for (const Ranked& r : ranked) out.push_back(r.candidate);
    return out;
  }

  absl::StatusOr<ExplainedEntry> Load(const Candidate& candidate) {
    ExplainedEntry out;
    out.key = std::string(candidate.id.key.bytes());
    out.ns = candidate.id.ns;
    out.key_parts = candidate.key_parts;
    const absl::StatusOr<std::string> bytes = ReadBlob(candidate.content);
    if (!bytes.ok()) return bytes.status();
    if (candidate.id.table == Table::kVariants) {
      v1::CompileRequest request;
      if (!bytes->empty() && request.ParseFromString(*bytes)) {
        out.guards = std::move(*request.mutable_guards());
        out.graph = std::move(*request.mutable_graph());
      }
      for (const auto& [id, variant] : variants_) {
        if (id != candidate.id) continue;
        out.syms = variant.syms();
        out.predicates.assign(variant.predicates().begin(), variant.predicates().end());
      }
    } else if (v1::GuardSpec guards; !bytes->empty() && guards.ParseFromString(*bytes)) {
      out.guards = std::move(guards);
    }
    return out;
  }

  // The variants that share the entry's key: what they ask of sizes matters among them alone.
  absl::Status ReadPredicates(const Key& key) {
    const absl::StatusOr<std::vector<ListedRecord>> found =
        store_.List(ctx_, {.table = Table::kVariants, .key = key, .all_namespaces = ctx_.admin, .limit = kMaxSiblings});
    if (!found.ok()) return found.status();
    for (const ListedRecord& listed : *found) {
      v1::Variant variant, kept;
      if (!variant.ParseFromString(listed.record.value)) continue;
      *kept.mutable_syms() = std::move(*variant.mutable_syms());
      *kept.mutable_predicates() = std::move(*variant.mutable_predicates());
      variants_.emplace_back(listed.record.id, std::move(kept));
    }
    return absl::OkStatus();
  }

  absl::Status Describe(const Candidate& candidate, v1::ExplainReply::Entry* out) {
    out->set_key(std::string(candidate.id.key.bytes()));
    out->set_created_unix_micros(absl::ToUnixMicros(candidate.created));
    const absl::StatusOr<std::string> job = JobOf(candidate);
    if (job.ok()) out->set_job(*job);
    return job.status();
  }

  absl::StatusOr<std::string> JobOf(const Candidate& candidate) {
    const absl::StatusOr<std::string> bytes = ReadBlob(candidate.provenance);
    if (!bytes.ok()) return bytes.status();
    v1::Provenance provenance;
    return provenance.ParseFromString(*bytes) ? provenance.job() : "";
  }

  // Empty if it is gone, or more than may be read. The context's end is an error.
  absl::StatusOr<std::string> ReadBlob(const v1::Digest& digest) {
    const absl::StatusOr<Digest> d = FromProto(digest, "digest");
    if (!d.ok() || d->size > kMaxBytesRead - bytes_read_) return std::string();
    bytes_read_ += d->size;
    absl::StatusOr<std::string> bytes = store_.GetBlob(ctx_, *d);
    if (bytes.ok() || absl::IsDeadlineExceeded(bytes.status()) || absl::IsCancelled(bytes.status())) return bytes;
    return std::string();
  }

  Store& store_;
  const RequestContext& ctx_;
  uint64_t bytes_read_ = 0;
  std::vector<std::pair<RecordId, v1::Variant>> variants_;
};

}  // namespace

absl::StatusOr<v1::ExplainReply> ExplainEntry(Store& store, const RequestContext& ctx,
                                              const v1::ExplainRequest& which) {
  return Explainer(store, ctx).Run(which);
}

}  // namespace kiln
