// Order, polynomial arithmetic and interning of size expressions.
#include <algorithm>
#include <numeric>

#include "compiler/graph/sym_impl.h"

namespace kiln {

using sym_internal::AddRange;
using sym_internal::kMaxDegree;
using sym_internal::kMaxTerms;

SymContext::Impl::Impl() : expr_index(0, PolyHash{&exprs}, PolyEq{&exprs}) { Intern({}); }

namespace {

uint64_t SaturatingAdd(uint64_t a, uint64_t b) { return a + b < a ? ~uint64_t{0} : a + b; }

}  // namespace

// Walks down to the first difference: operands that are the same Sym are equal, so only one path is followed.
int SymContext::Impl::CompareAtoms(AtomId x, AtomId y) const {
  while (x != y) {
    const Atom& a = atoms[x];
    const Atom& b = atoms[y];
    if (a.op != b.op) return a.op < b.op ? -1 : 1;
    if (a.op == AtomOp::kVar) return a.var < b.var ? -1 : 1;
    const Poly& p = PolyOf(a.a != b.a ? a.a : a.b);
    const Poly& q = PolyOf(a.a != b.a ? b.a : b.b);
    size_t i = 0;
    while (i < p.size() && i < q.size() && p[i] == q[i]) ++i;
    if (i == p.size() || i == q.size()) return p.size() < q.size() ? -1 : 1;
    const Monomial& m = p[i].monomial;
    const Monomial& n = q[i].monomial;
    if (m.size() != n.size()) return m.size() > n.size() ? -1 : 1;
    auto [mi, ni] = std::mismatch(m.begin(), m.end(), n.begin());
    if (mi == m.end()) return p[i].coefficient < q[i].coefficient ? -1 : 1;
    x = *mi;
    y = *ni;
  }
  return 0;
}

int SymContext::Impl::CompareMonomials(const Monomial& x, const Monomial& y) const {
  if (x.size() != y.size()) return x.size() > y.size() ? -1 : 1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) return CompareAtoms(x[i], y[i]);
  }
  return 0;
}

int SymContext::Impl::ComparePolys(const Poly& x, const Poly& y) const {
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (int c = CompareMonomials(x[i].monomial, y[i].monomial)) return c;
    if (x[i].coefficient != y[i].coefficient) return x[i].coefficient < y[i].coefficient ? -1 : 1;
  }
  return x.size() == y.size() ? 0 : x.size() < y.size() ? -1 : 1;
}

SymContext::Impl::Monomial SymContext::Impl::Times(const Monomial& x, const Monomial& y) const {
  if (x.empty()) return y;
  if (y.empty()) return x;
  Monomial out(x.size() + y.size());
  std::merge(x.begin(), x.end(), y.begin(), y.end(), out.begin(),
             [this](AtomId a, AtomId b) { return CompareAtoms(a, b) < 0; });
  return out;
}

std::optional<SymContext::Impl::Monomial> SymContext::Impl::Quotient(const Monomial& y, const Monomial& x) {
  Monomial out;
  size_t i = 0;
  for (AtomId atom : y) {
    if (i < x.size() && x[i] == atom) {
      ++i;
    } else {
      out.push_back(atom);
    }
  }
  if (i != x.size()) return std::nullopt;
  return out;
}

const SymContext::Impl::Term* SymContext::Impl::Find(const Poly& p, const Monomial& m) const {
  auto it = std::lower_bound(p.begin(), p.end(), m, [this](const Term& t, const Monomial& key) {
    return CompareMonomials(t.monomial, key) < 0;
  });
  return it != p.end() && it->monomial == m ? &*it : nullptr;
}

