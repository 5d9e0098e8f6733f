// The representation behind SymContext. Private to the sym*.cc files.
//
// An expression is a polynomial: a sum of integer-weighted monomials over atoms. An atom is a variable or an operation
// that a polynomial can't express (//, %, min, max, and products or sums that were too large or would overflow a
// coefficient). Atoms, monomials and polynomials are ordered by their structure alone, so that the form, and the text,
// do not depend on the order in which expressions were made.
#pragma once

#include <deque>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "compiler/graph/sym.h"

namespace kiln {
namespace sym_internal {

using AtomId = uint32_t;

// Sorted, a power as repetition; empty: the constant term.
using Monomial = absl::InlinedVector<AtomId, 3>;

struct Term {
  int64_t coefficient = 0;
  Monomial monomial;
  friend bool operator==(const Term&, const Term&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Term& t) {
    return H::combine(std::move(h), t.coefficient, t.monomial);
  }
};

// Monomials distinct and in order (highest degree first, then lexicographic: a monomial order), coefficients not 0.
using Poly = std::vector<Term>;

enum class AtomOp : uint8_t { kVar, kFloorDiv, kMod, kMin, kMax, kMul, kAdd };

struct Atom {
  AtomOp op = AtomOp::kVar;
  Var var;                // kVar
  Sym a, b;               // the others
  Sym quotient;           // kMod: a // b
  bool positive = false;  // kMod: b is
  SymRange range;
  std::vector<Var> vars;  // sorted
  uint64_t weight = 1;    // operands if printed, saturating
  uint32_t depth = 0;
};

struct Expr {
  Poly poly;
  SymRange range;
  uint64_t weight = 0;
  uint32_t depth = 0;                    // operations inside each other, at most
  std::optional<std::vector<Sym>> args;  // of SymContext::Node, made when first asked for
};

struct VarInfo {
  AtomId atom = 0;
  Sym sym;
  std::optional<Sym> extent;
};

// More terms than this make an opaque product or sum.
inline constexpr size_t kMaxTerms = 4096;
// Likewise for the degree of a monomial.
inline constexpr size_t kMaxDegree = 64;
// Larger polynomials are compared by constant bounds only.
inline constexpr size_t kMaxProofTerms = 32;

// What a proof may spend, and what is known beside the ranges: an axis that occurs has an extent of at least 1, so the
// atoms of that extent are positive.
struct Proof {
  int fuel = 64;
  std::vector<AtomId> positive;
};

// Intervals; the extremes of int64 stand for no bound.
SymRange AddRange(SymRange a, SymRange b);
SymRange MulRange(SymRange a, SymRange b);
SymRange DivRange(SymRange a, SymRange b);
SymRange ModRange(SymRange a, SymRange b);
int64_t FloorDivInt(int64_t a, int64_t b);  // b > 0
int64_t FloorModInt(int64_t a, int64_t b);  // b > 0

}  // namespace sym_internal

struct SymContext::Impl {
  using AtomId = sym_internal::AtomId;
  using AtomOp = sym_internal::AtomOp;
  using Atom = sym_internal::Atom;
  using Expr = sym_internal::Expr;
  using Monomial = sym_internal::Monomial;
  using Poly = sym_internal::Poly;
  using Proof = sym_internal::Proof;
  using Term = sym_internal::Term;
  using BinaryKey = std::tuple<AtomOp, uint32_t, uint32_t>;

  Impl();

  // --- sym_poly.cc: order, polynomial arithmetic, interning ---
  int CompareAtoms(AtomId x, AtomId y) const;
  int CompareMonomials(const Monomial& x, const Monomial& y) const;
  int ComparePolys(const Poly& x, const Poly& y) const;
  Monomial Times(const Monomial& x, const Monomial& y) const;
  // Nothing if x does not divide y.
  static std::optional<Monomial> Quotient(const Monomial& y, const Monomial& x);
  const Term* Find(const Poly& p, const Monomial& m) const;
  // a + scale * b. Nothing on overflow of a coefficient or when too large.
  std::optional<Poly> AddScaled(const Poly& a, const Poly& b, const Term& scale) const;
  std::optional<Poly> Product(const Poly& a, const Poly& b) const;
  // a = quotient * b + rest, where no term of `rest` is divisible by b's leading term.
  struct Division {
    Poly quotient, rest;
  };
  Division Divide(const Poly& a, const Poly& b) const;
  std::optional<Poly> ExactQuotient(const Poly& a, const Poly& b) const;

