// A Digest names a blob by its content: SHA-256 and size.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kiln {

// A plain value, ordered and hashable (std::hash, absl::Hash).
struct Digest {
  std::array<uint8_t, 32> hash{};
  uint64_t size = 0;  // of the content, in bytes, before any compression

  // The digest of `bytes`.
  static Digest Of(std::string_view bytes);

  // Reads what ToString prints. InvalidArgument says what is wrong.
  static absl::StatusOr<Digest> Parse(std::string_view text);

  std::string Hex() const;       // 64 lower-case hex digits
  std::string ToString() const;  // "<hex>/<size>"

  friend auto operator<=>(const Digest&, const Digest&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const Digest& d) {
    return H::combine(std::move(h), d.hash, d.size);
  }
};

// Hashes bytes that come in pieces. Not thread-safe; Finish at most once.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Update(std::string_view bytes);
  Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
  uint64_t size_ = 0;
};

// Lower-case hex of any bytes, and back; InvalidArgument unless `hex` is exactly `bytes.size()` lower-case pairs.
std::string ToHex(const std::array<uint8_t, 32>& bytes);
absl::StatusOr<std::array<uint8_t, 32>> ParseHex(std::string_view hex);

}  // namespace kiln

template <>
struct std::hash<kiln::Digest> {
  size_t operator()(const kiln::Digest& d) const noexcept;
};
