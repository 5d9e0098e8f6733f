#include "compiler/graph/sym.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/graph/sym_impl.h"

namespace kiln {

using sym_internal::AtomId;
using sym_internal::AtomOp;
using sym_internal::Poly;
using sym_internal::Term;

SymContext::SymContext() : impl_(std::make_unique<Impl>()) {}
SymContext::~SymContext() = default;
SymContext::SymContext(SymContext&&) noexcept = default;
SymContext& SymContext::operator=(SymContext&&) noexcept = default;

Sym SymContext::Const(int64_t value) { return impl_->Const(value); }

Sym SymContext::Size(uint32_t index, SymRange range) {
  return impl_->OfAtom(impl_->DeclareVar({VarKind::kSize, index}, range, std::nullopt));
}

Sym SymContext::Axis(uint32_t index, Sym extent) {
  int64_t max = RangeOf(extent).max;
  SymRange range{0, max == kSymUnbounded ? max : std::max<int64_t>(max - 1, 0)};
  return impl_->OfAtom(impl_->DeclareVar({VarKind::kAxis, index}, range, extent));
}

Sym SymContext::Value(uint32_t index, Sym extent) {
  int64_t max = RangeOf(extent).max;
  SymRange range{0, max == kSymUnbounded ? max : std::max<int64_t>(max - 1, 0)};
  return impl_->OfAtom(impl_->DeclareVar({VarKind::kValue, index}, range, extent));
}

uint32_t SymContext::NextIndex(VarKind kind) const { return impl_->next_index[static_cast<int>(kind)]; }

Sym SymContext::Add(Sym a, Sym b) { return impl_->Add(a, b); }
Sym SymContext::Add(std::span<const Sym> terms) { return impl_->AddAll(terms); }
Sym SymContext::Sub(Sym a, Sym b) { return impl_->Add(a, impl_->Negate(b)); }
Sym SymContext::Mul(Sym a, Sym b) { return impl_->Mul(a, b); }
Sym SymContext::Mul(std::span<const Sym> factors) {
  Sym product = Const(1);
  for (Sym s : factors) product = impl_->Mul(product, s);
  return product;
}
Sym SymContext::FloorDiv(Sym a, Sym b) { return impl_->FloorDiv(a, b); }
Sym SymContext::CeilDiv(Sym a, Sym b) { return impl_->FloorDiv(Sub(impl_->Add(a, b), Const(1)), b); }
Sym SymContext::Mod(Sym a, Sym b) { return impl_->Mod(a, b); }
Sym SymContext::Min(Sym a, Sym b) { return impl_->MinMax(AtomOp::kMin, a, b); }
Sym SymContext::Max(Sym a, Sym b) { return impl_->MinMax(AtomOp::kMax, a, b); }

std::optional<int64_t> SymContext::AsConst(Sym s) const { return impl_->AsConst(s); }

std::optional<Var> SymContext::AsVar(Sym s) const {
  std::optional<AtomId> atom = impl_->AsAtom(s);
  if (!atom || impl_->atoms[*atom].op != AtomOp::kVar) return std::nullopt;
  return impl_->atoms[*atom].var;
}

SymNode SymContext::Node(Sym s) const {
  if (std::optional<int64_t> c = AsConst(s)) return {SymNode::Op::kConst, *c, {}, {}};
  const std::optional<AtomId> atom = impl_->AsAtom(s);
  if (atom && impl_->atoms[*atom].op == AtomOp::kVar) return {SymNode::Op::kVar, 0, impl_->atoms[*atom].var, {}};
  std::vector<Sym> args;
  SymNode node;
  if (atom) {
    static constexpr SymNode::Op kOps[] = {SymNode::Op::kVar, SymNode::Op::kFloorDiv, SymNode::Op::kMod,
                                           SymNode::Op::kMin, SymNode::Op::kMax,      SymNode::Op::kMul,
                                           SymNode::Op::kAdd};
    const sym_internal::Atom& a = impl_->atoms[*atom];
    node.op = kOps[static_cast<int>(a.op)];
    args = {a.a, a.b};
  } else if (const Poly poly = impl_->PolyOf(s); poly.size() == 1) {
    node.op = SymNode::Op::kMul;
    for (AtomId factor : poly[0].monomial) args.push_back(impl_->OfAtom(factor));
    if (poly[0].coefficient != 1) args.push_back(impl_->Const(poly[0].coefficient));
  } else {
    node.op = SymNode::Op::kAdd;
    for (const Term& term : poly) args.push_back(impl_->Intern({term}));
  }
  std::optional<std::vector<Sym>>& cached = impl_->exprs[s.id].args;
  if (!cached) cached = std::move(args);
  node.args = *cached;
  return node;
}

SymRange SymContext::RangeOf(Sym s) const { return impl_->exprs[s.id].range; }

bool SymContext::ProvablyLess(Sym a, Sym b) {
  sym_internal::Proof proof = impl_->StartProof(a, b);
  return impl_->LessEqual(impl_->PolyOf(a), impl_->PolyOf(b), 1, proof);
}

bool SymContext::ProvablyLessEqual(Sym a, Sym b) {
  if (a == b) return true;
  sym_internal::Proof proof = impl_->StartProof(a, b);
  return impl_->LessEqual(impl_->PolyOf(a), impl_->PolyOf(b), 0, proof);
}

bool SymContext::ProvablyDivisible(Sym a, Sym b) {
  const auto divides = [&](Sym s) {
    sym_internal::Proof proof = impl_->StartProof(s, b);
    return impl_->Positive(impl_->PolyOf(b), proof) && Mod(s, b) == Sym{};
  };
  // One level: deeper ones could share their parts, and be as many as two to their depth.
  const SymNode node = Node(a);
  if (node.op == SymNode::Op::kMin || node.op == SymNode::Op::kMax)
    return divides(node.args[0]) && divides(node.args[1]);
  return divides(a);
}

std::optional<SymContext::Linear> SymContext::AsLinear(Sym s, Var var) {
  Poly coefficient, rest;
  for (const Term& t : impl_->PolyOf(s)) {
    int uses = 0;
    sym_internal::Monomial others;
    for (AtomId atom : t.monomial) {
      const sym_internal::Atom& a = impl_->atoms[atom];
      if (!std::binary_search(a.vars.begin(), a.vars.end(), var)) {
        others.push_back(atom);
      } else if (a.op == AtomOp::kVar) {
        ++uses;
      } else {
        return std::nullopt;
      }
    }
    if (uses > 1) return std::nullopt;
    (uses == 1 ? coefficient : rest).push_back({t.coefficient, std::move(others)});
  }
  // Taking one variable out of each monomial keeps them in order, since all had it once.
  return Linear{impl_->Normalize(std::move(coefficient)), impl_->Normalize(std::move(rest))};
}

bool SymContext::Mentions(Sym s, Var var) const {
  for (const Term& t : impl_->PolyOf(s)) {
    for (AtomId atom : t.monomial) {
      const std::vector<Var>& vars = impl_->atoms[atom].vars;
      if (std::binary_search(vars.begin(), vars.end(), var)) return true;
    }
  }
  return false;
}

std::vector<Var> SymContext::Variables(Sym s) const {
  std::vector<Var> out;
  for (const Term& t : impl_->PolyOf(s)) {
    for (AtomId atom : t.monomial) {
      const std::vector<Var>& vars = impl_->atoms[atom].vars;
      out.insert(out.end(), vars.begin(), vars.end());
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

namespace {

// Atoms below `s`, operands before their users (an atom's operands are older than itself).
std::vector<AtomId> Reachable(const SymContext::Impl& impl, Sym s) {
  std::vector<AtomId> found;
  absl::flat_hash_set<AtomId> seen;
  auto visit = [&](Sym e) {
    for (const Term& t : impl.PolyOf(e)) {
      for (AtomId atom : t.monomial) {
        if (seen.insert(atom).second) found.push_back(atom);
      }
    }
  };
  visit(s);
  for (size_t i = 0; i < found.size(); ++i) {
    const sym_internal::Atom& atom = impl.atoms[found[i]];
    if (atom.op == AtomOp::kVar) continue;
    visit(atom.a);
    visit(atom.b);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Sym Apply(SymContext::Impl& to, AtomOp op, Sym a, Sym b) {
  switch (op) {
    case AtomOp::kFloorDiv:
      return to.FloorDiv(a, b);
    case AtomOp::kMod:
      return to.Mod(a, b);
    case AtomOp::kMin:
    case AtomOp::kMax:
      return to.MinMax(op, a, b);
    case AtomOp::kMul:
      return to.Mul(a, b);
    case AtomOp::kAdd:
      return to.Add(a, b);
    case AtomOp::kVar:
      break;
  }
  return Sym{};
}

// Rebuilds `s` of `from` in `to`, given what each atom below it has become.
Sym Rebuild(const SymContext::Impl& from, SymContext::Impl& to, Sym s, const absl::flat_hash_map<AtomId, Sym>& atoms) {
  const Poly poly = from.PolyOf(s);
  std::vector<Sym> terms;
  for (const Term& t : poly) {
    Sym product = to.Const(t.coefficient);
    for (AtomId atom : t.monomial) product = to.Mul(product, atoms.at(atom));
    terms.push_back(product);
  }
  return to.AddAll(terms);
}

}  // namespace

Sym SymContext::Substitute(Sym s, const std::function<std::optional<Sym>(Var)>& replace) {
  absl::flat_hash_map<AtomId, Sym> now;
  absl::flat_hash_set<AtomId> changed;
  auto touches = [&](Sym e) {
    for (const Term& t : impl_->PolyOf(e)) {
      for (AtomId atom : t.monomial) {
        if (changed.contains(atom)) return true;
      }
    }
    return false;
  };
  for (AtomId id : Reachable(*impl_, s)) {
    const sym_internal::Atom atom = impl_->atoms[id];
    Sym self = impl_->OfAtom(id);
    Sym next = self;
    if (atom.op == AtomOp::kVar) {
      next = replace(atom.var).value_or(self);
    } else if (touches(atom.a) || touches(atom.b)) {
      next = Apply(*impl_, atom.op, Rebuild(*impl_, *impl_, atom.a, now), Rebuild(*impl_, *impl_, atom.b, now));
    }
    now[id] = next;
    if (next != self) changed.insert(id);
  }
  return touches(s) ? Rebuild(*impl_, *impl_, s, now) : s;
}

Sym SymContext::Import(const SymContext& from, Sym s, const std::function<Sym(Var)>& variable) {
  absl::flat_hash_map<AtomId, Sym> now;
  const Impl& other = *from.impl_;
  for (AtomId id : Reachable(other, s)) {
    const sym_internal::Atom& atom = other.atoms[id];
    now[id] = atom.op == AtomOp::kVar
                  ? variable(atom.var)
                  : Apply(*impl_, atom.op, Rebuild(other, *impl_, atom.a, now), Rebuild(other, *impl_, atom.b, now));
  }
  return Rebuild(other, *impl_, s, now);
}

namespace {

using Values = absl::flat_hash_map<AtomId, int64_t>;

absl::Status Overflow() { return absl::InvalidArgumentError("size expression overflows 64 bits"); }

absl::StatusOr<int64_t> EvalPoly(const Poly& poly, const Values& values) {
  __int128 sum = 0;
  for (const Term& t : poly) {
    __int128 product = t.coefficient;
    for (AtomId atom : t.monomial) {
      if (__builtin_mul_overflow(product, static_cast<__int128>(values.at(atom)), &product)) return Overflow();
    }
    if (__builtin_add_overflow(sum, product, &sum)) return Overflow();
  }
  auto result = static_cast<int64_t>(sum);
  if (result != sum) return Overflow();
  return result;
}

absl::StatusOr<int64_t> EvalBinary(AtomOp op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case AtomOp::kFloorDiv:
    case AtomOp::kMod:
      if (b == 0) return absl::InvalidArgumentError("size expression divides by zero");
      if (b == -1) {
        if (op == AtomOp::kMod) return 0;
        if (__builtin_sub_overflow(int64_t{0}, a, &out)) return Overflow();
        return out;
      }
      if (op == AtomOp::kFloorDiv) return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
      return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0);
    case AtomOp::kMin:
      return std::min(a, b);
    case AtomOp::kMax:
      return std::max(a, b);
    case AtomOp::kMul:
      if (__builtin_mul_overflow(a, b, &out)) return Overflow();
      return out;
    case AtomOp::kAdd:
      if (__builtin_add_overflow(a, b, &out)) return Overflow();
      return out;
    case AtomOp::kVar:
      break;
  }
  return absl::InternalError("size expression with a bad operation");
}

}  // namespace

absl::StatusOr<int64_t> SymContext::Eval(Sym s, const std::function<std::optional<int64_t>(Var)>& value) const {
  Values values;
  for (AtomId id : Reachable(*impl_, s)) {
    const sym_internal::Atom& atom = impl_->atoms[id];
    if (atom.op == AtomOp::kVar) {
      std::optional<int64_t> v = value(atom.var);
      if (!v) return absl::InvalidArgumentError(absl::StrCat("no value for variable ", ToString(impl_->OfAtom(id))));
      values[id] = *v;
      continue;
    }
    absl::StatusOr<int64_t> a = EvalPoly(impl_->PolyOf(atom.a), values);
    if (!a.ok()) return a.status();
    absl::StatusOr<int64_t> b = EvalPoly(impl_->PolyOf(atom.b), values);
    if (!b.ok()) return b.status();
    absl::StatusOr<int64_t> result = EvalBinary(atom.op, *a, *b);
    if (!result.ok()) return result.status();
    values[id] = *result;
  }
  return EvalPoly(impl_->PolyOf(s), values);
}

std::optional<Sym> SymContext::Extent(Var var) const {
  auto it = impl_->vars.find(var);
  return it == impl_->vars.end() ? std::nullopt : it->second.extent;
}

SymRange SymContext::Range(Var var) const {
  auto it = impl_->vars.find(var);
  return it == impl_->vars.end() ? SymRange{} : impl_->atoms[it->second.atom].range;
}

size_t SymContext::size() const { return impl_->exprs.size(); }
uint64_t SymContext::Weight(Sym s) const { return impl_->exprs[s.id].weight; }
uint32_t SymContext::Depth(Sym s) const { return impl_->exprs[s.id].depth; }
uint64_t SymContext::footprint() const { return impl_->footprint; }

}  // namespace kiln
