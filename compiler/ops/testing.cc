#include "compiler/ops/testing.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/loop/scalar.h"

namespace kiln {
namespace {

uint64_t Bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

std::string_view Trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

}  // namespace

std::string FromDouble(DType dtype, double value) {
  uint64_t bits = 0;
  if (!IsFloat(dtype) && dtype != DType::kBool) {
    // Exact references of integers lie below 2^53; wrapped here.
    bits = std::isfinite(value) ? static_cast<uint64_t>(static_cast<int64_t>(value)) : 0;
  } else {
    bits = loop::CastBits(DType::kFloat64, dtype, Bits(value));
  }
  std::string bytes(static_cast<size_t>(ByteSize(dtype)), '\0');
  std::memcpy(bytes.data(), &bits, bytes.size());
  return bytes;
}

double ToDouble(DType dtype, std::string_view bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), static_cast<size_t>(ByteSize(dtype)));
  if (IsSignedInt(dtype) && ByteSize(dtype) < 8) {
    const int shift = 64 - 8 * ByteSize(dtype);
    bits = static_cast<uint64_t>(static_cast<int64_t>(bits << shift) >> shift);
  }
  const uint64_t wide = loop::CastBits(dtype, DType::kFloat64, bits);
  double value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

double LargestFinite(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 65504;
    case DType::kBFloat16:
      return std::ldexp(255.0, 120);
    case DType::kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

NamedArgs::NamedArgs(std::string_view text) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    const size_t equals = item.find('=');
    items_.emplace_back(Trimmed(item.substr(0, equals)), Trimmed(item.substr(equals + 1)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
}

const std::string* NamedArgs::Find(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (key == name) return &value;
  }
  return nullptr;
}

absl::StatusOr<Arg> NamedArgs::Make(SchemaArg arg, SymContext& syms) const {
  if (const std::string* value = Find(arg.name)) arg.default_text = *value;
  if (!arg.default_text && arg.optional) return Arg{};
  return DefaultArg(arg, syms);
}

}  // namespace kiln
