#include "cache/rocksdb_store.h"

#include <rocksdb/env.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/dir_lock.h"
#include "cache/ledger_store.h"
#include "cache/rocksdb_backing.h"
#include "cache/rocksdb_format.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// What lies in the store's directory.
struct Paths {
  explicit Paths(const std::string& dir)
      : root(dir), db(root / "db"), rescue(root / "db.new"), old(root / "db.old"), marker(root / "damaged") {}
  fs::path root;
  fs::path db;
  fs::path rescue;  // a salvage under way; complete once `db` has become `old`
  fs::path old;
  fs::path marker;  // a file that says: the database was found to be damaged while in use
};

struct Opened {
  std::unique_ptr<RocksDbBacking> backing;
  Inventory inventory;
};

absl::Status FileStatus(const std::error_code& error, const fs::path& path) {
  if (!error) return absl::OkStatus();
  const std::string text = absl::StrCat(path.string(), ": ", error.message());
  return error == std::errc::no_space_on_device ? absl::ResourceExhaustedError(text) : absl::UnavailableError(text);
}

absl::Status MakeRoot(const Paths& paths) {
  std::error_code error;
  if (fs::create_directories(paths.root, error)) fs::permissions(paths.root, fs::perms::owner_all, error);
  return FileStatus(error, paths.root);
}

absl::Status RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  return FileStatus(error, path);
}

absl::Status MakeEmpty(const fs::path& path) {
  if (absl::Status s = RemoveAll(path); !s.ok()) return s;
  std::error_code error;
  fs::create_directory(path, error);
  return FileStatus(error, path);
}

absl::Status UnknownSchema(const absl::StatusOr<std::string>& version) {
  return absl::FailedPreconditionError(absl::StrCat("cache: the store has schema version ",
                                                    version.ok() ? *version : "unknown", ", this program knows ",
                                                    std::string(kSchemaVersion)));
}

// Ok: it is ours, or has just become ours. NotFound: it has lost its version.
absl::Status CheckSchema(RocksDbBacking& backing, bool created) {
  if (created) return backing.WriteSchemaVersion();
  const absl::StatusOr<std::string> version = backing.ReadSchemaVersion();
  if (!version.ok()) return version.status();
  return *version == kSchemaVersion ? absl::OkStatus() : UnknownSchema(version);
}

absl::StatusOr<Opened> OpenSound(const fs::path& db, bool created, rocksdb::Env* env) {
  absl::StatusOr<std::unique_ptr<RocksDbBacking>> backing = RocksDbBacking::Open(db.string(), env);
  if (absl::IsInvalidArgument(backing.status()))
    return UnknownSchema(RocksDbBacking::PeekSchemaVersion(db.string(), env));
  if (!backing.ok()) return backing.status();
  if (absl::Status s = CheckSchema(**backing, created); !s.ok()) return s;
  absl::StatusOr<Inventory> inventory = (*backing)->TakeInventory();
  if (!inventory.ok()) return inventory.status();
  return Opened{*std::move(backing), *std::move(inventory)};
}

// One entry a write: the memory needed is that of the largest blob.
absl::Status Copy(RocksDbBacking& from, RocksDbBacking& to) {
  const absl::StatusOr<Inventory> inventory = from.TakeInventory();
  if (!inventory.ok()) return inventory.status();
  absl::Status s;
  for (auto blob = inventory->blobs.begin(); blob != inventory->blobs.end() && s.ok(); ++blob) {
    absl::StatusOr<std::string> bytes = from.ReadBlob(blob->digest, absl::InfiniteDuration());
    const Blob copy{blob->digest, bytes.ok() ? *std::move(bytes) : ""};
    if (bytes.ok()) s = to.Write({.put_blobs = {&copy}});
  }
  for (auto record = inventory->records.begin(); record != inventory->records.end() && s.ok(); ++record) {
    const absl::StatusOr<Record> copy = from.ReadRecord(record->id, absl::InfiniteDuration());
    if (copy.ok()) s = to.Write({.put_records = {&*copy}});
  }
  if (s.ok()) s = to.Write({.access = inventory->access, .put_leases = inventory->leases});
  return s.ok() ? to.WriteSchemaVersion() : s;  // which syncs all of it
}

