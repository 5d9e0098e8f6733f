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

}  // namespace kiln
