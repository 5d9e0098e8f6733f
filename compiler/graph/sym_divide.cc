// Floor division, remainder, minimum and maximum of size expressions, simplified where ranges and extents allow it.
#include <algorithm>
#include <numeric>

#include "compiler/graph/sym_impl.h"

namespace kiln {

using sym_internal::FloorDivInt;
using sym_internal::FloorModInt;

Sym SymContext::Impl::FloorDiv(Sym a, Sym b) {
  BinaryKey key{AtomOp::kFloorDiv, a.id, b.id};
  if (auto it = memo.find(key); it != memo.end()) return it->second;
  Proof proof = StartProof(a, b);
  std::optional<int64_t> cb = AsConst(b);
  Sym result;
  if (cb == 0) {
    result = InternAtom(AtomOp::kFloorDiv, Sym{}, Sym{});
  } else if (cb == 1) {
    result = a;
  } else if (cb && *cb < 0 && *cb != INT64_MIN) {
    result = FloorDiv(Negate(a), Const(-*cb));
  } else if (!Positive(PolyOf(b), proof)) {
    result = InternAtom(AtomOp::kFloorDiv, a, b);
  } else if (std::optional<int64_t> ca = AsConst(a); ca && cb) {
    result = Const(FloorDivInt(*ca, *cb));
  } else {
    result = FloorDivPositive(a, b, proof);
  }
  memo[key] = result;
  return result;
}

Sym SymContext::Impl::FloorDivPositive(Sym a, Sym b, Proof& proof) {
  const Poly& x = PolyOf(a);
  const Poly& y = PolyOf(b);
  if (InRange(x, y, proof)) return Sym{};
  Division d = Divide(x, y);
  if (!d.quotient.empty()) return Add(Intern(d.quotient), FloorDiv(Intern(d.rest), b));
  std::optional<Poly> shifted = AddScaled(x, y, Term{1, {}});
  if (shifted && InRange(*shifted, y, proof)) return Const(-1);
  if (std::optional<int64_t> cb = AsConst(b)) {
    d = ReduceCoefficients(x, *cb);
    if (!d.quotient.empty()) return Add(Intern(d.quotient), FloorDiv(Intern(d.rest), b));
  }
  if (std::optional<Scaling> s = FindScaling(x, y, proof)) return FloorDiv(Normalize(s->scaled), Intern({s->divisor}));
  if (std::optional<AtomId> atom = AsAtom(a)) {
    // Copied: the calls below add atoms.
    const Sym inner = atoms[*atom].a;
    const Sym by = atoms[*atom].b;
    if (atoms[*atom].op == AtomOp::kFloorDiv && Positive(PolyOf(by), proof)) return FloorDiv(inner, Mul(by, b));
    if (atoms[*atom].op == AtomOp::kMod && Positive(PolyOf(by), proof)) {
      std::optional<Poly> digits = ExactQuotient(PolyOf(by), y);
      if (digits) return Mod(FloorDiv(inner, b), Intern(*std::move(digits)));
    }
  }
  return InternAtom(AtomOp::kFloorDiv, a, b);
}

Sym SymContext::Impl::Mod(Sym a, Sym b) {
  BinaryKey key{AtomOp::kMod, a.id, b.id};
  if (auto it = memo.find(key); it != memo.end()) return it->second;
  Proof proof = StartProof(a, b);
  std::optional<int64_t> cb = AsConst(b);
  Sym result;
  if (cb == 0) {
    result = InternMod(Sym{}, Sym{}, false);
  } else if (cb == 1) {
    result = Sym{};
  } else if (cb && *cb < 0 && *cb != INT64_MIN) {
    result = Negate(Mod(Negate(a), Const(-*cb)));
  } else if (!Positive(PolyOf(b), proof)) {
    result = InternMod(a, b, false);
  } else if (std::optional<int64_t> ca = AsConst(a); ca && cb) {
    result = Const(FloorModInt(*ca, *cb));
  } else {
    result = ModPositive(a, b, proof);
  }
  memo[key] = result;
  return result;
}

Sym SymContext::Impl::ModPositive(Sym a, Sym b, Proof& proof) {
  const Poly& x = PolyOf(a);
  const Poly& y = PolyOf(b);
  if (InRange(x, y, proof)) return a;
  Division d = Divide(x, y);
  if (!d.quotient.empty()) return Mod(Intern(d.rest), b);
  std::optional<Poly> shifted = AddScaled(x, y, Term{1, {}});
  if (shifted && InRange(*shifted, y, proof)) return Normalize(*std::move(shifted));
  if (std::optional<int64_t> cb = AsConst(b)) {
    d = ReduceCoefficients(x, *cb);
    if (!d.quotient.empty()) return Mod(Intern(d.rest), b);
  }
  // c * (x % m) is c * x modulo a divisor of m.
  for (const Term& t : x) {
    for (AtomId factor : t.monomial) {
      const Atom inner = atoms[factor];
      if (inner.op != AtomOp::kMod || !ExactQuotient(PolyOf(inner.b), y)) continue;
      std::optional<Poly> without = AddScaled(x, {t}, Term{-1, {}});
      Term rest{t.coefficient, *Quotient(t.monomial, {factor})};
      without = without ? AddScaled(*without, PolyOf(inner.a), rest) : std::nullopt;
      if (without) return Mod(Normalize(*std::move(without)), b);
    }
  }
  if (std::optional<Scaling> s = FindScaling(x, y, proof)) {
    Sym high = Mod(Normalize(s->scaled), Intern({s->divisor}));
    return Add(Mul(high, Intern({s->k})), Normalize(s->rest));
  }
  return InternMod(a, b, true);
}

Sym SymContext::Impl::InternMod(Sym a, Sym b, bool positive) {
  Sym quotient = FloorDiv(a, b);
  Sym result = InternAtom(AtomOp::kMod, a, b);
  Atom& atom = atoms[*AsAtom(result)];
  atom.quotient = quotient;
  atom.positive = positive;
  return result;
}

SymContext::Impl::Division SymContext::Impl::ReduceCoefficients(const Poly& a, int64_t b) const {
  Division out;
  for (const Term& t : a) {
    // The constant term is rounded down, so that n // b is one form for (n - k*b) // b; the others keep their sign.
    int64_t q = t.monomial.empty() ? FloorDivInt(t.coefficient, b) : t.coefficient / b;
    if (q != 0) out.quotient.push_back({q, t.monomial});
    if (t.coefficient - q * b != 0) out.rest.push_back({t.coefficient - q * b, t.monomial});
  }
  return out;
}

std::optional<SymContext::Impl::Scaling> SymContext::Impl::FindScaling(const Poly& a, const Poly& b,
                                                                       Proof& proof) const {
  if (b.size() != 1 || b[0].coefficient < 1 || a.size() > sym_internal::kMaxProofTerms) return std::nullopt;
  std::vector<Term> tried;
  for (const Term& t : a) {
    if (t.coefficient == INT64_MIN) return std::nullopt;
    Term k{std::gcd(t.coefficient, b[0].coefficient), {}};
    Monomial left = t.monomial;
    for (AtomId atom : b[0].monomial) {
      auto it = std::find(left.begin(), left.end(), atom);
      if (it == left.end()) continue;
      left.erase(it);
      k.monomial.push_back(atom);
    }
    if ((k.coefficient == 1 && k.monomial.empty()) || std::find(tried.begin(), tried.end(), k) != tried.end()) continue;
    tried.push_back(k);
    if (!Positive({k}, proof)) continue;
    Division d = Divide(a, {k});
    if (!d.rest.empty() && !InRange(d.rest, {k}, proof)) continue;
    Term divisor{b[0].coefficient / k.coefficient, *Quotient(b[0].monomial, k.monomial)};
    return Scaling{k, std::move(d.quotient), std::move(d.rest), std::move(divisor)};
  }
  return std::nullopt;
}

Sym SymContext::Impl::MinMax(AtomOp op, Sym a, Sym b) {
  if (a == b) return a;
  if (ComparePolys(PolyOf(a), PolyOf(b)) > 0) std::swap(a, b);
  BinaryKey key{op, a.id, b.id};
  if (auto it = memo.find(key); it != memo.end()) return it->second;
  Proof proof = StartProof(a, b);
  Sym result;
  if (LessEqual(PolyOf(a), PolyOf(b), 0, proof)) {
    result = op == AtomOp::kMin ? a : b;
  } else if (LessEqual(PolyOf(b), PolyOf(a), 0, proof)) {
    result = op == AtomOp::kMin ? b : a;
  } else {
    result = InternAtom(op, a, b);
  }
  memo[key] = result;
  return result;
}

}  // namespace kiln
