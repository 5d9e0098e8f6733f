// What a Store holds: records by key, which name blobs by digest.
#pragma once

#include <array>
#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "cache/digest.h"
#include "cache/key.h"

namespace kiln {

enum class Table : uint8_t { kActions, kVariants, kKernels, kNegative, kJobs, kSkeletons };

inline constexpr std::array kAllTables = {Table::kActions,  Table::kVariants, Table::kKernels,
                                          Table::kNegative, Table::kJobs,     Table::kSkeletons};

std::string_view TableName(Table table);  // "actions", "variants", …

// Names one record. `ns` is empty for a record shared by all, else the namespace that alone sees it.
// `item` tells the members of a set apart (the variants of one capture key: one record each, so that adding one never
// reads or rewrites another); it stays zero where a key has one record.
struct RecordId {
  Table table = Table::kActions;
  std::string ns;
  Key key;
  Key item;

  std::string ToString() const;  // "actions/<ns>/<key hex>[/<item hex>]"

  friend auto operator<=>(const RecordId&, const RecordId&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const RecordId& r) {
    return H::combine(std::move(h), r.table, r.ns, r.key, r.item);
  }
};

struct Record {
  RecordId id;
  std::string value;          // opaque to the store
  std::vector<Digest> blobs;  // every blob that a reader of `value` may need
  // Set by the store on publication when left at InfinitePast.
  absl::Time created = absl::InfinitePast();
  // After it the record is NotFound. Left at InfiniteFuture: never, but in kNegative StoreOptions::negative_ttl after
  // `created`. Kept to the microsecond.
  absl::Time expires = absl::InfiniteFuture();

  friend bool operator==(const Record&, const Record&) = default;
};

struct Blob {
  Digest digest;  // of the content; `bytes` is the content, or what a layer below makes of it
  std::string bytes;
};

inline Blob MakeBlob(std::string bytes) { return {Digest::Of(bytes), std::move(bytes)}; }

// What becomes visible in one step.
struct Publication {
  std::vector<Blob> blobs;
  std::vector<Record> records;
};

}  // namespace kiln
