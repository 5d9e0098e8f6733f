// A key is the hash of a list of named, length-prefixed parts; the list is kept, so that a miss can be explained.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/digest.h"

namespace kiln {

// A plain value, ordered and hashable. Made only by KeyParts::ToKey, Key::Parse and Key::FromBytes.
class Key {
 public:
  Key() = default;  // all zero: no key; the hash of nothing

  static absl::StatusOr<Key> Parse(std::string_view hex);          // 64 lower-case hex digits
  static absl::StatusOr<Key> FromBytes(std::string_view bytes32);  // exactly 32 bytes

  std::string Hex() const { return ToHex(bytes_); }
  std::string_view bytes() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

  friend auto operator<=>(const Key&, const Key&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const Key& k) {
    return H::combine(std::move(h), k.bytes_);
  }

 private:
  friend struct KeyParts;
  explicit Key(const std::array<uint8_t, 32>& bytes) : bytes_(bytes) {}
  std::array<uint8_t, 32> bytes_{};
};

struct KeyPart {
  std::string name;
  Digest value;           // of the part's value
  std::string printable;  // the value, if it is short text (kMaxPrintable); else empty. Not hashed.

  friend bool operator==(const KeyPart&, const KeyPart&) = default;
};

// What a key was made of. Everything that is hashed is here, so the key can be recomputed from it.
struct KeyParts {
  static constexpr size_t kMaxPrintable = 256;  // bytes
  static constexpr size_t kMaxParts = 1024;     // more are refused by Parse and by KeyBuilder

  std::vector<KeyPart> parts;

  Key ToKey() const;

  // A self-contained encoding. Parse refuses (InvalidArgument) anything that Serialize did not write.
  std::string Serialize() const;
  static absl::StatusOr<KeyParts> Parse(std::string_view bytes);

  friend bool operator==(const KeyParts&, const KeyParts&) = default;
};

// One part that two keys do not share; an absent side is empty.
struct KeyPartDiff {
  std::string name;
  bool in_left = false, in_right = false;
  std::string left, right;  // printable values, or digests where a value is not short text
};

// The parts in which the two differ, in the order of `left`, then those only in `right`.
std::vector<KeyPartDiff> DiffKeyParts(const KeyParts& left, const KeyParts& right);

// Collects parts in order. Not thread-safe.
//
//   KeyBuilder b("joint_key");
//   b.Add("graph", graph_bytes).Add("target", "x86-64-v3");
//   absl::StatusOr<KeyParts> parts = b.Build();
class KeyBuilder {
 public:
  // `domain` says what kind of key it is; keys of two domains never meet.
  explicit KeyBuilder(std::string_view domain);

  // A name used twice, or empty, and a part too many make Build fail.
  KeyBuilder& Add(std::string_view name, std::string_view value);

  // InvalidArgument names the first bad part. The builder may be used on.
  absl::StatusOr<KeyParts> Build() const;

 private:
  KeyParts parts_;
  absl::Status error_;
};

}  // namespace kiln

template <>
struct std::hash<kiln::Key> {
  size_t operator()(const kiln::Key& k) const noexcept;
};
