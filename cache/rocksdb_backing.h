// Bytes of a LedgerStore in RocksDB: one column family a table, one for blobs, a few for the books.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/backing.h"
#include "cache/ledger_store.h"

namespace kiln {

// Of the column families, in the order in which they are opened.
enum class Family : uint8_t {
  kDefault,  // the schema's version
  kActions,  // Family::kActions + n is the n-th of kAllTables
  kVariants,
  kKernels,
  kNegative,
  kJobs,
  kSkeletons,
  kBlobs,   // contents as stored
  kSizes,   // a blob's stored size: what it weighs, without reading it
  kAccess,  // times of last use
  kLeases,
  kCount,
};

rocksdb::DBOptions MakeDbOptions(rocksdb::Env* env);
std::vector<rocksdb::ColumnFamilyDescriptor> MakeFamilies();

// Corruption is DataLoss, a full disk ResourceExhausted, other trouble with the disk Unavailable.
absl::Status ToStatus(const rocksdb::Status& s);

// Thread-safe once opened.
class RocksDbBacking final : public Backing {
 public:
  // Makes what is missing, but for `dir`. DataLoss if the files are not what RocksDB wrote; InvalidArgument if they
  // were written with other column families.
  static absl::StatusOr<std::unique_ptr<RocksDbBacking>> Open(const std::string& dir, rocksdb::Env* env);

  // Read-only, and content with damaged files: the inventory is what can still be read.
  static absl::StatusOr<std::unique_ptr<RocksDbBacking>> OpenDamaged(const std::string& dir, rocksdb::Env* env);
  ~RocksDbBacking() override;

  absl::StatusOr<std::string> ReadBlob(const Digest& digest, absl::Duration left) override;
  absl::StatusOr<Record> ReadRecord(const RecordId& id, absl::Duration left) override;
  absl::Status Write(const WriteSet& writes) override;
  absl::Status Recover() override;

  // The version, of a database that this program may not be able to open.
  static absl::StatusOr<std::string> PeekSchemaVersion(const std::string& dir, rocksdb::Env* env);

  // NotFound in a database just made.
  absl::StatusOr<std::string> ReadSchemaVersion();
  absl::Status WriteSchemaVersion();

  // All that is stored. Garbled entries are removed and counted; DataLoss if not everything can be read. Of a damaged
  // database: all that can be read, and nothing is removed.
  absl::StatusOr<Inventory> TakeInventory();

 private:
  explicit RocksDbBacking(bool damaged) : damaged_(damaged) {}
  rocksdb::ColumnFamilyHandle* Of(Family family) const { return handles_[static_cast<size_t>(family)]; }
  rocksdb::ColumnFamilyHandle* Of(Table table) const {
    return handles_[static_cast<size_t>(Family::kActions) + static_cast<size_t>(table)];
  }
  absl::StatusOr<std::string> Get(rocksdb::ColumnFamilyHandle* family, const std::string& key,
                                  const rocksdb::ReadOptions& options);

  // Gives false for an entry that is garbled.
  using Take = std::function<bool(std::string_view key, std::string_view value)>;
  absl::Status Scan(rocksdb::ColumnFamilyHandle* family, uint64_t* garbled, const Take& take);
  rocksdb::ReadOptions MakeReadOptions(absl::Duration left) const;

  const bool damaged_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

}  // namespace kiln
