// The walk over a kernel's statements; emit.h is its face.
#pragma once

#include <llvm/IR/Function.h>

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "compiler/codegen/emit_alias.h"
#include "compiler/codegen/emit_control.h"
#include "compiler/codegen/emit_index.h"
#include "compiler/codegen/emit_types.h"
#include "compiler/loop/ir.h"

namespace kiln::codegen {

// Parameters of artifact/abi.h's KernelFn.
enum Parameter : unsigned { kBuffers, kSizes, kBegin, kEnd, kError };

inline constexpr unsigned kGlobalSpace = 1;  // NVPTX's number

// Rounds of a thread axis over `body`, with so many lanes, whose loads a thread should have in flight together: as many
// as do not make long code.
int64_t RoundsAtOnce(const loop::Block& body, int64_t lanes);

// Writes one function. Errors stick: after the first one poison is emitted, and Run returns it.
class KernelEmitter {
 public:
  // `function` has the signature of artifact/abi.h and no body yet.
  KernelEmitter(const loop::Kernel& kernel, const EmitTarget& target, llvm::Function* function);

  absl::Status Run();

 private:
  // Loads and stores of one place are done where both hold.
  struct Guard {
    llvm::Value* uniform = nullptr;  // i1; null: true
    llvm::Value* lanes = nullptr;    // <lanes x i1>; null: all lanes
  };

  // emit_kernel.cc
  void EmitBlock(const loop::Block& block);
  void SetLocation(uint32_t origin);  // if the function has debug locations
  void EmitLet(const loop::Let& let);
  void EmitIndex(const loop::Let& let);
  bool CompareAlike(const loop::Let& let);
  void EmitFor(const loop::For& loop);
  void EmitVectorFor(const loop::For& loop);
  // One pass over `body` with the loop's counter at `i`: a scope of its own.
  void EmitIteration(const loop::Axis& axis, llvm::Value* i, const VectorAxis& vector, const loop::Block& body);
  llvm::Value* SizeParameter(uint32_t index);
  const LoopValue& ValueOf(loop::ValueId id) const;
  void Bind(loop::ValueId id, DType type, llvm::Value* value);  // varying if it has lanes
  // The value in every lane of the vector axis.
  llvm::Value* InLanes(loop::ValueId id);
  llvm::Value* Extent(const loop::Axis& axis);  // not negative
  // Lanes of which the vector axis, from `first` on, is below `extent`.
  llvm::Value* TailMask(llvm::Value* first, llvm::Value* extent, unsigned lanes);
  void Fail(absl::Status status);

  // emit_memory.cc
  llvm::Value* BufferPointer(loop::BufferId buffer);
  llvm::Value* Scratch(loop::BufferId buffer);
  llvm::Value* Pointer(loop::BufferId buffer, const IndexPattern& pattern);  // of lane 0
  Guard GuardOf(Sym index, loop::ValueId mask);
  void EmitLoad(const loop::Let& let);
  llvm::Align AlignOf(DType type, const IndexPattern& pattern) const;
  llvm::Value* LoadLanes(const loop::Let& let, const IndexPattern& pattern, llvm::Value* pointer, llvm::Value* mask);
  void EmitStore(const loop::Store& store);
  void EmitPrefetch(const loop::Prefetch& prefetch);
  void StreamLanes(loop::BufferId buffer, llvm::Value* value, llvm::Value* pointer);
  void StoreLanes(const loop::Store& store, const IndexPattern& pattern, llvm::Value* pointer, llvm::Value* mask);
  void EmitCheckIndex(const loop::Let& let);
  void EmitBadIndex(int64_t check);

  // emit_threads.cc
  llvm::Value* SharedArray(llvm::Type* element, uint64_t count);
  void EmitBarrier();
  llvm::Value* ThreadId();  // i64
  llvm::Value* BlockId();   // i64
  llvm::Value* FirstOfThread(const loop::Axis& axis);
  bool LanesStayTogether(const loop::Axis& axis);
  void EmitThreadFor(const loop::For& loop);
  Values EmitRounds(llvm::Value* end, int64_t step, int64_t at_once, Values carried,
                    llvm::function_ref<Values(llvm::Value* base, Values carried)> body);
  int64_t OwnElements(int64_t size) const;
  void LoadOwn(const loop::Let& let);
  void StoreOwn(const loop::Store& store);
  llvm::Value* OwnElement(loop::BufferId buffer, Sym index);
  Values FoldWarp(const loop::Reduce& reduce, Values tuple, unsigned count);
  Values FoldThreads(const loop::Reduce& reduce, Values tuple);

  // emit_lanes.cc: masked accesses that are no instruction of the target
  bool HasMaskedAccess(const IndexPattern& pattern, DType type) const;
  llvm::Value* LaneSlot(llvm::Type* vector, bool offsets);
  llvm::Value* LaneOffset(const IndexPattern& pattern, unsigned lane);
  void ForEachLane(llvm::Value* mask, llvm::function_ref<void(llvm::Value* lane)> body);
  llvm::Value* LanePointer(llvm::Type* element, const IndexPattern& pattern, llvm::Value* pointer, llvm::Value* lane);
  llvm::Value* LoadLaneByLane(const loop::Let& let, const IndexPattern& pattern, llvm::Value* pointer,
                              llvm::Value* mask);
  void StoreLaneByLane(const loop::Store& store, const IndexPattern& pattern, llvm::Value* pointer, llvm::Value* value,
                       llvm::Value* mask);

  // emit_reduce.cc
  void EmitReduce(const loop::Reduce& reduce);
  Values ReduceStep(const loop::Reduce& reduce, llvm::Value* i, llvm::Value* mask, const Values& accumulator);
  Values ReduceTail(const loop::Reduce& reduce, llvm::Value* begin, llvm::Value* extent, Values accumulators);
  Values ReduceLanes(const loop::Reduce& reduce, Values tuple);
  Values Combine(const loop::Reduce& reduce, const Values& a, const Values& b);
  unsigned ReduceWidth(const loop::Reduce& reduce) const;
  llvm::Value* ReduceTailMask(const loop::Reduce& reduce, llvm::Value* i, llvm::Value* extent);

  // Value of nesting_ among the statements of the outermost loop.
  static constexpr int kOutermost = 2;
  static constexpr int64_t kMaxRounds = 8;

  const loop::Kernel& kernel_;
  SymContext& syms_;
  llvm::Function* function_;
  llvm::IRBuilder<> b_;
  EmitContext context_;
  IndexEmitter index_;
  AliasInfo alias_;
  std::vector<bool> short_nans_;                             // see emit_nans.h
  std::vector<LoopValue> values_;                            // by id, less kernel_.first_value
  std::vector<llvm::Value*> buffers_;                        // pointers, once loaded
  std::vector<int64_t> check_numbers_;                       // by value id: the number of a kCheckIndex
  llvm::DenseMap<llvm::Type*, llvm::Value*> lane_slots_[2];  // for values, for offsets
  const bool is_simt_;
  bool in_threads_ = false;        // inside a kThread axis
  llvm::Value* thread_ = nullptr;  // number in the block, once asked for
  const bool can_stream_;
  bool streamed_ = false;  // something was stored so
  int nesting_ = 0;
  int64_t scratch_bytes_ = 0;
  absl::Status status_;
};

}  // namespace kiln::codegen
