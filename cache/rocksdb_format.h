// How records and blobs are laid out in RocksDB. A change of anything here needs a new kSchemaVersion.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cache/digest.h"
#include "cache/ledger.h"
#include "cache/record.h"

namespace kiln {

inline constexpr std::string_view kSchemaKey = "schema";
inline constexpr std::string_view kSchemaVersion = "1";

// Keys order as ids do: by (ns, key, item) in a table, by hash for blobs.
std::string EncodeRecordKey(const RecordId& id);
std::optional<RecordId> DecodeRecordKey(Table table, std::string_view key);
std::string EncodeBlobKey(const Digest& digest);
std::optional<Digest> DecodeBlobKey(std::string_view key);

// The value ends with a checksum over id and contents. DataLoss if it does not hold.
std::string EncodeRecord(const Record& record);
absl::StatusOr<Record> DecodeRecord(const RecordId& id, std::string_view bytes);

std::string EncodeTime(absl::Time t);
std::optional<absl::Time> DecodeTime(std::string_view bytes);
std::string EncodeSize(uint64_t size);
std::optional<uint64_t> DecodeSize(std::string_view bytes);

// Keys of what is kept beside the records.
std::string EncodeAccessKey(const RecordId& id);
std::optional<RecordId> DecodeAccessKey(std::string_view key);
std::string EncodeLeaseKey(const LeaseEntry& lease);
std::optional<LeaseEntry> DecodeLeaseKey(std::string_view key);  // without `until`

}  // namespace kiln
