#include "compiler/artifact/fingerprint.h"

#include <sodium.h>

#include <cstdint>
#include <cstring>

namespace kiln {

std::string Fingerprint(std::initializer_list<std::pair<std::string_view, std::string_view>> parts) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  const auto update = [&](std::string_view text) {
    unsigned char size[8];
    for (int i = 0; i < 8; ++i) size[i] = static_cast<unsigned char>(static_cast<uint64_t>(text.size()) >> (8 * i));
    crypto_hash_sha256_update(&state, size, sizeof size);
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  };
  for (const auto& [name, value] : parts) {
    update(name);
    update(value);
  }
  std::string digest(crypto_hash_sha256_BYTES, '\0');
  crypto_hash_sha256_final(&state, reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

}  // namespace kiln
