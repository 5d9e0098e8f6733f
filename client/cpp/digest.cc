#include "client/cpp/digest.h"

#include <sodium/crypto_hash_sha256.h>

namespace kiln {

v1::Digest DigestOf(std::string_view bytes) {
  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  v1::Digest digest;
  digest.set_sha256(hash, sizeof hash);
  digest.set_size(bytes.size());
  return digest;
}

bool Matches(const v1::Digest& digest, std::string_view bytes) {
  return digest.size() == bytes.size() && digest.sha256() == DigestOf(bytes).sha256();
}

std::string Hex(const v1::Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : digest.sha256()) {
    out.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return out;
}

}  // namespace kiln