std::optional<SymContext::Impl::Poly> SymContext::Impl::AddScaled(const Poly& a, const Poly& b,
                                                                  const Term& scale) const {
  Poly out;
  out.reserve(a.size() + b.size());
  size_t i = 0;
  for (const Term& t : b) {
    Term scaled{0, Times(t.monomial, scale.monomial)};
    if (scaled.monomial.size() > kMaxDegree) return std::nullopt;
    if (__builtin_mul_overflow(t.coefficient, scale.coefficient, &scaled.coefficient)) return std::nullopt;
    int order = 1;
    while (i < a.size() && (order = CompareMonomials(a[i].monomial, scaled.monomial)) < 0) out.push_back(a[i++]);
    if (i < a.size() && order == 0) {
      if (__builtin_add_overflow(a[i++].coefficient, scaled.coefficient, &scaled.coefficient)) return std::nullopt;
    }
    if (scaled.coefficient != 0) out.push_back(std::move(scaled));
  }
  out.insert(out.end(), a.begin() + i, a.end());
  if (out.size() > kMaxTerms) return std::nullopt;
  return out;
}

std::optional<SymContext::Impl::Poly> SymContext::Impl::Product(const Poly& a, const Poly& b) const {
  const Poly& few = a.size() < b.size() ? a : b;
  const Poly& many = a.size() < b.size() ? b : a;
  if (few.empty()) return Poly{};
  if (few.size() * many.size() > kMaxTerms) return std::nullopt;
  // By halves, so that each term is merged log(few) times.
  std::vector<Poly> rows;
  for (const Term& t : few) {
    std::optional<Poly> row = AddScaled({}, many, t);
    if (!row) return std::nullopt;
    rows.push_back(*std::move(row));
  }
  while (rows.size() > 1) {
    size_t half = rows.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      std::optional<Poly> sum = AddScaled(rows[i], rows[rows.size() - 1 - i], Term{1, {}});
      if (!sum) return std::nullopt;
      rows[i] = *std::move(sum);
    }
    rows.resize(rows.size() - half);
  }
  return std::move(rows[0]);
}

SymContext::Impl::Division SymContext::Impl::Divide(const Poly& a, const Poly& b) const {
  Division out;
  if (b.empty()) return {{}, a};
  const Term& lead = b[0];
  auto divide = [&](const Term& t) -> std::optional<Term> {
    if (lead.coefficient == -1 ? t.coefficient == INT64_MIN : t.coefficient % lead.coefficient != 0)
      return std::nullopt;
    std::optional<Monomial> m = Quotient(t.monomial, lead.monomial);
    if (!m) return std::nullopt;
    return Term{t.coefficient / lead.coefficient, *std::move(m)};
  };
  if (b.size() == 1) {
    for (const Term& t : a) {
      std::optional<Term> q = divide(t);
      if (q) {
        out.quotient.push_back(*std::move(q));
      } else {
        out.rest.push_back(t);
      }
    }
    return out;
  }
  // Long division. Subtracting t * b removes the term at hand and adds smaller ones only.
  Poly work = a;
  for (size_t i = 0, steps = 0; i < work.size() && steps < 256;) {
    std::optional<Term> q = divide(work[i]);
    if (!q || q->coefficient == INT64_MIN) {
      ++i;
      continue;
    }
    ++steps;
    std::optional<Poly> next = AddScaled(work, b, Term{-q->coefficient, q->monomial});
    if (!next) return {{}, a};
    out.quotient.push_back(*std::move(q));
    work = *std::move(next);
  }
  out.rest = std::move(work);
  return out;
}

std::optional<SymContext::Impl::Poly> SymContext::Impl::ExactQuotient(const Poly& a, const Poly& b) const {
  Division d = Divide(a, b);
  if (!d.rest.empty()) return std::nullopt;
  return std::move(d.quotient);
}

Sym SymContext::Impl::Intern(Poly poly) {
  auto it = expr_index.find(poly);
  if (it != expr_index.end()) return Sym{*it};
  Expr expr;
  expr.range = RangeOf(poly);
  for (const Term& t : poly) {
    uint64_t weight = 1;
    for (AtomId atom : t.monomial) {
      weight = SaturatingAdd(weight, atoms[atom].weight);
      expr.depth = std::max(expr.depth, atoms[atom].depth);
    }
    expr.weight = SaturatingAdd(expr.weight, weight);
    footprint += 1 + t.monomial.size();
  }
  expr.poly = std::move(poly);
  auto id = static_cast<uint32_t>(exprs.size());
  exprs.push_back(std::move(expr));
  expr_index.insert(id);
  return Sym{id};
}

