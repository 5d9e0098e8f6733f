#include "compiler/graph/type.h"

#include <array>

namespace kiln {
namespace {

enum class Class : uint8_t { kNone, kBool, kUnsigned, kSigned, kFloat, kLowFloat, kComplex };

struct Info {
  std::string_view name;
  uint8_t bytes = 0;
  Class cls = Class::kNone;
};

// Indexed by the number of the dtype.
constexpr std::array<Info, kMaxDType + 1> kInfo = {{
    {"?", 0, Class::kNone},          {"bool", 1, Class::kBool},           {"u8", 1, Class::kUnsigned},
    {"i8", 1, Class::kSigned},       {"i16", 2, Class::kSigned},          {"i32", 4, Class::kSigned},
    {"i64", 8, Class::kSigned},      {"f16", 2, Class::kLowFloat},        {"bf16", 2, Class::kLowFloat},
    {"f32", 4, Class::kFloat},       {"f64", 8, Class::kFloat},           {"c32", 4, Class::kComplex},
    {"c64", 8, Class::kComplex},     {"c128", 16, Class::kComplex},       {"f8e4m3fn", 1, Class::kLowFloat},
    {"f8e5m2", 1, Class::kLowFloat}, {"f8e4m3fnuz", 1, Class::kLowFloat}, {"f8e5m2fnuz", 1, Class::kLowFloat},
    {"u16", 2, Class::kUnsigned},    {"u32", 4, Class::kUnsigned},        {"u64", 8, Class::kUnsigned},
}};

const Info& InfoOf(DType dtype) {
  auto i = static_cast<size_t>(dtype);
  return kInfo[i < kInfo.size() ? i : 0];
}

}  // namespace

int ByteSize(DType dtype) { return InfoOf(dtype).bytes; }

std::string_view Name(DType dtype) { return InfoOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (size_t i = 1; i < kInfo.size(); ++i) {
    if (kInfo[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool IsFloat(DType dtype) {
  Class c = InfoOf(dtype).cls;
  return c == Class::kFloat || c == Class::kLowFloat;
}
bool IsLowPrecisionFloat(DType dtype) { return InfoOf(dtype).cls == Class::kLowFloat; }
bool IsComplex(DType dtype) { return InfoOf(dtype).cls == Class::kComplex; }
bool IsSignedInt(DType dtype) { return InfoOf(dtype).cls == Class::kSigned; }
bool IsUnsignedInt(DType dtype) { return InfoOf(dtype).cls == Class::kUnsigned; }
bool IsInt(DType dtype) { return IsSignedInt(dtype) || IsUnsignedInt(dtype); }

DType ComputeDType(DType dtype) { return IsLowPrecisionFloat(dtype) ? DType::kFloat32 : dtype; }

std::string_view Name(DeviceType device) {
  switch (device) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kCuda:
      return "cuda";
  }
  return "?";
}

std::optional<DeviceType> DeviceFromName(std::string_view name) {
  if (name == "cpu") return DeviceType::kCpu;
  if (name == "cuda") return DeviceType::kCuda;
  return std::nullopt;
}

}  // namespace kiln
