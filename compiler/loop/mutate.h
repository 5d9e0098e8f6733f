// Walks and rewrites over loop IR. Recursion follows the nest, at most kMaxNesting deep.
#pragma once

#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

// Calls f on every statement in program order: a For or Reduce before its body, a Reduce's body before its combine
// block.
void Walk(const Block& block, absl::FunctionRef<void(const Stmt&)> f);
void Walk(Block& block, absl::FunctionRef<void(Stmt&)> f);

// The values that a statement itself reads, not those of its bodies; absent ones (kNone) are not visited. A Reduce
// reads `init`, and at its end `yields` and `combined`; those two belong to its bodies and are visited by ForEachYield.
void ForEachOperand(const Stmt& stmt, absl::FunctionRef<void(ValueId)> f);
void ForEachOperand(Stmt& stmt, absl::FunctionRef<void(ValueId&)> f);
void ForEachYield(Stmt& stmt, absl::FunctionRef<void(ValueId&)> f);

// The values that a statement defines: a Let's result; a Reduce's results (visible after it), then a and b (inside
// combine).
void ForEachResult(Stmt& stmt, absl::FunctionRef<void(ValueId&)> f);

// The index expressions of a statement itself: of a kIndex, kLoad, kCheckIndex, Store, Prefetch;
// extent and grain of an axis.
void ForEachSym(const Stmt& stmt, absl::FunctionRef<void(Sym)> f);
void ForEachSym(Stmt& stmt, absl::FunctionRef<void(Sym&)> f);

// Threads of the kernel's kThread axes; 1 if there are none.
uint32_t BlockThreads(const Kernel& kernel);

// Whether `op` reads Let::index.
bool UsesIndex(Op op);

// Axis of a For or Reduce, else null.
const Axis* AxisOf(const Stmt& stmt);
Axis* AxisOf(Stmt& stmt);

// Rebuilds every block of `block`, innermost first: f gets each statement (bodies already rebuilt) and appends what
// replaces it to `out`. A Let's replacement must define the same result.
void Mutate(Block& block, absl::FunctionRef<void(Stmt stmt, Block& out)> f);

// Copies Syms into another context, declaring variables there, with their ranges and extents, as it meets them.
class SymImporter {
 public:
  // `rename` gives the variable of `to` for one of `from`; without it names stay. Both contexts outlive the importer.
  SymImporter(const SymContext& from, SymContext& to, std::function<Var(Var)> rename = nullptr);
  Sym operator()(Sym s);
  Sym Variable(Var var);

 private:
  const SymContext& from_;
  SymContext& to_;
  std::function<Var(Var)> rename_;
  absl::flat_hash_map<Sym, Sym> done_;
  absl::flat_hash_map<Var, Sym> variables_;
};

}  // namespace kiln::loop