Sym SymContext::Impl::InternAtom(AtomOp op, Sym a, Sym b) {
  bool commutes = op != AtomOp::kFloorDiv && op != AtomOp::kMod;
  if (commutes && ComparePolys(PolyOf(a), PolyOf(b)) > 0) std::swap(a, b);
  auto [it, fresh] = atom_index.try_emplace({op, a.id, b.id}, static_cast<AtomId>(atoms.size()));
  if (!fresh) return OfAtom(it->second);
  AtomId id = it->second;
  Atom atom;
  atom.op = op;
  atom.a = a;
  atom.b = b;
  SymRange x = exprs[a.id].range;
  SymRange y = exprs[b.id].range;
  switch (op) {
    case AtomOp::kFloorDiv:
      atom.range = sym_internal::DivRange(x, y);
      break;
    case AtomOp::kMod:
      atom.range = sym_internal::ModRange(x, y);
      break;
    case AtomOp::kMin:
      atom.range = {std::min(x.min, y.min), std::min(x.max, y.max)};
      break;
    case AtomOp::kMax:
      atom.range = {std::max(x.min, y.min), std::max(x.max, y.max)};
      break;
    case AtomOp::kMul:
      atom.range = sym_internal::MulRange(x, y);
      break;
    case AtomOp::kAdd:
      atom.range = AddRange(x, y);
      break;
    case AtomOp::kVar:
      break;
  }
  for (Sym s : {a, b}) {
    for (const Term& t : PolyOf(s)) {
      for (AtomId operand : t.monomial) {
        const Atom& o = atoms[operand];
        atom.vars.insert(atom.vars.end(), o.vars.begin(), o.vars.end());
      }
    }
    atom.weight = SaturatingAdd(atom.weight, exprs[s.id].weight);
    atom.depth = std::max(atom.depth, exprs[s.id].depth + 1);
  }
  std::sort(atom.vars.begin(), atom.vars.end());
  atom.vars.erase(std::unique(atom.vars.begin(), atom.vars.end()), atom.vars.end());
  footprint += 2 + atom.vars.size();
  atoms.push_back(std::move(atom));
  return OfAtom(id);
}

SymContext::Impl::AtomId SymContext::Impl::DeclareVar(Var var, SymRange range, std::optional<Sym> extent) {
  auto it = vars.find(var);
  if (it != vars.end()) {
    Atom& atom = atoms[it->second.atom];
    atom.range = {std::max(atom.range.min, range.min), std::min(atom.range.max, range.max)};
    exprs[it->second.sym.id].range = atom.range;
    return it->second.atom;
  }
  auto id = static_cast<AtomId>(atoms.size());
  Atom atom;
  atom.var = var;
  atom.range = range;
  atom.vars = {var};
  atoms.push_back(std::move(atom));
  vars[var] = {id, OfAtom(id), extent};
  uint32_t& next = next_index[static_cast<int>(var.kind)];
  next = std::max(next, var.index + 1);
  return id;
}

Sym SymContext::Impl::Const(int64_t value) {
  if (value == 0) return Sym{};
  return Intern({Term{value, {}}});
}

Sym SymContext::Impl::Add(Sym a, Sym b) {
  if (a.id == 0) return b;
  if (b.id == 0) return a;
  std::optional<Poly> sum = AddScaled(PolyOf(a), PolyOf(b), Term{1, {}});
  return sum ? Normalize(*std::move(sum)) : InternAtom(AtomOp::kAdd, a, b);
}

Sym SymContext::Impl::AddAll(std::span<const Sym> terms) {
  // Summed before anything is simplified, by halves; one at a time where that would overflow.
  std::vector<Poly> polys;
  for (Sym s : terms) polys.push_back(PolyOf(s));
  bool fits = true;
  while (fits && polys.size() > 1) {
    size_t half = polys.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      std::optional<Poly> sum = AddScaled(polys[i], polys[polys.size() - 1 - i], Term{1, {}});
      fits = fits && sum.has_value();
      polys[i] = std::move(sum).value_or(Poly{});
    }
    polys.resize(polys.size() - half);
  }
  if (fits) return polys.empty() ? Sym{} : Normalize(std::move(polys[0]));
  Sym sum;
  for (Sym s : terms) sum = Add(sum, s);
  return sum;
}

