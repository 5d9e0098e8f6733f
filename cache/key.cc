#include "cache/key.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "cache/coding.h"

namespace kiln {
namespace {

// Starts every hashed list. A change of how keys are made changes it, so that old entries are not found.
constexpr std::string_view kHashPrefix = "kiln key 1";
constexpr uint8_t kFormat = 1;
constexpr std::string_view kDomainPart = "domain";
constexpr size_t kMinEncodedPart = 8 + 32 + 8 + 8;

std::string_view View(const std::array<uint8_t, 32>& a) { return {reinterpret_cast<const char*>(a.data()), a.size()}; }

bool IsShortText(std::string_view value) {
  return value.size() <= KeyParts::kMaxPrintable &&
         std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::string Shown(const KeyPart& part) {
  return part.printable.empty() && part.value.size > 0 ? part.value.ToString() : part.printable;
}

const KeyPart* Find(const KeyParts& parts, std::string_view name) {
  const auto it =
      std::find_if(parts.parts.begin(), parts.parts.end(), [&](const KeyPart& p) { return p.name == name; });
  return it == parts.parts.end() ? nullptr : &*it;
}

}  // namespace

absl::StatusOr<Key> Key::Parse(std::string_view hex) {
  absl::StatusOr<std::array<uint8_t, 32>> bytes = ParseHex(hex);
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat("key: ", bytes.status().message()));
  return Key(*bytes);
}

absl::StatusOr<Key> Key::FromBytes(std::string_view bytes32) {
  Key key;
  if (bytes32.size() != key.bytes_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("key: want 32 bytes, have ", bytes32.size()));
  }
  std::copy(bytes32.begin(), bytes32.end(), key.bytes_.begin());
  return key;
}

Key KeyParts::ToKey() const {
  Encoder e;
  e.Bytes(kHashPrefix);
  e.U64(parts.size());
  for (const KeyPart& part : parts) {
    e.Bytes(part.name);
    e.U64(part.value.size);
    e.Raw(View(part.value.hash));
  }
  return Key(Digest::Of(e.str()).hash);
}

std::string KeyParts::Serialize() const {
  Encoder e;
  e.U8(kFormat);
  e.U64(parts.size());
  for (const KeyPart& part : parts) {
    e.Bytes(part.name);
    e.Raw(View(part.value.hash));
    e.U64(part.value.size);
    e.Bytes(part.printable);
  }
  return e.Take();
}

absl::StatusOr<KeyParts> KeyParts::Parse(std::string_view bytes) {
  Decoder d(bytes);
  if (d.U8() != kFormat) return absl::InvalidArgumentError("key parts: unknown format");
  KeyParts out;
  const size_t count = d.Count(kMinEncodedPart);
  if (count > kMaxParts) return absl::InvalidArgumentError(absl::StrCat("key parts: ", count, " parts"));
  for (size_t i = 0; i < count; ++i) {
    KeyPart part;
    part.name = d.Bytes();
    const std::string_view hash = d.Raw(part.value.hash.size());
    std::copy(hash.begin(), hash.end(), part.value.hash.begin());
    part.value.size = d.U64();
    part.printable = d.Bytes();
    if (!d.ok() || !IsShortText(part.printable)) break;
    out.parts.push_back(std::move(part));
  }
  if (!d.done() || out.parts.size() != count) return absl::InvalidArgumentError("key parts: malformed");
  return out;
}

std::vector<KeyPartDiff> DiffKeyParts(const KeyParts& left, const KeyParts& right) {
  std::vector<KeyPartDiff> out;
  for (const KeyPart& l : left.parts) {
    const KeyPart* r = Find(right, l.name);
    if (r != nullptr && r->value == l.value) continue;
    out.push_back({l.name, true, r != nullptr, Shown(l), r == nullptr ? "" : Shown(*r)});
  }
  for (const KeyPart& r : right.parts) {
    if (Find(left, r.name) == nullptr) out.push_back({r.name, false, true, "", Shown(r)});
  }
  return out;
}

KeyBuilder::KeyBuilder(std::string_view domain) { Add(kDomainPart, domain); }

KeyBuilder& KeyBuilder::Add(std::string_view name, std::string_view value) {
  if (!error_.ok()) return *this;
  if (name.empty()) {
    error_ = absl::InvalidArgumentError(absl::StrCat("key: part ", parts_.parts.size(), " has no name"));
  } else if (Find(parts_, name) != nullptr) {
    error_ = absl::InvalidArgumentError(absl::StrCat("key: part '", std::string(name), "' was added twice"));
  } else if (parts_.parts.size() == KeyParts::kMaxParts) {
    error_ = absl::InvalidArgumentError(absl::StrCat("key: more than ", KeyParts::kMaxParts, " parts"));
  } else {
    parts_.parts.push_back({std::string(name), Digest::Of(value), IsShortText(value) ? std::string(value) : ""});
  }
  return *this;
}

absl::StatusOr<KeyParts> KeyBuilder::Build() const {
  if (!error_.ok()) return error_;
  return parts_;
}

}  // namespace kiln

size_t std::hash<kiln::Key>::operator()(const kiln::Key& k) const noexcept { return absl::HashOf(k); }
