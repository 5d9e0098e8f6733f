#include "compiler/loop/scalar.h"

#include <cmath>
#include <limits>

#include "compiler/loop/scalar_inl.h"
#include "compiler/loop/special.h"

namespace kiln::loop {
namespace {

using internal::Compare;
using internal::Compute;
using internal::Dispatch;
using internal::FloatToInt;
using internal::FromBits;
using internal::ToBits;

// A float of at most 16 bits. Codes below `overflow` are finite; from there on rounding gives `overflow_code`.
struct SmallFloat {
  int mantissa_bits;
  int min_exponent;    // of the smallest normal number
  uint32_t overflow;   // first code, without sign, that is not finite
  uint32_t infinity;   // code of +inf; 0: none
  uint32_t nan;        // code of NaN, without sign
  uint32_t sign;       // the sign's bit
  bool negative_zero;  // fnuz formats use that code for NaN
};

const SmallFloat* FormatOf(DType type) {
  static constexpr SmallFloat kF16{10, -14, 0x7c00, 0x7c00, 0x7e00, 0x8000, true};
  static constexpr SmallFloat kBF16{7, -126, 0x7f80, 0x7f80, 0x7fc0, 0x8000, true};
  static constexpr SmallFloat kE4M3FN{3, -6, 0x7f, 0, 0x7f, 0x80, true};
  static constexpr SmallFloat kE5M2{2, -14, 0x7c, 0x7c, 0x7f, 0x80, true};
  static constexpr SmallFloat kE4M3FNUZ{3, -7, 0x80, 0, 0x80, 0x80, false};
  static constexpr SmallFloat kE5M2FNUZ{2, -15, 0x80, 0, 0x80, 0x80, false};
  switch (type) {
    case DType::kFloat16:
      return &kF16;
    case DType::kBFloat16:
      return &kBF16;
    case DType::kFloat8E4M3FN:
      return &kE4M3FN;
    case DType::kFloat8E5M2:
      return &kE5M2;
    case DType::kFloat8E4M3FNUZ:
      return &kE4M3FNUZ;
    case DType::kFloat8E5M2FNUZ:
      return &kE5M2FNUZ;
    default:
      return nullptr;
  }
}

uint64_t Encode(const SmallFloat& f, double value) {
  if (std::isnan(value)) return f.nan;
  const uint32_t sign = std::signbit(value) ? f.sign : 0;
  const double magnitude = std::fabs(value);
  uint32_t code = f.overflow;
  if (magnitude == 0) {
    code = 0;
  } else if (magnitude < std::ldexp(1.0, 200)) {  // else beyond every format
    const int exponent = std::max(std::ilogb(magnitude), f.min_exponent);
    const double units =
        std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent));  // exact scaling, one rounding
    code = (static_cast<uint32_t>(exponent - f.min_exponent) << f.mantissa_bits) + static_cast<uint32_t>(units);
  }
  if (code >= f.overflow) code = f.infinity != 0 ? f.infinity : f.nan;
  if (code == 0 && !f.negative_zero) return 0;
  if (code == f.nan && !f.negative_zero) return f.nan;
  return sign | code;
}

