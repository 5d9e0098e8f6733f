// The arithmetic of nodes.def on C++ types, for scalar.cc and batch.cc, which are compiled with -ffp-contract=off.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "compiler/loop/ir.h"

namespace kiln::loop::internal {

template <typename T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T>;

// Operations of one float type. Nothing here may be re-associated or contracted.
template <Op op, typename T>
inline T ComputeFloat(T a, T b, T c) {
  if constexpr (op == Op::kAdd) return a + b;
  if constexpr (op == Op::kSub) return a - b;
  if constexpr (op == Op::kMul) return a * b;
  if constexpr (op == Op::kDiv) return a / b;
  if constexpr (op == Op::kRem) return std::fmod(a, b);
  if constexpr (op == Op::kFma) return std::fma(a, b, c);
  if constexpr (op == Op::kNeg) return -a;
  if constexpr (op == Op::kAbs) return std::fabs(a);
  if constexpr (op == Op::kMin) return (b < a || b != b) ? b : a;
  if constexpr (op == Op::kMax) return (b > a || b != b) ? b : a;
  if constexpr (op == Op::kFloor) return std::floor(a);
  if constexpr (op == Op::kCeil) return std::ceil(a);
  if constexpr (op == Op::kTrunc) return std::trunc(a);
  if constexpr (op == Op::kRound) return std::nearbyint(a);
  if constexpr (op == Op::kCopysign) return std::copysign(a, b);
  if constexpr (op == Op::kSqrt) return std::sqrt(a);
  return T{};
}

// Integer division that never traps: a zero divisor or MIN / -1 gives 0.
template <typename T>
inline bool DivisionIsBad(T a, T b) {
  if (b == 0) return true;
  if constexpr (std::is_signed_v<T>) return b == T(-1) && a == std::numeric_limits<T>::min();
  return false;
}

// Operations of one integer type (or bool, for the logic ones). Wraps.
template <Op op, typename T>
inline T ComputeInt(T a, T b) {
  using U = std::conditional_t<std::is_same_v<T, bool>, uint8_t,
                               std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>>;
  constexpr uint64_t kWidth = sizeof(T) * 8;
  // Through uint64_t: promotion of narrow types to int would make overflow undefined.
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if constexpr (op == Op::kAdd) return static_cast<T>(x + y);
  if constexpr (op == Op::kSub) return static_cast<T>(x - y);
  if constexpr (op == Op::kMul) return static_cast<T>(x * y);
  if constexpr (op == Op::kDiv) return DivisionIsBad(a, b) ? T{} : static_cast<T>(a / b);
  if constexpr (op == Op::kRem) return DivisionIsBad(a, b) ? T{} : static_cast<T>(a % b);
  if constexpr (op == Op::kNeg) return static_cast<T>(0 - x);
  if constexpr (op == Op::kAbs) return a < T{} ? static_cast<T>(0 - x) : a;
  if constexpr (op == Op::kMin) return a < b ? a : b;
  if constexpr (op == Op::kMax) return a > b ? a : b;
  if constexpr (op == Op::kAnd) return static_cast<T>(x & y);
  if constexpr (op == Op::kOr) return static_cast<T>(x | y);
  if constexpr (op == Op::kXor) return static_cast<T>(x ^ y);
  if constexpr (op == Op::kNot) return std::is_same_v<T, bool> ? static_cast<T>(x == 0) : static_cast<T>(~x);
  if constexpr (op == Op::kShl) return static_cast<U>(b) >= kWidth ? T{} : static_cast<T>(x << static_cast<U>(b));
  if constexpr (op == Op::kShr) {
    const U shift = static_cast<U>(b);
    if (shift >= kWidth) return a < T{} ? static_cast<T>(-1) : T{};
    return static_cast<T>(a >> shift);
  }
  return T{};
}

template <Op op, typename T>
inline T Compute(T a, T b, T c) {
  if constexpr (kIsFloat<T>) {
    return ComputeFloat<op, T>(a, b, c);
  } else {
    return ComputeInt<op, T>(a, b);
  }
}

template <Op op, typename T>
inline bool Compare(T a, T b) {
  if constexpr (op == Op::kLt) return a < b;
  if constexpr (op == Op::kLe) return a <= b;
  if constexpr (op == Op::kEq) return a == b;
  if constexpr (op == Op::kNe) return a != b;
  return false;
}

// Floats to integers as x86-64 converts: cvttss2si and its kin give MIN for NaN and what does not fit. Narrow signed
// types are cut from i32, unsigned ones up to u32 from i64; u64 takes [2^63, 2^64) too, by an offset of 2^63.
template <typename To, typename From>
inline To FloatToInt(From x) {
  auto to_i32 = [](From v) {
    return v >= From(-2147483648.0) && v < From(2147483648.0) ? static_cast<int32_t>(v)
                                                              : std::numeric_limits<int32_t>::min();
  };
  auto to_i64 = [](From v) {
    return v >= From(-9223372036854775808.0) && v < From(9223372036854775808.0) ? static_cast<int64_t>(v)
                                                                                : std::numeric_limits<int64_t>::min();
  };
  if constexpr (std::is_same_v<To, int64_t>) return to_i64(x);
  if constexpr (std::is_same_v<To, int32_t> || std::is_same_v<To, int16_t> || std::is_same_v<To, int8_t>) {
    // f64 to i32 that does not fit is MIN; between i32 and f32 or f64 `From(2147483648.0)` is exact. (-2147483649,
    // -2147483648) truncates to MIN all the same.
    return static_cast<To>(to_i32(x));
  }
  if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr From kHalf = From(9223372036854775808.0);
    if (x >= kHalf) return static_cast<uint64_t>(to_i64(x - kHalf)) ^ (uint64_t{1} << 63);
    return static_cast<uint64_t>(to_i64(x));
  }
  return static_cast<To>(to_i64(x));
}

// Calls f(T{}) with the C++ type of a dtype that arithmetic is done in (float, double, integers, bool); Default
// otherwise.
template <typename R, typename F>
inline R Dispatch(DType type, R otherwise, F f) {
  switch (type) {
    case DType::kBool:
      return f(bool{});
    case DType::kUInt8:
      return f(uint8_t{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUInt16:
      return f(uint16_t{});
    case DType::kUInt32:
      return f(uint32_t{});
    case DType::kUInt64:
      return f(uint64_t{});
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    default:
      return otherwise;
  }
}

template <typename T>
inline T FromBits(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    const uint32_t word = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  } else if constexpr (std::is_same_v<T, double>) {
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  } else {
    return static_cast<T>(bits);
  }
}

template <typename T>
inline uint64_t ToBits(T value) {
  if constexpr (std::is_same_v<T, float>) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    return word;
  } else if constexpr (std::is_same_v<T, double>) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  } else {
    return static_cast<uint64_t>(value);  // sign-extends signed types
  }
}

}  // namespace kiln::loop::internal
