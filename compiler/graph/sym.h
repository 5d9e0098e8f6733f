// Interned integer expressions: sizes, strides, offsets and loop indices.
//
// An expression is kept in one canonical form, a sum of products with integer coefficients over *atoms* (variables,
// floor divisions, remainders, minima, maxima), sorted; so two expressions that the form can prove equal are the same
// Sym, and equality is one comparison of ids. Semantics are exact mathematical integers; Eval checks for overflow of
// int64.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kiln {

// An expression of one SymContext. Cheap to copy and compare; meaningless in another context.
struct Sym {
  uint32_t id = 0;  // 0 is the constant 0 in every context
  friend bool operator==(Sym, Sym) = default;
  friend auto operator<=>(Sym, Sym) = default;  // by creation; deterministic for one order of construction
  template <typename H>
  friend H AbslHashValue(H h, Sym s) {
    return H::combine(std::move(h), s.id);
  }
};

// Three kinds of variable share the arithmetic. A size is fixed for a whole call, an axis is a loop's counter, and a
// value is an integer that a kernel computed (an index read from a tensor).
enum class VarKind : uint8_t { kSize, kAxis, kValue };

struct Var {
  VarKind kind = VarKind::kSize;
  uint32_t index = 0;  // s0, i0, v0
  friend bool operator==(Var, Var) = default;
  friend auto operator<=>(Var, Var) = default;
  template <typename H>
  friend H AbslHashValue(H h, Var v) {
    return H::combine(std::move(h), v.kind, v.index);
  }
};

inline constexpr int64_t kSymUnbounded = std::numeric_limits<int64_t>::max();

struct SymRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = kSymUnbounded;
  friend bool operator==(SymRange, SymRange) = default;
};

// One operation of an expression, for walking it (text, proto, code generation).
struct SymNode {
  enum class Op : uint8_t { kConst, kVar, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  Op op = Op::kConst;
  int64_t value = 0;          // kConst
  Var var;                    // kVar
  std::span<const Sym> args;  // kAdd, kMul: two or more, canonical order; others: two
};

// Owns expressions. Not thread-safe; one a compilation. Everything is interned and near-linear in the size of the
// operands; a product or sum that would be very large, or overflow a coefficient, is kept as it is. Nothing but Parse
// recurses over an expression's depth (ToString: callers bound Weight where an expression comes from outside).
class SymContext {
 public:
  SymContext();
  ~SymContext();
  SymContext(SymContext&&) noexcept;
  SymContext& operator=(SymContext&&) noexcept;

  Sym Const(int64_t value);
  // Declares a variable or returns it. Sizes default to [0, unbounded]; a second declaration intersects the ranges,
  // which expressions made before do not notice. An axis or value keeps its first extent.
  Sym Size(uint32_t index, SymRange range = {0, kSymUnbounded});
  // An axis runs over [0, extent). `extent` may itself name sizes and other axes.
  Sym Axis(uint32_t index, Sym extent);
  // A data-dependent index known (or checked) to be in [0, extent).
  Sym Value(uint32_t index, Sym extent);

  Sym Add(Sym a, Sym b);
  Sym Add(std::span<const Sym> terms);
  Sym Sub(Sym a, Sym b);
  Sym Mul(Sym a, Sym b);
  Sym Mul(std::span<const Sym> factors);
  // Towards minus infinity; a divisor that is the constant 0 gives 0 // 0 unevaluated, which Eval refuses. Simplified
  // by ranges and extents: (a*E + b) // E is a and (a*E + b) % E is b where 0 <= b < E is provable.
  Sym FloorDiv(Sym a, Sym b);
  Sym CeilDiv(Sym a, Sym b);  // (a + b - 1) // b
  Sym Mod(Sym a, Sym b);
  Sym Min(Sym a, Sym b);
  Sym Max(Sym a, Sym b);

  std::optional<int64_t> AsConst(Sym s) const;
  bool IsConst(Sym s, int64_t value) const { return AsConst(s) == value; }
  std::optional<Var> AsVar(Sym s) const;
  SymNode Node(Sym s) const;        // the spans live as long as the context
  SymRange RangeOf(Sym s) const;    // constant bounds, saturating
  bool ProvablyLess(Sym a, Sym b);  // a < b for every value of the variables in their ranges and extents
  bool ProvablyLessEqual(Sym a, Sym b);
  bool ProvablyDivisible(Sym a, Sym b);  // b * (a // b) == a

  // s = coefficient * var + rest, `rest` and `coefficient` free of var. Nothing if var occurs in any other way.
  struct Linear {
    Sym coefficient;
    Sym rest;
  };
  std::optional<Linear> AsLinear(Sym s, Var var);
  bool Mentions(Sym s, Var var) const;
  std::vector<Var> Variables(Sym s) const;  // sorted, distinct

  // Replaces variables; `replace` returns nothing for those to keep.
  Sym Substitute(Sym s, const std::function<std::optional<Sym>(Var)>& replace);
  // Rebuilds an expression of another context here.
  Sym Import(const SymContext& from, Sym s, const std::function<Sym(Var)>& variable);

  // InvalidArgument on overflow, a zero divisor, or a variable for which `value` gives nothing.
  absl::StatusOr<int64_t> Eval(Sym s, const std::function<std::optional<int64_t>(Var)>& value) const;

  // "s0*768 + i1", "(s0 + 3)//4", "s0 % 8", "min(s0, 4)". Parse reads it back to the same Sym; every variable must be
  // declared. Parse's error is InvalidArgument and names the offset; text nested deeper than 200 is refused.
  std::string ToString(Sym s) const;
  absl::StatusOr<Sym> Parse(std::string_view text);

  // Extent given to Axis or Value; nothing for sizes.
  std::optional<Sym> Extent(Var var) const;
  SymRange Range(Var var) const;
  size_t size() const;  // expressions interned so far
  // One more than the highest index declared of this kind: where the numbers of a new kernel's axes or values start.
  uint32_t NextIndex(VarKind kind) const;
  // For bounding what outside input may build: operands in the text of `s` (saturating), operations nested in each
  // other, and table entries held by the context.
  uint64_t Weight(Sym s) const;
  uint32_t Depth(Sym s) const;
  uint64_t footprint() const;

  struct Impl;  // sym_impl.h, for sym*.cc only

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln
