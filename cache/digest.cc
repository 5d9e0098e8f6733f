#include "cache/digest.h"

#include <sodium/crypto_hash_sha256.h>

#include <cstring>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

static_assert(crypto_hash_sha256_BYTES == sizeof(Digest::hash));

constexpr std::string_view kHexDigits = "0123456789abcdef";

// The value of a lower-case hex digit, -1 for anything else. Upper case is refused: one digest, one text.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

const unsigned char* Bytes(std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); }

}  // namespace

std::string ToHex(const std::array<uint8_t, 32>& bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (uint8_t b : bytes) {
    out.push_back(kHexDigits[b >> 4]);
    out.push_back(kHexDigits[b & 15]);
  }
  return out;
}

absl::StatusOr<std::array<uint8_t, 32>> ParseHex(std::string_view hex) {
  std::array<uint8_t, 32> out;
  if (hex.size() != 2 * out.size()) {
    return absl::InvalidArgumentError(absl::StrCat("want ", 2 * out.size(), " hex digits, have ", hex.size()));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const int high = HexValue(hex[2 * i]), low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return absl::InvalidArgumentError(absl::StrCat("not a lower-case hex digit near ", 2 * i));
    out[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return out;
}

Digest Digest::Of(std::string_view bytes) {
  Digest d;
  crypto_hash_sha256(d.hash.data(), Bytes(bytes), bytes.size());
  d.size = bytes.size();
  return d;
}

absl::StatusOr<Digest> Digest::Parse(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return absl::InvalidArgumentError("digest: want <hex>/<size>");
  absl::StatusOr<std::array<uint8_t, 32>> hash = ParseHex(text.substr(0, slash));
  if (!hash.ok()) return absl::InvalidArgumentError(absl::StrCat("digest: ", hash.status().message()));
  Digest d{*hash, 0};
  const std::string size(text.substr(slash + 1));
  // Compared with its own printing, because SimpleAtoi takes signs, spaces and leading zeros.
  if (!absl::SimpleAtoi(size, &d.size) || absl::StrCat(d.size) != size) {
    return absl::InvalidArgumentError("digest: the size is not a decimal number");
  }
  return d;
}

std::string Digest::Hex() const { return ToHex(hash); }

std::string Digest::ToString() const { return absl::StrCat(Hex(), "/", size); }

struct Hasher::State {
  crypto_hash_sha256_state sha;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { crypto_hash_sha256_init(&state_->sha); }

Hasher::~Hasher() = default;

void Hasher::Update(std::string_view bytes) {
  crypto_hash_sha256_update(&state_->sha, Bytes(bytes), bytes.size());
  size_ += bytes.size();
}

Digest Hasher::Finish() {
  Digest d;
  crypto_hash_sha256_final(&state_->sha, d.hash.data());
  d.size = size_;
  return d;
}

}  // namespace kiln

size_t std::hash<kiln::Digest>::operator()(const kiln::Digest& d) const noexcept { return absl::HashOf(d); }
