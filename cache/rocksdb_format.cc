#include "cache/rocksdb_format.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "cache/coding.h"

namespace kiln {
namespace {

constexpr uint8_t kRecordFormat = 1;
constexpr size_t kChecksumSize = 8;
constexpr size_t kIdSize = 32;

std::string_view View(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.hash.data()), digest.hash.size()};
}

void Encode(Encoder& e, const Digest& digest) {
  e.Raw(View(digest));
  e.U64(digest.size);
}

Digest Decode(Decoder& d) {
  Digest digest;
  const std::string_view hash = d.Raw(digest.hash.size());
  std::copy(hash.begin(), hash.end(), digest.hash.begin());
  digest.size = d.U64();
  return digest;
}

// The infinities have values of their own, so that they come back as what they were.
int64_t Micros(absl::Time t) {
  if (t == absl::InfiniteFuture()) return std::numeric_limits<int64_t>::max();
  if (t == absl::InfinitePast()) return std::numeric_limits<int64_t>::min();
  return absl::ToUnixMicros(t);
}

absl::Time FromMicros(int64_t micros) {
  if (micros == std::numeric_limits<int64_t>::max()) return absl::InfiniteFuture();
  if (micros == std::numeric_limits<int64_t>::min()) return absl::InfinitePast();
  return absl::FromUnixMicros(micros);
}

std::string Checksum(const RecordId& id, std::string_view body) {
  Hasher h;
  h.Update(EncodeAccessKey(id));
  h.Update(body);
  return std::string(View(h.Finish()).substr(0, kChecksumSize));
}

}  // namespace

std::string EncodeRecordKey(const RecordId& id) {
  std::string out = id.ns;
  out.push_back('\0');  // no namespace has one, so that a shorter one comes first
  out.append(id.key.bytes());
  out.append(id.item.bytes());
  return out;
}

std::optional<RecordId> DecodeRecordKey(Table table, std::string_view key) {
  const size_t zero = key.find('\0');
  if (zero == std::string_view::npos || key.size() != zero + 1 + 2 * kIdSize) return std::nullopt;
  RecordId id;
  id.table = table;
  id.ns = key.substr(0, zero);
  id.key = *Key::FromBytes(key.substr(zero + 1, kIdSize));
  id.item = *Key::FromBytes(key.substr(zero + 1 + kIdSize));
  return id;
}

std::string EncodeBlobKey(const Digest& digest) {
  Encoder e;
  Encode(e, digest);
  return e.Take();
}

std::optional<Digest> DecodeBlobKey(std::string_view key) {
  Decoder d(key);
  const Digest digest = Decode(d);
  return d.done() ? std::optional(digest) : std::nullopt;
}

std::string EncodeRecord(const Record& record) {
  Encoder e;
  e.U8(kRecordFormat);
  e.I64(Micros(record.created));
  e.I64(Micros(record.expires));
  e.U64(record.blobs.size());
  for (const Digest& digest : record.blobs) Encode(e, digest);
  e.Bytes(record.value);
  e.Raw(Checksum(record.id, e.str()));
  return e.Take();
}

absl::StatusOr<Record> DecodeRecord(const RecordId& id, std::string_view bytes) {
  const absl::Status bad = absl::DataLossError(absl::StrCat("record ", id.ToString(), " is garbled"));
  if (bytes.size() < kChecksumSize) return bad;
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksumSize);
  if (bytes.substr(body.size()) != Checksum(id, body)) return bad;
  Decoder d(body);
  if (d.U8() != kRecordFormat) return bad;
  Record record;
  record.id = id;
  record.created = FromMicros(d.I64());
  record.expires = FromMicros(d.I64());
  record.blobs.resize(d.Count(sizeof(Digest::hash) + sizeof(uint64_t)));
  for (Digest& digest : record.blobs) digest = Decode(d);
  record.value = d.Bytes();
  if (!d.done()) return bad;
  return record;
}

std::string EncodeTime(absl::Time t) {
  Encoder e;
  e.I64(Micros(t));
  return e.Take();
}

std::optional<absl::Time> DecodeTime(std::string_view bytes) {
  Decoder d(bytes);
  const int64_t micros = d.I64();
  return d.done() ? std::optional(FromMicros(micros)) : std::nullopt;
}

std::string EncodeSize(uint64_t size) {
  Encoder e;
  e.U64(size);
  return e.Take();
}

std::optional<uint64_t> DecodeSize(std::string_view bytes) {
  Decoder d(bytes);
  const uint64_t size = d.U64();
  return d.done() ? std::optional(size) : std::nullopt;
}

std::string EncodeAccessKey(const RecordId& id) {
  Encoder e;
  e.U8(static_cast<uint8_t>(id.table));
  e.Raw(EncodeRecordKey(id));
  return e.Take();
}

std::optional<RecordId> DecodeAccessKey(std::string_view key) {
  if (key.empty() || static_cast<uint8_t>(key[0]) >= kAllTables.size()) return std::nullopt;
  return DecodeRecordKey(static_cast<Table>(key[0]), key.substr(1));
}

std::string EncodeLeaseKey(const LeaseEntry& lease) {
  Encoder e;
  e.Bytes(lease.holder);
  e.Raw(EncodeAccessKey(lease.id));
  return e.Take();
}

std::optional<LeaseEntry> DecodeLeaseKey(std::string_view key) {
  Decoder d(key);
  LeaseEntry lease;
  lease.holder = d.Bytes();
  const std::optional<RecordId> id = DecodeAccessKey(d.Raw(d.left()));
  if (!id.has_value()) return std::nullopt;
  lease.id = *id;
  return lease;
}

}  // namespace kiln
