#include "compiler/mathlib/defs/turns.h"

#include <iterator>
#include <vector>

namespace kiln::mathlib {
namespace {

// 1 / (2 pi) in chunks of 29 bits: a product with the 24 bits of an f32 is exact in f64. 203 bits: for |x| < 2^128 what
// is left out is below 2^-75 turns, while no f32 is nearer to a quarter turn than some 2^-30.
constexpr double kChunksF32[] = {0x1.45f306cp-3,   0x1.c9c882ap-31,  0x1.4fe13a8p-61, 0x1.f47d4d3p-88,
                                 0x1.dc0db62p-118, 0x1.2b32788p-147, 0x1.c820ffp-177};

Expr WithoutWholeTurns(Expr turns) { return turns - Round(turns); }

}  // namespace

QuarterTurns ReduceF32(Expr x) {
  std::vector<Expr> parts;
  for (double chunk : kChunksF32) parts.push_back(WithoutWholeTurns(x * chunk));
  Expr sum = parts.back();
  for (size_t i = parts.size() - 1; i-- > 0;) sum = sum + parts[i];
  const Rounded n = RoundByMagic(sum, 4);
  // Largest first: with the quarter turns taken off, what cancels does so exactly.
  Expr g = Fma(n.value, -0.25, parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) g = g + parts[i];
  return {n.shifted, {g * 4, x}};
}

QuarterTurns ReduceF64(Expr x) { return ReduceF32(x); }

}  // namespace kiln::mathlib
