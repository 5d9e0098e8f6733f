// Parts of logarithms: log, log2, log10, log1p and the inverse hyperbolic functions.
#pragma once

#include "compiler/mathlib/defs/parts.h"

namespace kiln::mathlib {

// log(x) = k ln(2) + f + small, where f is in [sqrt(1/2) - 1, sqrt(2) - 1] and |small| below |f|.
struct LogParts {
  Expr k;
  Expr f;
  Expr small;
};

// For positive finite x.
LogParts SplitLog(Expr x);

// Of 1 + hi + lo, for hi in (-1, inf) and lo at most some units in the last place of hi. Exact in hi: the sum is never
// rounded.
LogParts SplitLog1p(Expr hi);
LogParts SplitLog1p(Expr hi, Expr lo);

// The sum of the parts, as value and rounding error.
Double SumLog(const LogParts& parts);

// log(x) of any x, given its value `finite` for positive finite ones.
Expr WithLogCases(Expr x, Expr finite);

}  // namespace kiln::mathlib