Sym SymContext::Impl::Mul(Sym a, Sym b) {
  std::optional<Poly> product = Product(PolyOf(a), PolyOf(b));
  return product ? Normalize(*std::move(product)) : InternAtom(AtomOp::kMul, a, b);
}

std::optional<int64_t> SymContext::Impl::AsConst(Sym s) const {
  const Poly& p = PolyOf(s);
  if (p.empty()) return 0;
  if (p.size() == 1 && p[0].monomial.empty()) return p[0].coefficient;
  return std::nullopt;
}

std::optional<SymContext::Impl::AtomId> SymContext::Impl::AsAtom(Sym s) const {
  const Poly& p = PolyOf(s);
  if (p.size() != 1 || p[0].coefficient != 1 || p[0].monomial.size() != 1) return std::nullopt;
  return p[0].monomial[0];
}

Sym SymContext::Impl::Normalize(Poly poly) {
  for (int round = 0; round < 64; ++round) {
    std::optional<Poly> merged = MergeRemainder(poly);
    if (!merged) break;
    poly = *std::move(merged);
  }
  return Intern(std::move(poly));
}

std::optional<SymContext::Impl::Poly> SymContext::Impl::MergeRemainder(const Poly& poly) {
  if (poly.size() < 2) return std::nullopt;
  for (const Term& term : poly) {
    for (size_t i = 0; i < term.monomial.size(); ++i) {
      if (atoms[term.monomial[i]].op != AtomOp::kMod) continue;
      if (std::optional<Poly> merged = MergeTerm(poly, term, i)) return merged;
    }
  }
  return std::nullopt;
}

// The factor of `term` at `position` is r = x % E; the rest of it is m.
//   m * r + m * E * (x // E)        is m * x
//   m * r + m * E * ((x // E) % F)  is m * (x % (E * F))
std::optional<SymContext::Impl::Poly> SymContext::Impl::MergeTerm(const Poly& poly, const Term& term, size_t position) {
  const Atom& r = atoms[term.monomial[position]];
  const Term m{term.coefficient, *Quotient(term.monomial, {term.monomial[position]})};
  const Term minus_m{m.coefficient == INT64_MIN ? 0 : -m.coefficient, m.monomial};
  if (minus_m.coefficient == 0 || r.b == Sym{}) return std::nullopt;
  // Subtracts m * whole and adds m * instead, if every term of m * whole is in the sum with the same coefficient.
  auto replace = [&](const Poly& whole, const Poly& instead) -> std::optional<Poly> {
    std::optional<Poly> terms = AddScaled({}, whole, m);
    if (!terms) return std::nullopt;
    for (const Term& t : *terms) {
      const Term* found = Find(poly, t.monomial);
      if (!found || found->coefficient != t.coefficient) return std::nullopt;
    }
    std::optional<Poly> without = AddScaled(poly, whole, minus_m);
    return without ? AddScaled(*without, instead, m) : std::nullopt;
  };
  const Poly remainder{Term{1, {term.monomial[position]}}};
  std::optional<Poly> high = Product(PolyOf(r.b), PolyOf(r.quotient));
  std::optional<Poly> whole = high ? AddScaled(*high, remainder, Term{1, {}}) : std::nullopt;
  if (whole) {
    if (std::optional<Poly> merged = replace(*whole, PolyOf(r.a))) return merged;
  }
  for (const Term& t : poly) {
    for (AtomId other : t.monomial) {
      const Atom& digit = atoms[other];
      if (digit.op != AtomOp::kMod || digit.a != r.quotient || !digit.positive || !r.positive) continue;
      high = Product(PolyOf(r.b), {Term{1, {other}}});
      whole = high ? AddScaled(*high, remainder, Term{1, {}}) : std::nullopt;
      if (!whole) continue;
      Sym instead = Mod(r.a, Mul(r.b, digit.b));
      if (std::optional<Poly> merged = replace(*whole, PolyOf(instead))) return merged;
    }
  }
  return std::nullopt;
}

}  // namespace kiln