  Sym Intern(Poly poly);
  Sym InternAtom(AtomOp op, Sym a, Sym b);
  AtomId DeclareVar(Var var, SymRange range, std::optional<Sym> extent);
  uint32_t next_index[3] = {0, 0, 0};  // by VarKind
  Sym OfAtom(AtomId atom) { return Intern({Term{1, {atom}}}); }
  Sym Const(int64_t value);
  Sym Add(Sym a, Sym b);
  Sym AddAll(std::span<const Sym> terms);
  Sym Mul(Sym a, Sym b);
  Sym Negate(Sym a) { return Mul(a, Const(-1)); }
  // Interns after E*(x//E) + x%E -> x and E*((x//E)%F) + x%E -> x%(E*F).
  Sym Normalize(Poly poly);
  std::optional<Poly> MergeRemainder(const Poly& poly);
  std::optional<Poly> MergeTerm(const Poly& poly, const Term& term, size_t position);

  const Poly& PolyOf(Sym s) const { return exprs[s.id].poly; }
  std::optional<int64_t> AsConst(Sym s) const;
  // The atom, where the expression is one atom with coefficient 1.
  std::optional<AtomId> AsAtom(Sym s) const;

  // --- sym_divide.cc ---
  Sym FloorDiv(Sym a, Sym b);
  Sym Mod(Sym a, Sym b);
  Sym MinMax(AtomOp op, Sym a, Sym b);
  Sym FloorDivPositive(Sym a, Sym b, Proof& proof);
  Sym ModPositive(Sym a, Sym b, Proof& proof);
  Sym InternMod(Sym a, Sym b, bool positive);
  // b a constant: coefficients brought into (-b, b), the constant term into [0, b).
  Division ReduceCoefficients(const Poly& a, int64_t b) const;
  // a = k * scaled + rest with 0 <= rest < k and b = k * divisor, k > 1 a monomial.
  struct Scaling {
    Term k;
    Poly scaled, rest;
    Term divisor;
  };
  std::optional<Scaling> FindScaling(const Poly& a, const Poly& b, Proof& proof) const;

  // --- sym_prove.cc ---
  Proof StartProof(Sym a, Sym b) const;
  SymRange RangeOf(const Poly& p) const;
  bool NonNegative(const Poly& d, Proof& proof) const;
  bool NonNegativeTerms(const Poly& d, const Proof& proof) const;
  // Nothing if `atom` can't be replaced by a bound.
  std::optional<bool> NonNegativeWithout(const Poly& d, AtomId atom, Proof& proof) const;
  bool LessEqual(const Poly& a, const Poly& b, int64_t margin, Proof& proof) const;  // a + margin <= b
  bool InRange(const Poly& a, const Poly& b, Proof& proof) const;                    // 0 <= a < b
  bool Positive(const Poly& b, Proof& proof) const;
  bool PositiveAtom(AtomId atom, const Proof& proof) const;

  struct PolyHash {
    using is_transparent = void;
    const std::deque<Expr>* exprs;
    size_t operator()(const Poly& p) const { return absl::Hash<Poly>()(p); }
    size_t operator()(uint32_t id) const { return absl::Hash<Poly>()((*exprs)[id].poly); }
  };
  struct PolyEq {
    using is_transparent = void;
    const std::deque<Expr>* exprs;
    const Poly& Get(uint32_t id) const { return (*exprs)[id].poly; }
    const Poly& Get(const Poly& p) const { return p; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Get(a) == Get(b);
    }
  };

  std::deque<Atom> atoms;  // an atom's operands are older than itself
  std::deque<Expr> exprs;  // exprs[0] is 0
  absl::flat_hash_set<uint32_t, PolyHash, PolyEq> expr_index;
  absl::flat_hash_map<BinaryKey, AtomId> atom_index;
  absl::flat_hash_map<BinaryKey, Sym> memo;  // results of FloorDiv, Mod, MinMax
  absl::flat_hash_map<Var, sym_internal::VarInfo> vars;
  uint64_t footprint = 0;  // terms and variables held
};

}  // namespace kiln
