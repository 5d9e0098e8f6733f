#include "compiler/mathlib/defs/turns.h"

#include <iterator>
#include <vector>

namespace kiln::mathlib {
namespace {

// 1 / (2 pi) in chunks of 29 bits: a product with the 24 bits of an f32 is exact in f64. 203 bits: for |x| < 2^128 what
// is left out is below 2^-75 turns, while no f32 is nearer to a quarter turn than some 2^-30.
constexpr double kChunksF32[] = {0x1.45f306cp-3,   0x1.c9c882ap-31,  0x1.4fe13a8p-61, 0x1.f47d4d3p-88,
                                 0x1.dc0db62p-118, 0x1.2b32788p-147, 0x1.c820ffp-177};

// For f64, a window of 318 bits of 1 / (2 pi): those of higher weight give whole turns, those of lower weight less than
// 2^-124 turns, while no f64 is nearer to a quarter turn than some 2^-64. golden/turns.py prints them.
constexpr int kChunks = 6;
struct Window {
  double below;            // for |x| below this
  double scale;            // x is multiplied by it; the chunks are by its inverse
  double chunks[kChunks];  // of 53 bits
};
constexpr Window kWindows[] = {
    {0x1p194,
     1,
     {0x1.45f306dc9c88p-3, 0x1.529fc2757d1f5p-54, 0x1.a6ee06db14accp-109, 0x1.3c439041fe514p-162,
      0x1.1d5ef5de2b0dbp-213, 0x1.246e3a424dd2ep-266}},
    {0x1p336,
     0x1p-142,
     {0x1.4acc9e21c820cp-3, 0x1.f9458eaf7aef1p-54, 0x1.61b7246e3a424p-108, 0x1.ba5c00c925dd4p-161,
      0x1.3a32439fc3bdp-217, 0x1.8e5894d39f744p-267}},
    {0x1p478,
     0x1p-284,
     {0x1.d2126e9700324p-1, 0x1.2eea09d1921cfp-54, 0x1.c3bd63962534ep-107, 0x1.f74411afa975cp-161,
      0x1.a24274ce38135p-213, 0x1.45f7e413991d6p-266}},
    {0x1p620,
     0x1p-426,
     {0x1.4d39f74411af8p-3, 0x1.4baed1213a671p-54, 0x1.8135a2fbf209cp-107, 0x1.91d639835339fp-160,
      0x1.272117e2ef7e4p-214, 0x1.41d8ffc4bffeep-267}},
    {0x1p762,
     0x1p-568,
     {0x1.209cc8eb1cc1ap-1, 0x1.339f49c845f8bp-54, 0x1.7bf250763ff12p-107, 0x1.fff7816603fbcp-160,
      0x1.788c5ad05368fp-213, 0x1.6d367ecf27cbp-266}},
    {0x1p904,
     0x1p-710,
     {0x1.ff12fffbc0b3p-1, 0x1.fde5e2316b41p-57, 0x1.368fb69b3f679p-107, 0x1.f2c26dd3d18fcp-162, 0x1.9a797fa8b5d48p-214,
      0x1.eeb1faf97c5ecp-266}},
    {0,  // all the rest
     0x1p-852,
     {0x1.f6793e584dba7p-1, 0x1.463f669e5fea2p-54, 0x1.aea4f758fd7cbp-107, 0x1.c5ecf41ce7de2p-160,
      0x1.29497535fdafdp-213, 0x1.11f8d5d085603p-266}},
};

// Field of the window that suits x.
template <typename Field>
Expr Choose(Expr magnitude, Field field) {
  Expr chosen = magnitude.Like(field(std::end(kWindows)[-1]));
  for (const Window* window = std::end(kWindows) - 1; window-- != kWindows;) {
    chosen = Select(magnitude < window->below, field(*window), chosen);
  }
  return chosen;
}

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
  return {n.shifted, {g * 4, x.Like(0)}};
}

QuarterTurns ReduceF64(Expr x) {
  const Expr magnitude = Abs(x);
  const Expr scaled = x * Choose(magnitude, [](const Window& w) { return w.scale; });
  std::vector<Expr> parts;  // exact products, largest first: the rounded one of a chunk, its rest, the next chunk's …
  for (int i = 0; i < kChunks; ++i) {
    const Double product = TwoProduct(scaled, Choose(magnitude, [i](const Window& w) { return w.chunks[i]; }));
    parts.push_back(WithoutWholeTurns(product.hi));
    parts.push_back(WithoutWholeTurns(product.lo));
  }
  Expr sum = parts.back();
  for (size_t i = parts.size() - 1; i-- > 0;) sum = sum + parts[i];
  const Rounded n = RoundByMagic(sum, 4);
  // What a chunk adds can cancel what is there but for the next chunk's part, so the sum is made normal after each.
  Double g = TwoSum(n.value * -0.25, parts[0]);
  for (size_t i = 1; i < parts.size(); ++i) {
    const Double next = TwoSum(g.hi, parts[i]);
    g = {next.hi, g.lo + next.lo};
    if (i % 2 == 0) g = FastTwoSum(g.hi, g.lo);
  }
  g = FastTwoSum(g.hi, g.lo);
  return {n.shifted, {g.hi * 4, g.lo * 4}};
}

}  // namespace kiln::mathlib