double Decode(const SmallFloat& f, uint32_t bits) {
  const uint32_t code = bits & (f.sign - 1);
  const bool negative = (bits & f.sign) != 0;
  double magnitude;
  if (!f.negative_zero && bits == f.nan) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (code >= f.overflow) {
    magnitude = f.infinity != 0 && code == f.infinity ? std::numeric_limits<double>::infinity()
                                                      : std::numeric_limits<double>::quiet_NaN();
  } else {
    const uint32_t exponent = code >> f.mantissa_bits;
    const uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1);
    magnitude = exponent == 0 ? std::ldexp(mantissa, f.min_exponent - f.mantissa_bits)
                              : std::ldexp(mantissa + (1u << f.mantissa_bits),
                                           f.min_exponent + static_cast<int>(exponent) - 1 - f.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

double EvalFunction(Op op, double x, double y) {
  switch (op) {
    case Op::kExp:
      return std::exp(x);
    case Op::kLog:
      return std::log(x);
    case Op::kSin:
      return std::sin(x);
    case Op::kCos:
      return std::cos(x);
    case Op::kTanh:
      return std::tanh(x);
    case Op::kErf:
      return std::erf(x);
    case Op::kPow:
      return std::pow(x, y);
    case Op::kExp2:
      return std::exp2(x);
    case Op::kExpm1:
      return std::expm1(x);
    case Op::kLog2:
      return std::log2(x);
    case Op::kLog10:
      return std::log10(x);
    case Op::kLog1p:
      return std::log1p(x);
    case Op::kTan:
      return std::tan(x);
    case Op::kAsin:
      return std::asin(x);
    case Op::kAcos:
      return std::acos(x);
    case Op::kAtan:
      return std::atan(x);
    case Op::kSinh:
      return std::sinh(x);
    case Op::kCosh:
      return std::cosh(x);
    case Op::kAsinh:
      return std::asinh(x);
    case Op::kAcosh:
      return std::acosh(x);
    case Op::kAtanh:
      return std::atanh(x);
    case Op::kErfc:
      return std::erfc(x);
    case Op::kErfinv:
      return static_cast<double>(ErfInv(x));
    case Op::kLgamma:
      return static_cast<double>(std::lgamma(static_cast<long double>(x)));
    case Op::kDigamma:
      return static_cast<double>(Digamma(x));
    case Op::kAtan2:
      return std::atan2(x, y);
    case Op::kHypot:
      return std::hypot(x, y);
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

template <typename T>
uint64_t EvalMath(Op op, T x, T y) {
  if (op == Op::kRsqrt) return ToBits(T(1) / std::sqrt(x));
  return ToBits(static_cast<T>(EvalFunction(op, x, y)));
}

// One operation on one C++ type; operations that the type rules exclude give 0.
template <Op op, typename T>
uint64_t EvalTyped(const uint64_t args[3]) {
  constexpr bool kIsCompare = op == Op::kLt || op == Op::kLe || op == Op::kEq || op == Op::kNe;
  if constexpr (op == Op::kSelect) {
    return args[0] ? args[1] : args[2];
  } else if constexpr (kIsCompare) {
    return Compare<op, T>(FromBits<T>(args[0]), FromBits<T>(args[1]));
  } else if constexpr (IsFunction(op)) {
    if constexpr (internal::kIsFloat<T>) return EvalMath<T>(op, FromBits<T>(args[0]), FromBits<T>(args[1]));
    return 0;
  } else {
    return ToBits(Compute<op, T>(FromBits<T>(args[0]), FromBits<T>(args[1]), FromBits<T>(args[2])));
  }
}

}  // namespace

bool IsLoopType(DType type) { return !IsComplex(type); }

uint64_t Canonical(DType type, uint64_t bits) {
  if (type == DType::kBool) return bits & 1;
  const int width = ByteSize(type) * 8;
  if (width >= 64) return bits;
  const uint64_t mask = (uint64_t{1} << width) - 1;
  const bool extend = IsSignedInt(type) && (bits >> (width - 1) & 1) != 0;
  return extend ? bits | ~mask : bits & mask;
}

double ToDouble(DType type, uint64_t bits) {
  if (type == DType::kFloat32) return FromBits<float>(bits);
  if (type == DType::kFloat64) return FromBits<double>(bits);
  const SmallFloat* format = FormatOf(type);
  return format == nullptr ? 0 : Decode(*format, static_cast<uint32_t>(bits));
}

uint64_t FromDouble(DType type, double value) {
  if (type == DType::kFloat32) return ToBits(static_cast<float>(value));
  if (type == DType::kFloat64) return ToBits(value);
  const SmallFloat* format = FormatOf(type);
  return format == nullptr ? 0 : Encode(*format, value);
}

uint64_t CastBits(DType from, DType to, uint64_t bits) {
  if (from == to) return bits;
  if (IsLowPrecisionFloat(to)) {
    return FromDouble(to, FromBits<float>(CastBits(from, DType::kFloat32, bits)));
  }
  if (IsLowPrecisionFloat(from)) {
    const uint64_t wide = ToBits(static_cast<float>(ToDouble(from, bits)));
    return CastBits(DType::kFloat32, to, wide);
  }
  return Dispatch<uint64_t>(from, 0, [&](auto source) {
    using From = decltype(source);
    const From value = FromBits<From>(bits);
    return Dispatch<uint64_t>(to, 0, [&](auto target) -> uint64_t {
      using To = decltype(target);
      if constexpr (std::is_same_v<To, bool>) {
        return value != From{};
      } else if constexpr (internal::kIsFloat<From> && !internal::kIsFloat<To>) {
        return ToBits(FloatToInt<To>(value));
      } else {
        return ToBits(static_cast<To>(value));
      }
    });
  });
}

uint64_t EvalOp(Op op, DType type, const uint64_t args[3]) {
  if (op == Op::kSelect) return args[0] ? args[1] : args[2];
  return Dispatch<uint64_t>(type, 0, [&](auto tag) -> uint64_t {
    using T = decltype(tag);
    switch (op) {
#define KILN_LOOP_OP(id, name, arity, rule) \
  case Op::id:                              \
    return EvalTyped<Op::id, T>(args);
#include "compiler/loop/nodes.def"
#undef KILN_LOOP_OP
    }
    return 0;
  });
}

}  // namespace kiln::loop
