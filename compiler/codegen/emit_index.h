// Size and index expressions to i64 arithmetic, each computed at the outermost place where its variables are known.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/emit_types.h"
#include "compiler/loop/ir.h"

namespace kiln::codegen {

// A loop value that has been emitted.
struct LoopValue {
  llvm::Value* value = nullptr;
  DType type = DType::kFloat32;
  bool varying = false;  // one element a lane of the vector axis, else a scalar that all lanes share
  int depth = 0;         // scopes that were open when it was emitted
  // Of an index that goes up by one over the lanes from a multiple of their number: that multiple.
  llvm::Value* vector_start = nullptr;
};

// The vector axis under emission; one lane outside of any.
struct VectorAxis {
  loop::AxisId axis = loop::kNone;
  unsigned lanes = 1;
  llvm::Value* first = nullptr;  // i64: the axis in lane 0
  llvm::Value* mask = nullptr;   // <lanes x i1>, at least one of them true; null: all lanes are active
  // Of threads: the axis in lane 0 of thread 0, a multiple of round_width.
  llvm::Value* round = nullptr;
  int64_t round_width = 1;
};

// How an index goes over the lanes.
struct IndexPattern {
  enum class Kind { kUniform, kContiguous, kGather };
  Kind kind = Kind::kUniform;
  llvm::Value* start = nullptr;    // i64: the index (kUniform), or that of lane 0, or what all lanes add
  llvm::Value* offsets = nullptr;  // kGather: <lanes x i64>, added to start
  bool starts_on_vector = false;   // kContiguous: start is a multiple of the number of lanes
};

// A *scope* is a stretch of straight code with nested scopes: the function, a loop's body, a branch. Code for a scope's
// own variables goes to the end of its head block, so that it dominates all that follows in the scope.
//
// Errors stick: after the first one the results are poison, and status() says what it was.
class IndexEmitter {
 public:
  // `narrow_divisions`: 64-bit ones are slow on scalars too. `size_of` gives a size parameter's value, emitted at the
  // builder's current place; `value_of` a kernel value.
  IndexEmitter(SymContext& syms, llvm::IRBuilderBase& b, std::function<llvm::Value*(uint32_t)> size_of,
               std::function<const LoopValue&(loop::ValueId)> value_of, bool narrow_divisions = false);

  // The builder stands at the end of an unterminated block, which becomes the head; it is left in a new block.
  void EnterScope();
  void LeaveScope();
  int depth() const { return static_cast<int>(scopes_.size()); }

  // Binds a loop's counter in the innermost scope; `value` is available at its head.
  void BindAxis(loop::AxisId axis, llvm::Value* value);
  // The vector axis from here on; `first` is available at the head of the innermost scope.
  void SetVectorAxis(const VectorAxis& axis) { vector_ = axis; }
  const VectorAxis& vector_axis() const { return vector_; }

  bool IsVarying(Sym s) const;
  llvm::Value* Uniform(Sym s);  // i64; `s` is not varying
  llvm::Value* Lanes(Sym s);    // <lanes x i64>
  // Also finds the lanes' step behind divisions by multiples of their number, of an axis that begins at multiples of
  // it.
  IndexPattern Pattern(Sym s);

  const absl::Status& status() const { return status_; }

 private:
  struct Scope {
    llvm::BasicBlock* head = nullptr;
    std::vector<uint32_t> uniform, lanes;  // expressions whose cached values end with the scope
  };
  // A value that may be used at the head of scope `depth` and everywhere later in the scope around it.
  struct Placed {
    llvm::Value* value = nullptr;
    int depth = 0;
  };

  Placed Place(Sym s, int nesting);
  Placed PlaceNode(Sym s, int nesting);
  Placed PlaceVariable(Var var);
  Placed PlaceFold(std::span<const Sym> args, SymNode::Op op, int nesting);
  template <typename F>
  llvm::Value* AtHead(int depth, F emit);
  llvm::Value* EmitLanes(Sym s, int nesting);
  llvm::Value* LanesOfVariable(Var var);
  llvm::Value* LanesOfFold(const SymNode& node, int nesting);
  llvm::Value* LanesOrSplat(Sym s, int nesting);
  std::optional<IndexPattern> PatternWithinVector(Sym s);
  bool LinearInVectorAxis(Sym s, IndexPattern* pattern, int64_t* step);
  llvm::Value* Binary(SymNode::Op op, Sym a, Sym b, llvm::Value* x, llvm::Value* y);
  llvm::Value* Divide(bool remainder, Sym a, Sym b, llvm::Value* x, llvm::Value* y);
  llvm::Value* DivideByAnySign(bool remainder, llvm::Value* x, llvm::Value* y);
  llvm::Value* DivideByPositive(bool remainder, llvm::Value* x, llvm::Value* y);
  llvm::Value* Fail(absl::Status status);

  SymContext& syms_;
  llvm::IRBuilderBase& b_;
  std::function<llvm::Value*(uint32_t)> size_of_;
  std::function<const LoopValue&(loop::ValueId)> value_of_;
  const bool narrow_divisions_;  // of scalars too: in 32 bits where ranges allow it
  std::vector<Scope> scopes_;
  VectorAxis vector_;
  llvm::DenseMap<uint32_t, Placed> axes_, sizes_, uniform_;
  llvm::DenseMap<uint32_t, llvm::Value*> lanes_;
  absl::Status status_;
};

}  // namespace kiln::codegen
