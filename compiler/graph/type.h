// Element types and devices, the compiler's own spelling of proto/graph.proto's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

// The numbers are those of kiln.v1.DType.
enum class DType : uint8_t {
  kBool = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kFloat16 = 7,
  kBFloat16 = 8,
  kFloat32 = 9,
  kFloat64 = 10,
  kComplex32 = 11,
  kComplex64 = 12,
  kComplex128 = 13,
  kFloat8E4M3FN = 14,
  kFloat8E5M2 = 15,
  kFloat8E4M3FNUZ = 16,
  kFloat8E5M2FNUZ = 17,
  kUInt16 = 18,
  kUInt32 = 19,
  kUInt64 = 20,
};

inline constexpr int kMaxDType = 20;

enum class DeviceType : uint8_t { kCpu = 1, kCuda = 2 };

int ByteSize(DType dtype);           // bytes of one element in memory
std::string_view Name(DType dtype);  // "bool", "u8", "i64", "bf16", "f32", "c64", "f8e4m3fn" …
std::optional<DType> DTypeFromName(std::string_view name);
bool IsFloat(DType dtype);              // f16, bf16, f32, f64, float8
bool IsLowPrecisionFloat(DType dtype);  // f16, bf16, float8: computed in f32
bool IsComplex(DType dtype);
bool IsSignedInt(DType dtype);
bool IsUnsignedInt(DType dtype);
bool IsInt(DType dtype);  // signed or unsigned, not bool
// The dtype in which arithmetic on `dtype` is done: f32 for low-precision floats, else itself.
DType ComputeDType(DType dtype);

std::string_view Name(DeviceType device);  // "cpu", "cuda"
std::optional<DeviceType> DeviceFromName(std::string_view name);

}  // namespace kiln
