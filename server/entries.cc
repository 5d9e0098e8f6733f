#include "server/entries.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/call_spec.pb.h"
#include "proto/compile.pb.h"
#include "server/wire.h"

namespace kiln {
namespace {

constexpr size_t kMinPrefix = 4;
constexpr size_t kPageRecords = 100;  // a record may have a megabyte

// The message stored in a blob; one without fields if that is gone or unreadable.
template <typename Message>
Message ReadMessage(Store& store, const RequestContext& ctx, const v1::Digest& digest) {
  Message message;
  const absl::StatusOr<Digest> d = FromProto(digest, "digest");
  if (!d.ok()) return message;
  const absl::StatusOr<std::string> bytes = store.GetBlob(ctx, *d);
  if (!bytes.ok() || !message.ParseFromString(*bytes)) message.Clear();
  return message;
}

int64_t Micros(absl::Time t) {
  if (t == absl::InfiniteFuture() || t == absl::InfinitePast()) return 0;
  return absl::ToUnixMicros(t);
}

void SummarizeAction(Store& store, const RequestContext& ctx, const v1::ActionRecord& action, v1::EntrySummary* out) {
  out->set_num_kernels(action.num_kernels());
  out->set_compile_seconds(action.compile_seconds());
  for (const v1::KeyPart& part : action.key_parts()) {
    if (part.name() == "target") out->set_target(part.value());
  }
  out->set_job(ReadMessage<v1::Provenance>(store, ctx, action.provenance()).job());
}

// The look-ups that are answered with the code of `action`.
absl::Status AddVariantsOf(Store& store, const RequestContext& ctx, const Key& action, std::vector<RecordId>& found) {
  return ForEachRecord(store, ctx, Table::kVariants, [&](const ListedRecord& listed) {
    v1::Variant variant;
    if (variant.ParseFromString(listed.record.value) && variant.record().key() == action.bytes())
      found.push_back(listed.record.id);
    return true;
  });
}

}  // namespace

absl::Status ForEachRecord(Store& store, const RequestContext& ctx, Table table,
                           const std::function<bool(const ListedRecord&)>& visit) {
  ListRequest request;
  request.table = table;
  request.all_namespaces = ctx.admin;
  request.limit = kPageRecords;
  while (true) {
    const absl::StatusOr<std::vector<ListedRecord>> page = store.List(ctx, request);
    if (!page.ok()) return page.status();
    for (const ListedRecord& record : *page) {
      if (!visit(record)) return absl::OkStatus();
    }
    if (page->size() < request.limit) return absl::OkStatus();
    request.after = page->back().record.id;
  }
}

absl::Status CheckKeyPrefix(const std::string& hex) {
  const bool is_hex = std::all_of(hex.begin(), hex.end(),
                                  [](unsigned char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (hex.size() < kMinPrefix || !is_hex) {
    return absl::InvalidArgumentError(absl::StrCat("key_prefix: want at least ", kMinPrefix, " lower-case hex digits"));
  }
  return absl::OkStatus();
}

absl::Status SeveralKeys(const std::string& hex, const Key& one, const Key& other) {
  return absl::InvalidArgumentError(
      absl::StrCat("key_prefix: several keys start with ", hex, ": ", one.Hex(), ", ", other.Hex(), ", …"));
}

v1::EntrySummary Summarize(Store& store, const RequestContext& ctx, const ListedRecord& listed) {
  const Record& record = listed.record;
  v1::EntrySummary out;
  out.set_key(std::string(record.id.key.bytes()));
  out.set_created_unix_micros(Micros(record.created));
  out.set_last_used_unix_micros(Micros(listed.last_used));
  out.set_expires_unix_micros(Micros(record.expires));
  uint64_t bytes = record.value.size();
  for (const Digest& blob : record.blobs) bytes += blob.size;
  out.set_bytes(bytes);
  if (record.id.table == Table::kNegative) {
    v1::Failure failure;
    if (failure.ParseFromString(record.value)) {
      out.set_error(absl::StrCat(OneLine(failure.message()), " (reproducer ", failure.reproducer(), ")"));
    }
  } else {
    v1::ActionRecord action;
    if (action.ParseFromString(record.value)) SummarizeAction(store, ctx, action, &out);
  }
  return out;
}

absl::StatusOr<v1::ListEntriesReply> ListEntries(Store& store, const RequestContext& ctx, bool negative,
                                                 uint32_t limit) {
  const uint32_t bound = limit == 0 ? kMaxListedEntries : std::min(limit, kMaxListedEntries);
  v1::ListEntriesReply reply;
  const Table table = negative ? Table::kNegative : Table::kActions;
  const absl::Status status = ForEachRecord(store, ctx, table, [&](const ListedRecord& listed) {
    if (static_cast<uint32_t>(reply.entries_size()) == bound) {
      reply.set_truncated(true);
      return false;
    }
    *reply.add_entries() = Summarize(store, ctx, listed);
    return true;
  });
  if (!status.ok()) return status;
  return reply;
}

absl::StatusOr<ListedRecord> FindEntry(Store& store, const RequestContext& ctx, const std::string& hex) {
  if (absl::Status s = CheckKeyPrefix(hex); !s.ok()) return s;
  std::vector<ListedRecord> found;
  for (const Table table : {Table::kActions, Table::kNegative}) {
    const absl::Status status = ForEachRecord(store, ctx, table, [&](const ListedRecord& listed) {
      if (absl::StartsWith(listed.record.id.key.Hex(), hex)) found.push_back(listed);
      return found.size() < 2;
    });
    if (!status.ok()) return status;
  }
  if (found.empty()) return absl::NotFoundError(absl::StrCat("no entry's key starts with ", hex));
  if (found.size() > 1) return SeveralKeys(hex, found[0].record.id.key, found[1].record.id.key);
  return found[0];
}

absl::StatusOr<v1::InspectEntryReply> InspectEntry(Store& store, const RequestContext& ctx, const std::string& hex) {
  const absl::StatusOr<ListedRecord> listed = FindEntry(store, ctx, hex);
  if (!listed.ok()) return listed.status();
  v1::InspectEntryReply reply;
  *reply.mutable_summary() = Summarize(store, ctx, *listed);
  if (listed->record.id.table == Table::kNegative) {
    reply.mutable_record()->set_key(reply.summary().key());
    return reply;
  }
  if (!reply.mutable_record()->ParseFromString(listed->record.value)) {
    return absl::DataLossError("the entry cannot be parsed");
  }
  *reply.mutable_guards() = ReadMessage<v1::GuardSpec>(store, ctx, reply.record().guards());
  *reply.mutable_provenance() = ReadMessage<v1::Provenance>(store, ctx, reply.record().provenance());
  return reply;
}

absl::StatusOr<uint64_t> RemoveEntries(Store& store, const RequestContext& ctx, const v1::RemoveEntriesRequest& which) {
  std::vector<RecordId> doomed;
  std::vector<Table> tables;
  if (which.all()) tables.assign(kAllTables.begin(), kAllTables.end());
  if (which.negative()) tables = {Table::kNegative};
  for (const Table table : tables) {
    const absl::Status status = ForEachRecord(store, ctx, table, [&](const ListedRecord& listed) {
      doomed.push_back(listed.record.id);
      return true;
    });
    if (!status.ok()) return status;
  }
  if (tables.empty()) {
    const absl::StatusOr<ListedRecord> listed = FindEntry(store, ctx, which.key_prefix());
    if (!listed.ok()) return listed.status();
    doomed.push_back(listed->record.id);
  }
  const uint64_t entries = doomed.size();
  if (tables.empty()) {
    const Key action = doomed[0].key;
    absl::Status status = AddVariantsOf(store, ctx, action, doomed);
    if (!status.ok()) return status;
  }
  for (const RecordId& id : doomed) {
    if (absl::Status s = store.RemoveRecord(ctx, id); !s.ok()) return s;
  }
  return entries;
}

}  // namespace kiln
