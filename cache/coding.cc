#include "cache/coding.h"

namespace kiln {

void Encoder::U64(uint64_t v) {
  for (int i = 0; i < 8; ++i) U8(static_cast<uint8_t>(v >> (8 * i)));
}

void Encoder::Bytes(std::string_view bytes) {
  U64(bytes.size());
  Raw(bytes);
}

std::string_view Decoder::Raw(size_t size) {
  if (!ok_ || size > in_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view out = in_.substr(0, size);
  in_.remove_prefix(size);
  return out;
}

uint8_t Decoder::U8() {
  const std::string_view b = Raw(1);
  return ok_ ? static_cast<uint8_t>(b[0]) : 0;
}

uint64_t Decoder::U64() {
  const std::string_view b = Raw(8);
  uint64_t v = 0;
  for (size_t i = 0; i < b.size(); ++i) v |= uint64_t{static_cast<uint8_t>(b[i])} << (8 * i);
  return v;
}

std::string_view Decoder::Bytes() { return Raw(U64()); }

size_t Decoder::Count(size_t min_size) {
  const uint64_t n = U64();
  if (n > in_.size() / min_size) ok_ = false;
  return ok_ ? n : 0;
}

}  // namespace kiln
