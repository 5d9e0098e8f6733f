// Length-prefixed binary encoding, for what is hashed and what is stored. One value, one encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

// Appends to a string. Integers are little-endian and of fixed width.
class Encoder {
 public:
  void U8(uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void U64(uint64_t v);
  void I64(int64_t v) { U64(static_cast<uint64_t>(v)); }
  void Raw(std::string_view bytes) { out_.append(bytes); }  // its length must be known to the reader
  void Bytes(std::string_view bytes);                       // length, then bytes

  const std::string& str() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads what Encoder wrote. Never reads past the end: after the first failure all reads give zero or empty, and ok() is
// false. Views are into the input.
class Decoder {
 public:
  explicit Decoder(std::string_view in) : in_(in) {}

  uint8_t U8();
  uint64_t U64();
  int64_t I64() { return static_cast<int64_t>(U64()); }
  std::string_view Raw(size_t size);
  std::string_view Bytes();

  // An element count, refused where what is left cannot hold so many elements of `min_size` (> 0) bytes each.
  size_t Count(size_t min_size);

  bool ok() const { return ok_; }
  bool done() const { return ok_ && in_.empty(); }  // all was read
  size_t left() const { return in_.size(); }

 private:
  std::string_view in_;
  bool ok_ = true;
};

}  // namespace kiln
