#include "compiler/loop/special.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace kiln::loop {

long double ErfInv(long double x) {
  using Limits = std::numeric_limits<long double>;
  const long double magnitude = std::fabs(x);
  if (!(magnitude <= 1)) return Limits::quiet_NaN();
  if (magnitude == 1) return std::copysign(Limits::infinity(), x);
  if (magnitude < 1e-12L) return x * (std::sqrt(std::numbers::pi_v<long double>) / 2);
  // Newton's method, on erf near 0 and on log(erfc), which is nearly a parabola, further out.
  const long double slope = std::sqrt(std::numbers::pi_v<long double>) / 2;
  const bool near = magnitude < 0.5L;
  const long double target = near ? magnitude : std::log1p(-magnitude);
  long double y = near ? magnitude * slope : std::sqrt(-std::log((1 - magnitude) * (1 + magnitude)));
  for (int i = 0; i < 50; ++i) {
    const long double step = near ? (target - std::erf(y)) * slope * std::exp(y * y)
                                  : (std::log(std::erfc(y)) - target) * std::erfc(y) * slope * std::exp(y * y);
    y += step;
    if (std::fabs(step) < 4 * Limits::epsilon() * y) break;
  }
  return std::copysign(y, x);
}

long double Digamma(long double x) {
  using Limits = std::numeric_limits<long double>;
  constexpr long double kPi = std::numbers::pi_v<long double>;
  if (x == 0) return std::copysign(Limits::infinity(), -x);
  if (std::isinf(x)) return x > 0 ? x : Limits::quiet_NaN();
  if (x < 0) {
    if (x == std::floor(x)) return Limits::quiet_NaN();
    // pi / tan(pi x), with x reduced before it is multiplied.
    return Digamma(1 - x) - kPi / std::tan(kPi * (x - std::nearbyint(x)));
  }
  long double sum = 0;
  for (; x < 30; x += 1) sum += 1 / x;
  // Bernoulli's numbers: the series' next term is below 2^-70 at 30.
  constexpr long double kCoefficients[] = {1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
                                           1.0L / 132, -691.0L / 32760, 1.0L / 12,  -3617.0L / 8160};
  const long double w = 1 / (x * x);
  long double series = 0;
  for (int i = 7; i >= 0; --i) series = (series + kCoefficients[i]) * w;
  return std::log(x) - 1 / (2 * x) - series - sum;
}

}  // namespace kiln::loop
