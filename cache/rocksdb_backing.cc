#include "cache/rocksdb_backing.h"

#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <chrono>
#include <cstdarg>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cache/rocksdb_format.h"

namespace kiln {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMinBlobFileValue = 4096;  // a smaller blob stays in the tree

rocksdb::Slice ToSlice(std::string_view s) { return {s.data(), s.size()}; }
std::string_view View(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

rocksdb::ColumnFamilyOptions FamilyOptions() {
  // One cache for all families; the blobs' contents do not go through it.
  static const std::shared_ptr<rocksdb::Cache>* const cache =
      new std::shared_ptr<rocksdb::Cache>(rocksdb::NewLRUCache(32 * kMiB));
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = *cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // Compression is a layer above, and knows what is worth it.
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 4 * kMiB;
  return options;
}

rocksdb::ColumnFamilyOptions BlobFamilyOptions() {
  rocksdb::ColumnFamilyOptions options = FamilyOptions();
  options.write_buffer_size = 64 * kMiB;
  options.enable_blob_files = true;
  options.min_blob_size = kMinBlobFileValue;
  options.blob_file_size = 64 * kMiB;
  options.enable_blob_garbage_collection = true;
  // Evicted blobs are spread over files of every age: all are candidates once half of the oldest is garbage.
  options.blob_garbage_collection_age_cutoff = 1.0;
  options.blob_garbage_collection_force_threshold = 0.5;
  return options;
}

// RocksDB's own log would be a file that a full disk breaks, and it aborts when a line of that cannot be written. What
// goes wrong is in the statuses that it returns.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

rocksdb::DBOptions MakeDbOptions(rocksdb::Env* env) {
  rocksdb::DBOptions options;
  options.env = env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.allow_fallocate = false;  // else a new log takes 70 MiB at once
  options.max_background_jobs = 2;
  options.max_total_wal_size = 256 * kMiB;
  options.max_open_files = 256;
  options.info_log = std::make_shared<NoLog>();
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> MakeFamilies() {
  std::vector<rocksdb::ColumnFamilyDescriptor> out;
  out.emplace_back(rocksdb::kDefaultColumnFamilyName, FamilyOptions());
  for (Table table : kAllTables) out.emplace_back(std::string(TableName(table)), FamilyOptions());
  out.emplace_back("blobs", BlobFamilyOptions());
  for (const char* name : {"sizes", "access", "leases"}) out.emplace_back(name, FamilyOptions());
  return out;
}

absl::Status ToStatus(const rocksdb::Status& s) {
  if (s.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("rocksdb: ", s.ToString());
  if (s.IsNotFound()) return absl::NotFoundError(text);
  if (s.IsCorruption() || s.IsPathNotFound()) return absl::DataLossError(text);  // or a file that is gone
  if (s.IsInvalidArgument()) return absl::InvalidArgumentError(text);
  if (s.IsNoSpace()) return absl::ResourceExhaustedError(text);
  if (s.IsTimedOut()) return absl::DeadlineExceededError(text);
  return absl::UnavailableError(text);
}

absl::StatusOr<std::unique_ptr<RocksDbBacking>> RocksDbBacking::Open(const std::string& dir, rocksdb::Env* env) {
  std::unique_ptr<RocksDbBacking> out(new RocksDbBacking(/*damaged=*/false));
  rocksdb::DB* db = nullptr;
  const rocksdb::Status s = rocksdb::DB::Open(MakeDbOptions(env), dir, MakeFamilies(), &out->handles_, &db);
  if (!s.ok()) return ToStatus(s);
  out->db_.reset(db);
  return out;
}

absl::StatusOr<std::unique_ptr<RocksDbBacking>> RocksDbBacking::OpenDamaged(const std::string& dir, rocksdb::Env* env) {
  std::unique_ptr<RocksDbBacking> out(new RocksDbBacking(/*damaged=*/true));
  rocksdb::DBOptions options = MakeDbOptions(env);
  // A publication is one entry of the log: those behind a bad one are as good as those before it.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  options.paranoid_checks = false;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status s = rocksdb::DB::OpenForReadOnly(options, dir, MakeFamilies(), &out->handles_, &db);
  if (!s.ok()) return ToStatus(s);
  out->db_.reset(db);
  return out;
}

RocksDbBacking::~RocksDbBacking() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
  db_->Close();
}

rocksdb::ReadOptions RocksDbBacking::MakeReadOptions(absl::Duration left) const {
  rocksdb::ReadOptions options;
  // Records have a checksum of their own; without RocksDB's, a bad block costs only the entries that are bad.
  options.verify_checksums = !damaged_;
  if (left != absl::InfiniteDuration()) {
    options.deadline = std::chrono::microseconds(db_->GetEnv()->NowMicros() + absl::ToInt64Microseconds(left));
  }
  return options;
}

absl::StatusOr<std::string> RocksDbBacking::Get(rocksdb::ColumnFamilyHandle* family, const std::string& key,
                                                const rocksdb::ReadOptions& options) {
  std::string value;
  const rocksdb::Status s = db_->Get(options, family, key, &value);
  if (!s.ok()) return ToStatus(s);
  return value;
}

absl::StatusOr<std::string> RocksDbBacking::ReadBlob(const Digest& digest, absl::Duration left) {
  rocksdb::ReadOptions options = MakeReadOptions(left);
  options.verify_checksums = true;
  return Get(Of(Family::kBlobs), EncodeBlobKey(digest), options);
}

absl::StatusOr<Record> RocksDbBacking::ReadRecord(const RecordId& id, absl::Duration left) {
  const absl::StatusOr<std::string> bytes = Get(Of(id.table), EncodeRecordKey(id), MakeReadOptions(left));
  if (!bytes.ok()) return bytes.status();
  return DecodeRecord(id, *bytes);
}

absl::Status RocksDbBacking::Write(const WriteSet& writes) {
  rocksdb::WriteBatch batch;
  for (const Blob* blob : writes.put_blobs) {
    const std::string key = EncodeBlobKey(blob->digest);
    batch.Put(Of(Family::kBlobs), key, blob->bytes);
    batch.Put(Of(Family::kSizes), key, EncodeSize(blob->bytes.size()));
  }
  if (absl::Status s = writes.hook ? writes.hook(PublishStep::kBlobsStaged) : absl::OkStatus(); !s.ok()) return s;
  for (const Record* record : writes.put_records) {
    batch.Put(Of(record->id.table), EncodeRecordKey(record->id), EncodeRecord(*record));
  }
  for (const RecordId& id : writes.delete_records) {
    batch.Delete(Of(id.table), EncodeRecordKey(id));
    batch.Delete(Of(Family::kAccess), EncodeAccessKey(id));
  }
  for (const Digest& digest : writes.delete_blobs) {
    batch.Delete(Of(Family::kBlobs), EncodeBlobKey(digest));
    batch.Delete(Of(Family::kSizes), EncodeBlobKey(digest));
  }
  for (const auto& [id, when] : writes.access) batch.Put(Of(Family::kAccess), EncodeAccessKey(id), EncodeTime(when));
  for (const LeaseEntry& l : writes.put_leases) batch.Put(Of(Family::kLeases), EncodeLeaseKey(l), EncodeTime(l.until));
  for (const LeaseEntry& l : writes.delete_leases) batch.Delete(Of(Family::kLeases), EncodeLeaseKey(l));
  if (absl::Status s = writes.hook ? writes.hook(PublishStep::kRecordsStaged) : absl::OkStatus(); !s.ok()) return s;
  if (batch.Count() == 0) return absl::OkStatus();
  rocksdb::WriteOptions options;
  options.sync = writes.sync;
  return ToStatus(db_->Write(options, &batch));
}

absl::Status RocksDbBacking::Recover() { return ToStatus(db_->Resume()); }

absl::StatusOr<std::string> RocksDbBacking::ReadSchemaVersion() {
  return Get(Of(Family::kDefault), std::string(kSchemaKey), rocksdb::ReadOptions());
}

absl::StatusOr<std::string> RocksDbBacking::PeekSchemaVersion(const std::string& dir, rocksdb::Env* env) {
  RocksDbBacking peek(/*damaged=*/true);
  const std::vector<rocksdb::ColumnFamilyDescriptor> only_default = {MakeFamilies().front()};
  rocksdb::DB* db = nullptr;
  const rocksdb::Status s = rocksdb::DB::OpenForReadOnly(MakeDbOptions(env), dir, only_default, &peek.handles_, &db);
  if (!s.ok()) return ToStatus(s);
  peek.db_.reset(db);
  return peek.ReadSchemaVersion();
}

absl::Status RocksDbBacking::WriteSchemaVersion() {
  rocksdb::WriteOptions options;
  options.sync = true;
  return ToStatus(db_->Put(options, Of(Family::kDefault), ToSlice(kSchemaKey), ToSlice(kSchemaVersion)));
}

absl::Status RocksDbBacking::Scan(rocksdb::ColumnFamilyHandle* family, uint64_t* garbled, const Take& take) {
  std::vector<std::string> bad;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(MakeReadOptions(absl::InfiniteDuration()), family));
  std::string last;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    last = it->key().ToString();
    if (!take(View(it->key()), View(it->value()))) bad.push_back(last);
  }
  *garbled += bad.size();
  if (damaged_) {
    // From the end back to where the way forward was barred.
    if (!it->status().ok()) {
      for (it->SeekToLast(); it->Valid() && View(it->key()) > last; it->Prev())
        take(View(it->key()), View(it->value()));
    }
    return absl::OkStatus();
  }
  if (!it->status().ok()) return ToStatus(it->status());
  rocksdb::WriteBatch drop;
  for (const std::string& key : bad) drop.Delete(family, key);
  return bad.empty() ? absl::OkStatus() : ToStatus(db_->Write(rocksdb::WriteOptions(), &drop));
}

absl::StatusOr<Inventory> RocksDbBacking::TakeInventory() {
  Inventory out;
  absl::Status s = Scan(Of(Family::kSizes), &out.corrupt, [&](std::string_view key, std::string_view value) {
    const std::optional<Digest> digest = DecodeBlobKey(key);
    const std::optional<uint64_t> size = DecodeSize(value);
    if (!digest || !size) return false;
    out.blobs.push_back({*digest, BlobBytes(*size)});
    return true;
  });
  for (Table table : kAllTables) {
    if (s.ok())
      s = Scan(Of(table), &out.corrupt, [&](std::string_view key, std::string_view value) {
        const std::optional<RecordId> id = DecodeRecordKey(table, key);
        const absl::StatusOr<Record> record = id ? DecodeRecord(*id, value) : absl::DataLossError("key");
        if (!record.ok()) return false;
        out.records.push_back({*id, record->blobs, RecordBytes(*record), record->expires});
        return true;
      });
  }
  uint64_t ignored = 0;  // losing what follows harms nothing
  if (s.ok())
    s = Scan(Of(Family::kAccess), &ignored, [&](std::string_view key, std::string_view value) {
      const std::optional<RecordId> id = DecodeAccessKey(key);
      const std::optional<absl::Time> when = DecodeTime(value);
      if (!id || !when) return false;
      out.access.emplace_back(*id, *when);
      return true;
    });
  if (s.ok())
    s = Scan(Of(Family::kLeases), &ignored, [&](std::string_view key, std::string_view value) {
      std::optional<LeaseEntry> lease = DecodeLeaseKey(key);
      const std::optional<absl::Time> until = DecodeTime(value);
      if (!lease || !until) return false;
      lease->until = *until;
      out.leases.push_back(*std::move(lease));
      return true;
    });
  if (!s.ok()) return s;
  return out;
}

}  // namespace kiln
