#include "server/action_cache.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/call_spec.h"
#include "server/wire.h"

namespace kiln {
namespace {

// How long a running job may count on what it was given.
constexpr absl::Duration kLease = absl::Hours(1);

// Leases end at multiples of this, so that the look-ups of one job renew theirs, which is a write, now and then only.
constexpr absl::Duration kLeaseStep = absl::Minutes(5);

absl::Time LeaseEnd(absl::Time now) {
  const int64_t step = absl::ToInt64Seconds(kLeaseStep);
  return absl::FromUnixSeconds((absl::ToUnixSeconds(now) / step + 1) * step) + kLease;
}

// A publication is for everybody: it neither ends with the request that led to it, nor waits for ever.
constexpr absl::Duration kPublishLimit = absl::Seconds(60);

// Adds a blob, unless it is empty, and its digest to the record.
v1::Digest AddBlob(std::string bytes, Publication* publication) {
  Blob blob = MakeBlob(std::move(bytes));
  const v1::Digest digest = ToProto(blob.digest);
  publication->records.back().blobs.push_back(blob.digest);
  publication->blobs.push_back(std::move(blob));
  return digest;
}

Record RecordFor(Table table, const Key& key) {
  Record record;
  record.id.table = table;
  record.id.key = key;
  return record;
}

// What tells the variants of a key apart.
absl::StatusOr<Key> PredicatesKey(const v1::Variant& variant) {
  v1::Variant when;
  when.set_version(variant.version());
  *when.mutable_syms() = variant.syms();
  *when.mutable_predicates() = variant.predicates();
  const absl::StatusOr<KeyParts> parts = KeyBuilder("variant").Add("when", SerializeDeterministic(when)).Build();
  if (!parts.ok()) return parts.status();
  return parts->ToKey();
}

Record MemberRecord(const RequestContext& ctx, const Key& key, const v1::SkeletonMember& member) {
  Record record = RecordFor(Table::kSkeletons, key);
  record.value = SerializeDeterministic(member);
  record.id.ns = ctx.ns;
  record.id.item = KeyBuilder("skeleton_member").Add("member", record.value).Build().value().ToKey();
  return record;
}

}  // namespace

std::optional<v1::Done> ActionCache::LookupAction(const RequestContext& ctx, const Key& key) {
  constexpr char kOperation[] = "lookup";
  std::optional<Record> record = Lookup(ctx, Table::kActions, key, kOperation);
  if (!record) return std::nullopt;
  v1::Done done;
  if (!done.mutable_record()->ParseFromString(record->value) || !done.record().has_artifact()) {
    Count(ctx, kOperation, absl::DataLossError("an action that cannot be parsed"));
    return std::nullopt;
  }
  if (!InlineBelow(ctx, kInlineBytes, kOperation, &done)) return std::nullopt;
  done.set_outcome(v1::Done::HIT);
  done.set_key(std::string(key.bytes()));
  if (!ctx.job_id.empty()) store_->Lease(ctx, record->id, LeaseEnd(clock_->Now())).IgnoreError();
  return done;
}

v1::Done ActionCache::PublishAction(const RequestContext& ctx, const Key& key, v1::ActionRecord record,
                                    ActionBlobs blobs) {
  v1::Done done;
  Publication publication;
  publication.records.push_back(RecordFor(Table::kActions, key));
  *record.mutable_artifact() = AddBlob(blobs.artifact, &publication);
  if (!blobs.shared_object.empty()) *record.mutable_shared_object() = AddBlob(blobs.shared_object, &publication);
  *record.mutable_provenance() = AddBlob(std::move(blobs.provenance), &publication);
  *record.mutable_guards() = AddBlob(std::move(blobs.guards), &publication);
  record.set_key(std::string(key.bytes()));
  publication.records.back().value = SerializeDeterministic(record);
  const bool stored = Publish(ctx, std::move(publication), "publish").ok();
  if (stored && !ctx.job_id.empty()) {
    store_->Lease(ctx, {Table::kActions, "", key, {}}, LeaseEnd(clock_->Now())).IgnoreError();
  }
  done.set_outcome(v1::Done::COMPILED);
  done.set_key(std::string(key.bytes()));
  *done.mutable_record() = std::move(record);
  if (!stored || blobs.artifact.size() < kInlineBytes) done.set_artifact(std::move(blobs.artifact));
  if (!stored || blobs.shared_object.size() < kInlineBytes) done.set_shared_object(std::move(blobs.shared_object));
  return done;
}

void ActionCache::InlineAll(const RequestContext& ctx, v1::Done* done) {
  InlineBelow(ctx, std::numeric_limits<uint64_t>::max(), "inline", done);
}

bool ActionCache::InlineBelow(const RequestContext& ctx, uint64_t bytes, const char* operation, v1::Done* done) {
  bool all = true;
  for (const auto& [digest, inlined] : {std::pair(&done->record().artifact(), done->mutable_artifact()),
                                        std::pair(&done->record().shared_object(), done->mutable_shared_object())}) {
    if (digest->sha256().empty() || digest->size() >= bytes || !inlined->empty()) continue;
    std::optional<std::string> blob = ReadBlob(ctx, *digest, operation);
    all &= blob.has_value();
    if (blob) *inlined = *std::move(blob);
  }
  return all;
}

std::optional<v1::Variant> ActionCache::LookupVariant(const RequestContext& ctx, const Key& key,
                                                      std::span<const int64_t> hints) {
  constexpr char kOperation[] = "lookup_variant";
  const absl::StatusOr<std::vector<ListedRecord>> found =
      store_->List(ctx, {.table = Table::kVariants, .key = key, .limit = kMaxVariants});
  Count(ctx, kOperation, found.status());
  if (!found.ok()) return std::nullopt;
  struct Candidate {
    int predicates;
    RecordId id;
    v1::Variant variant;
  };
  std::vector<Candidate> candidates;
  for (const ListedRecord& listed : *found) {
    v1::Variant variant;
    if (!variant.ParseFromString(listed.record.value) || variant.version() != kVariantVersion) continue;
    if (!PredicatesHold(variant, hints).value_or(false)) continue;
    candidates.push_back({variant.predicates_size(), listed.record.id, std::move(variant)});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.predicates, a.id) < std::tuple(-b.predicates, b.id);
  });
  for (Candidate& candidate : candidates) {
    // Complete, and used: a list says neither.
    const absl::StatusOr<Record> record = store_->GetRecord(ctx, candidate.id);
    Count(ctx, kOperation, record.status());
    if (!record.ok()) continue;
    if (!ctx.job_id.empty()) store_->Lease(ctx, candidate.id, LeaseEnd(clock_->Now())).IgnoreError();
    return std::move(candidate.variant);
  }
  return std::nullopt;
}