// What can be read goes to new files, which then take the place of the old. FailedPrecondition as CheckSchema.
absl::Status Salvage(const Paths& paths, rocksdb::Env* env) {
  {
    absl::StatusOr<std::unique_ptr<RocksDbBacking>> from = RocksDbBacking::OpenDamaged(paths.db.string(), env);
    if (!from.ok()) return from.status();
    if (absl::Status s = CheckSchema(**from, false); absl::IsFailedPrecondition(s)) return s;
    if (absl::Status s = MakeEmpty(paths.rescue); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<RocksDbBacking>> to = RocksDbBacking::Open(paths.rescue.string(), env);
    if (!to.ok()) return to.status();
    if (absl::Status s = Copy(**from, **to); !s.ok()) return s;
  }
  std::error_code error;
  fs::rename(paths.db, paths.old, error);
  if (!error) fs::rename(paths.rescue, paths.db, error);
  if (!error) fs::remove_all(paths.old, error);
  return FileStatus(error, paths.db);
}

// Finishes or undoes a salvage that was interrupted.
absl::Status CleanUp(const Paths& paths) {
  std::error_code error;
  if (!fs::exists(paths.db, error) && fs::exists(paths.rescue, error)) fs::rename(paths.rescue, paths.db, error);
  if (absl::Status s = RemoveAll(paths.rescue); !s.ok()) return s;
  return RemoveAll(paths.old);
}

// The damage is such that RocksDB, or the version, or the scan of all keys said so.
bool IsDamage(const absl::Status& s) { return absl::IsDataLoss(s) || absl::IsNotFound(s); }

absl::StatusOr<Opened> OpenDamaged(const Paths& paths, OpenReport& report, rocksdb::Env* env) {
  absl::Status s = Salvage(paths, env);
  if (absl::IsFailedPrecondition(s) || absl::IsResourceExhausted(s)) return s;
  report.salvaged = s.ok();
  report.lost = !s.ok();
  if (!s.ok()) s = RemoveAll(paths.rescue);
  if (s.ok() && report.lost) s = MakeEmpty(paths.db);
  if (s.ok()) s = RemoveAll(paths.marker);
  if (!s.ok()) return s;
  return OpenSound(paths.db, report.lost, env);
}

// Leaves the marker when RocksDB finds damage while in use: it takes no more writes then, until the next opening has
// salvaged what is sound.
class MarkingBacking final : public Backing {
 public:
  MarkingBacking(std::unique_ptr<DirLock> lock, std::unique_ptr<RocksDbBacking> inner, fs::path marker)
      : lock_(std::move(lock)), inner_(std::move(inner)), marker_(std::move(marker)) {}

  absl::StatusOr<std::string> ReadBlob(const Digest& digest, absl::Duration left) override {
    return inner_->ReadBlob(digest, left);
  }
  absl::StatusOr<Record> ReadRecord(const RecordId& id, absl::Duration left) override {
    return inner_->ReadRecord(id, left);
  }
  absl::Status Write(const WriteSet& writes) override { return Marked(inner_->Write(writes)); }
  absl::Status Recover() override { return Marked(inner_->Recover()); }

 private:
  absl::Status Marked(absl::Status s) {
    if (absl::IsDataLoss(s)) std::ofstream(marker_) << s.ToString() << '\n';
    return s;
  }

  const std::unique_ptr<DirLock> lock_;  // first: given up when the files are closed
  const std::unique_ptr<RocksDbBacking> inner_;
  const fs::path marker_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenRocksDbStore(const std::string& dir, const StoreOptions& options,
                                                        OpenReport* report, rocksdb::Env* env) {
  OpenReport unwanted;
  OpenReport& out = report == nullptr ? unwanted : *report;
  out = OpenReport();
  if (env == nullptr) env = rocksdb::Env::Default();
  const Paths paths(dir);
  if (absl::Status s = MakeRoot(paths); !s.ok()) return s;
  absl::StatusOr<std::unique_ptr<DirLock>> lock = DirLock::Acquire(dir);
  if (!lock.ok()) return lock.status();
  if (absl::Status s = CleanUp(paths); !s.ok()) return s;
  std::error_code ignored;
  fs::create_directory(paths.db, ignored);  // else the opening says what is wrong
  out.created = !fs::exists(paths.db / "CURRENT", ignored);
  const bool damaged = fs::exists(paths.marker, ignored);
  absl::StatusOr<Opened> opened =
      damaged ? absl::DataLossError("marked as damaged") : OpenSound(paths.db, out.created, env);
  if (IsDamage(opened.status())) opened = OpenDamaged(paths, out, env);
  if (!opened.ok()) return opened.status();
  if (out.salvaged || out.lost) ++opened->inventory.corrupt;  // how much is gone cannot be told
  auto backing = std::make_unique<MarkingBacking>(*std::move(lock), std::move(opened->backing), paths.marker);
  return std::make_unique<LedgerStore>(options, std::move(backing), opened->inventory);
}

}  // namespace kiln
