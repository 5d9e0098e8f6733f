// Bounds of size expressions: constant intervals, and proofs that a polynomial is never negative.
#include <algorithm>
#include <limits>

#include "compiler/graph/sym_impl.h"

namespace kiln {
namespace sym_internal {
namespace {

constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();

int64_t Clamp(__int128 v) { return v < kLow ? kLow : v > kHigh ? kHigh : static_cast<int64_t>(v); }

// kLow and kHigh are infinities; 0 times infinity is 0, since no value is infinite.
int64_t MulBound(int64_t a, int64_t b) {
  bool infinite = a == kLow || a == kHigh || b == kLow || b == kHigh;
  if (infinite && a != 0 && b != 0) return (a < 0) == (b < 0) ? kHigh : kLow;
  return Clamp(static_cast<__int128>(a) * b);
}

// b > 0
int64_t DivBound(int64_t a, int64_t b) {
  if (a == kLow || a == kHigh) return b == kHigh ? (a < 0 ? -1 : 0) : a;
  return FloorDivInt(a, b);
}

}  // namespace

int64_t FloorDivInt(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
int64_t FloorModInt(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

SymRange AddRange(SymRange a, SymRange b) {
  SymRange out;
  out.min = a.min == kLow || b.min == kLow ? kLow : Clamp(static_cast<__int128>(a.min) + b.min);
  out.max = a.max == kHigh || b.max == kHigh ? kHigh : Clamp(static_cast<__int128>(a.max) + b.max);
  return out;
}

SymRange MulRange(SymRange a, SymRange b) {
  auto [lo, hi] =
      std::minmax({MulBound(a.min, b.min), MulBound(a.min, b.max), MulBound(a.max, b.min), MulBound(a.max, b.max)});
  return {lo, hi};
}

SymRange DivRange(SymRange a, SymRange b) {
  if (b.min <= 0) return {};
  SymRange out{std::min(DivBound(a.min, b.min), DivBound(a.min, b.max)),
               std::max(DivBound(a.max, b.min), DivBound(a.max, b.max))};
  return out;
}

SymRange ModRange(SymRange a, SymRange b) {
  if (b.min <= 0) return {};
  SymRange out{0, b.max == kHigh ? kHigh : b.max - 1};
  if (a.min >= 0) out.max = std::min(out.max, a.max);
  return out;
}

}  // namespace sym_internal

using sym_internal::AddRange;
using sym_internal::kMaxProofTerms;
using sym_internal::MulRange;

SymRange SymContext::Impl::RangeOf(const Poly& p) const {
  SymRange sum{0, 0};
  for (const Term& t : p) {
    SymRange product{t.coefficient, t.coefficient};
    for (AtomId atom : t.monomial) product = MulRange(product, atoms[atom].range);
    sum = AddRange(sum, product);
  }
  return sum;
}

SymContext::Impl::Proof SymContext::Impl::StartProof(Sym a, Sym b) const {
  Proof proof;
  std::vector<Var> work;
  auto gather = [&](Sym s) {
    for (const Term& t : PolyOf(s)) {
      for (AtomId atom : t.monomial) {
        for (Var v : atoms[atom].vars) {
          if (v.kind != VarKind::kSize && std::find(work.begin(), work.end(), v) == work.end()) work.push_back(v);
        }
      }
    }
  };
  if (PolyOf(a).size() > kMaxProofTerms || PolyOf(b).size() > kMaxProofTerms) return proof;
  gather(a);
  gather(b);
  for (size_t i = 0; i < work.size() && i < kMaxProofTerms; ++i) {
    const std::optional<Sym> extent = vars.at(work[i]).extent;
    if (!extent) continue;
    const Poly& p = PolyOf(*extent);
    gather(*extent);
    if (p.size() != 1 || p[0].coefficient < 1) continue;
    bool signs_known = std::all_of(p[0].monomial.begin(), p[0].monomial.end(),
                                   [&](AtomId atom) { return atoms[atom].range.min >= 0; });
    if (signs_known) proof.positive.insert(proof.positive.end(), p[0].monomial.begin(), p[0].monomial.end());
  }
  return proof;
}

bool SymContext::Impl::PositiveAtom(AtomId atom, const Proof& proof) const {
  return atoms[atom].range.min > 0 ||
         std::find(proof.positive.begin(), proof.positive.end(), atom) != proof.positive.end();
}

bool SymContext::Impl::Positive(const Poly& b, Proof& proof) const {
  if (b.size() == 1) {
    return b[0].coefficient > 0 && std::all_of(b[0].monomial.begin(), b[0].monomial.end(),
                                               [&](AtomId atom) { return PositiveAtom(atom, proof); });
  }
  return LessEqual({}, b, 1, proof);
}

bool SymContext::Impl::LessEqual(const Poly& a, const Poly& b, int64_t margin, Proof& proof) const {
  std::optional<Poly> d = AddScaled(b, a, Term{-1, {}});
  if (d && margin != 0) d = AddScaled(*d, {Term{margin, {}}}, Term{-1, {}});
  return d && NonNegative(*d, proof);
}

bool SymContext::Impl::InRange(const Poly& a, const Poly& b, Proof& proof) const {
  return NonNegative(a, proof) && LessEqual(a, b, 1, proof);
}

// Each atom is its lower bound plus something not negative (or its upper bound less something, where it only occurs
// negatively); a polynomial in these with no negative coefficient is not negative.
bool SymContext::Impl::NonNegativeTerms(const Poly& d, const Proof& proof) const {
  if (RangeOf(d).min >= 0) return true;
  std::vector<AtomId> seen;
  for (const Term& t : d) {
    if (t.monomial.size() > 4) return false;
    for (AtomId atom : t.monomial) {
      if (std::find(seen.begin(), seen.end(), atom) == seen.end()) seen.push_back(atom);
    }
  }
  if (seen.size() > 16) return false;
  Poly p = d;
  for (AtomId atom : seen) {
    bool always_negative = true;
    for (const Term& t : p) {
      bool occurs = std::find(t.monomial.begin(), t.monomial.end(), atom) != t.monomial.end();
      if (occurs && t.coefficient > 0) always_negative = false;
    }
    const SymRange range = atoms[atom].range;
    const int64_t low = PositiveAtom(atom, proof) ? std::max<int64_t>(range.min, 1) : range.min;
    bool from_above = always_negative && range.max != kSymUnbounded;
    if (!from_above && low == std::numeric_limits<int64_t>::min()) return false;
    if (!from_above && low == 0) continue;
    // The atom becomes low + atom, or high - atom.
    Poly bound{Term{from_above ? -1 : 1, {atom}}};
    if (int64_t c = from_above ? range.max : low; c != 0) bound.push_back(Term{c, {}});
    Poly next;
    for (const Term& t : p) {
      Poly product{Term{t.coefficient, {}}};
      for (AtomId factor : t.monomial) {
        std::optional<Poly> more = factor == atom ? Product(product, bound) : Product(product, {Term{1, {factor}}});
        if (!more) return false;
        product = *std::move(more);
      }
      std::optional<Poly> sum = AddScaled(next, product, Term{1, {}});
      if (!sum || sum->size() > kMaxProofTerms) return false;
      next = *std::move(sum);
    }
    p = std::move(next);
  }
  return std::all_of(p.begin(), p.end(), [](const Term& t) { return t.coefficient > 0; });
}

bool SymContext::Impl::NonNegative(const Poly& d, Proof& proof) const {
  if (--proof.fuel < 0) return false;
  SymRange range = RangeOf(d);
  if (range.min >= 0) return true;
  if (range.max < 0 || d.size() > kMaxProofTerms) return false;
  if (NonNegativeTerms(d, proof)) return true;
  std::vector<AtomId> candidates;
  for (const Term& t : d) {
    for (AtomId atom : t.monomial) {
      bool bounded = atoms[atom].op != AtomOp::kVar || atoms[atom].var.kind != VarKind::kSize;
      if (bounded && std::find(candidates.begin(), candidates.end(), atom) == candidates.end()) {
        candidates.push_back(atom);
      }
    }
  }
  // The outermost operations first, then the axes that were declared last: their bounds mention the others.
  std::sort(candidates.begin(), candidates.end(), [&](AtomId x, AtomId y) { return CompareAtoms(x, y) > 0; });
  // The first that applies decides; trying other orders would be exponential and gains next to nothing.
  for (AtomId atom : candidates) {
    if (std::optional<bool> answer = NonNegativeWithout(d, atom, proof)) return *answer;
  }
  return false;
}

// d = c * A + r with c of one sign: d >= 0 follows from the same with A replaced by its bound on the side that hurts.
std::optional<bool> SymContext::Impl::NonNegativeWithout(const Poly& d, AtomId id, Proof& proof) const {
  const Atom& atom = atoms[id];
  Poly c, r;
  for (const Term& t : d) {
    auto n = std::count(t.monomial.begin(), t.monomial.end(), id);
    if (n > 1) return std::nullopt;
    if (n == 1) {
      c.push_back({t.coefficient, *Quotient(t.monomial, {id})});
    } else {
      r.push_back(t);
    }
  }
  // An axis must not occur inside another operation as well.
  if (atom.op == AtomOp::kVar) {
    for (const Term& t : d) {
      for (AtomId other : t.monomial) {
        const Atom& o = atoms[other];
        if (other != id && std::binary_search(o.vars.begin(), o.vars.end(), atom.var)) return std::nullopt;
      }
    }
  }
  std::optional<Poly> minus_c = AddScaled({}, c, Term{-1, {}});
  bool up = false;  // c <= 0, so the upper bound is what matters
  if (NonNegativeTerms(c, proof)) {
    up = false;
  } else if (minus_c && NonNegativeTerms(*minus_c, proof)) {
    up = true;
  } else {
    return std::nullopt;
  }
  auto holds = [&](const Poly& bound, const Poly& scale) {  // c * bound + scale * r + (scale - 1) >= 0
    std::optional<Poly> x = Product(c, bound);
    std::optional<Poly> y = Product(scale, r);
    if (!x || !y) return false;
    std::optional<Poly> sum = AddScaled(*x, *y, Term{1, {}});
    if (sum) sum = AddScaled(*sum, scale, Term{1, {}});
    if (sum) sum = AddScaled(*sum, {Term{1, {}}}, Term{-1, {}});
    return sum && NonNegative(*sum, proof);
  };
  const Poly one{Term{1, {}}};
  auto below = [&](const Poly& p) { return AddScaled(p, one, Term{-1, {}}).value_or(p); };  // p - 1
  switch (atom.op) {
    case AtomOp::kVar: {
      const std::optional<Sym> extent = vars.at(atom.var).extent;
      if (!extent) return std::nullopt;
      return holds(up ? below(PolyOf(*extent)) : Poly{}, one);
    }
    case AtomOp::kMod:
      if (!Positive(PolyOf(atom.b), proof)) return std::nullopt;
      if (!up) return holds({}, one);
      return holds(below(PolyOf(atom.b)), one) || (NonNegative(PolyOf(atom.a), proof) && holds(PolyOf(atom.a), one));
    case AtomOp::kFloorDiv: {
      // E * (a // E) lies in [a - E + 1, a]; and d >= 0 follows from E * d >= 1 - E.
      if (!Positive(PolyOf(atom.b), proof)) return std::nullopt;
      if (up) return holds(PolyOf(atom.a), PolyOf(atom.b));
      std::optional<Poly> low = AddScaled(PolyOf(atom.a), below(PolyOf(atom.b)), Term{-1, {}});
      return low && holds(*low, PolyOf(atom.b));
    }
    case AtomOp::kMin:
      if (up) return holds(PolyOf(atom.a), one) || holds(PolyOf(atom.b), one);
      return holds(PolyOf(atom.a), one) && holds(PolyOf(atom.b), one);
    case AtomOp::kMax:
      if (!up) return holds(PolyOf(atom.a), one) || holds(PolyOf(atom.b), one);
      return holds(PolyOf(atom.a), one) && holds(PolyOf(atom.b), one);
    case AtomOp::kMul:
    case AtomOp::kAdd:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace kiln