absl::Status ActionCache::PublishVariant(const RequestContext& ctx, const Key& key, v1::Variant variant,
                                         std::string request) {
  const absl::StatusOr<std::vector<ListedRecord>> present =
      store_->List(ctx, {.table = Table::kVariants, .key = key, .limit = kMaxVariants});
  if (!present.ok()) return present.status();
  Publication publication;
  publication.records.push_back(RecordFor(Table::kVariants, key));
  *variant.mutable_request() = AddBlob(std::move(request), &publication);
  Record& record = publication.records.back();
  for (const v1::Digest* digest : {&variant.record().artifact(), &variant.record().shared_object()}) {
    if (digest->sha256().empty()) continue;
    const absl::StatusOr<Digest> named = FromProto(*digest, "record");
    if (!named.ok()) return named.status();
    record.blobs.push_back(*named);
  }
  record.value = SerializeDeterministic(variant);
  record.id.ns = ctx.ns;
  const absl::StatusOr<Key> item = PredicatesKey(variant);
  if (!item.ok()) return item.status();
  record.id.item = *item;
  bool replaces = false;
  for (const ListedRecord& listed : *present) {
    if (listed.record.id != record.id) continue;
    if (listed.record.value == record.value) return absl::OkStatus();
    replaces = true;
  }
  if (!replaces && present->size() >= kMaxVariants) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the graph has ", present->size(), " variants, as many as it may"));
  }
  return Publish(ctx, std::move(publication), "publish_variant");
}

std::vector<v1::SkeletonMember> ActionCache::SkeletonMembers(const RequestContext& ctx, const Key& key, size_t limit) {
  const absl::StatusOr<std::vector<ListedRecord>> found =
      store_->List(ctx, {.table = Table::kSkeletons, .key = key, .limit = limit});
  Count(ctx, "lookup_skeleton", found.status());
  std::vector<v1::SkeletonMember> members;
  if (!found.ok()) return members;
  for (const ListedRecord& listed : *found) {
    v1::SkeletonMember member;
    if (member.ParseFromString(listed.record.value)) members.push_back(std::move(member));
  }
  return members;
}

