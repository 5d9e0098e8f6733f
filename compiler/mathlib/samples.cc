#include "compiler/mathlib/samples.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <sstream>
#include <vector>

#include "compiler/mathlib/evaluate.h"

namespace kiln::mathlib {
namespace {

constexpr size_t kBlock = 4096;

double Uniform(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
}

// An exponent such that |x|^y has an exponent up to `limit`; sometimes integral.
double SuitableExponent(std::mt19937_64& random, double x, double limit) {
  const double log2 = std::log2(std::fabs(x));
  const double y = Uniform(random, -limit, limit) / (log2 == 0 || !std::isfinite(log2) ? 1 : log2);
  return random() % 4 == 0 ? std::round(y) : y;
}

// The second operand of a function whose first is x: any bits, or such that both count.
double DrawSecond(std::mt19937_64& random, loop::Op op, double x, double limit) {
  if (op == loop::Op::kPow) return SuitableExponent(random, x, limit);
  return x * std::exp(Uniform(random, -12, 12)) * (random() % 2 == 0 ? 1 : -1);
}

double DrawF64(std::mt19937_64& random) {
  switch (random() % 7) {
    case 0:
      return std::bit_cast<double>(random());
    case 1:
      return Uniform(random, -10, 10);
    case 2:
      return std::exp(Uniform(random, -50, 50)) * (random() % 2 == 0 ? 1 : -1);
    case 3:
      return static_cast<double>(static_cast<int64_t>(random() % 2000000) - 1000000) * (M_PI / 4);
    case 4:
      return Uniform(random, -1, 1);
    case 5:
      return 1 + Uniform(random, -0.3, 0.3) * (random() % 2 == 0 ? 1 : 1e-3);
    default:
      return Uniform(random, -1000, 1000);
  }
}

// fill(x, y) draws one input; false: no more.
template <typename T, typename Wide, typename Fill>
Worst<T> Measure(const Function& function, Wide (*reference)(Wide, Wide), double floor, Fill fill) {
  Worst<T> worst;
  Evaluator<T> evaluator(function);
  if (!evaluator.status().ok()) return {.error = INFINITY};
  std::vector<T> x(kBlock), y(kBlock), got(kBlock);
  for (size_t size = kBlock; size == kBlock;) {
    size = 0;
    while (size < kBlock && fill(x[size], y[size])) ++size;
    evaluator.Run(x.data(), y.data(), got.data(), size);
    worst.count += size;
    for (size_t i = 0; i < size; ++i) {
      const Wide want = reference(x[i], y[i]);
      double error = UlpError(got[i], want, floor);
      // A zero of the wrong sign is wrong, however small.
      if (want == 0 && std::signbit(got[i]) != std::signbit(want)) error = INFINITY;
      if (error > worst.error) worst = {error, x[i], y[i], got[i], worst.count};
    }
  }
  return worst;
}

}  // namespace

template <typename T>
std::string Worst<T>::Describe() const {
  std::ostringstream out;
  out << error << " ULP at " << std::hexfloat << x << ", " << y << ": " << got << std::dec << " (" << count
      << " inputs)";
  return out.str();
}
template struct Worst<float>;
template struct Worst<double>;

Worst<float> MeasureF32(const Function& function, uint32_t first, uint64_t stride, double floor) {
  std::mt19937_64 random(first);
  const bool binary = loop::Arity(function.op) == 2;
  uint64_t next = first;
  return Measure<float>(function, function.reference, floor, [&](float& x, float& y) {
    if (next >> 32 != 0) return false;
    x = std::bit_cast<float>(static_cast<uint32_t>(next));
    next += stride;
    if (binary) {
      y = random() % 2 == 0 ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                            : static_cast<float>(DrawSecond(random, function.op, x, 150));
    }
    return true;
  });
}

Worst<double> MeasureF64(const Function& function, uint64_t seed, uint64_t count, double floor) {
  std::mt19937_64 random(seed);
  const bool binary = loop::Arity(function.op) == 2;
  return Measure<double>(function, function.long_reference, floor, [&](double& x, double& y) {
    if (count-- == 0) return false;
    x = DrawF64(random);
    if (binary) y = random() % 4 == 0 ? DrawF64(random) : DrawSecond(random, function.op, x, 1075);
    return true;
  });
}

}  // namespace kiln::mathlib