void ActionCache::PublishSkeletonMember(const RequestContext& ctx, const Key& key, const v1::SkeletonMember& member) {
  Publication publication;
  publication.records.push_back(MemberRecord(ctx, key, member));
  Publish(ctx, std::move(publication), "publish_skeleton").IgnoreError();
}

void ActionCache::UseSkeletonMember(const RequestContext& ctx, const Key& key, const v1::SkeletonMember& member) {
  const RecordId id = MemberRecord(ctx, key, member).id;
  Count(ctx, "lookup_skeleton", store_->GetRecord(ctx, id).status());
  if (!ctx.job_id.empty()) store_->Lease(ctx, id, LeaseEnd(clock_->Now())).IgnoreError();
}

std::optional<v1::Failure> ActionCache::LookupNegative(const RequestContext& ctx, const Key& key) {
  constexpr char kOperation[] = "lookup_negative";
  const std::optional<Record> record = Lookup(ctx, Table::kNegative, key, kOperation);
  v1::Failure failure;
  if (!record || !failure.ParseFromString(record->value)) return std::nullopt;
  failure.set_negative(true);
  return failure;
}

std::string ActionCache::PublishNegative(const RequestContext& ctx, const Key& key, v1::Failure failure,
                                         std::string reproducer) {
  Publication publication;
  publication.records.push_back(RecordFor(Table::kNegative, key));
  publication.records.back().expires = clock_->Now() + negative_ttl_;
  AddBlob(std::move(reproducer), &publication);
  failure.set_reproducer(publication.blobs[0].digest.Hex());
  publication.records.back().value = SerializeDeterministic(failure);
  return Publish(ctx, std::move(publication), "publish_negative").ok() ? failure.reproducer() : "";
}

std::optional<std::string> ActionCache::LookupKernel(const RequestContext& ctx, const Key& key) {
  constexpr char kOperation[] = "lookup_kernel";
  const std::optional<Record> record = Lookup(ctx, Table::kKernels, key, kOperation);
  if (!record || record->blobs.size() != 1) return std::nullopt;
  return ReadBlob(ctx, ToProto(record->blobs[0]), kOperation);
}

void ActionCache::PublishKernel(const RequestContext& ctx, const Key& key, std::string object) {
  Publication publication;
  publication.records.push_back(RecordFor(Table::kKernels, key));
  AddBlob(std::move(object), &publication);
  Publish(ctx, std::move(publication), "publish_kernel").IgnoreError();
}

std::optional<Record> ActionCache::Lookup(const RequestContext& ctx, Table table, const Key& key,
                                          const char* operation) {
  absl::StatusOr<Record> record = store_->GetRecord(ctx, {table, "", key, {}});
  if (record.ok()) return *std::move(record);
  Count(ctx, operation, record.status());
  return std::nullopt;
}

std::optional<std::string> ActionCache::ReadBlob(const RequestContext& ctx, const v1::Digest& digest,
                                                 const char* operation) {
  const absl::StatusOr<Digest> d = FromProto(digest, "record");
  absl::StatusOr<std::string> bytes = d.ok() ? store_->GetBlob(ctx, *d) : d.status();
  if (bytes.ok()) return *std::move(bytes);
  Count(ctx, operation, bytes.status());
  return std::nullopt;
}

absl::Status ActionCache::Publish(const RequestContext& ctx, Publication publication, const char* operation) {
  RequestContext for_all = ctx;
  for_all.stop = std::stop_token();
  for_all.deadline = clock_->Now() + kPublishLimit;
  const absl::Status status = store_->Publish(for_all, publication);
  Count(ctx, operation, status);
  return status;
}

void ActionCache::Count(const RequestContext& ctx, const char* operation, const absl::Status& status) {
  if (status.ok() || absl::IsNotFound(status) || absl::IsCancelled(status)) return;
  metrics_->CacheError(operation);
  ForRequest(log_, ctx.request_id)->warn("cache: {}: {}", operation, OneLine(status.ToString()));
}

}  // namespace kiln
