// The elements of a graph's values as loop-IR values, pulled through the records' meanings.
#pragma once

#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "compiler/graph/graph.h"
#include "compiler/loop/builder.h"
#include "compiler/lower/alias.h"
#include "compiler/lower/index.h"
#include "compiler/lower/nest.h"
#include "compiler/ops/op_def.h"

namespace kiln {

// Writes into one kernel. A value that the kernel computes (`local` nodes, and inlined ones) is computed at the index
// asked for, once in each scope; any other is loaded from its root's buffer, which becomes one of the kernel's. Errors
// are kept in status().
class Evaluator {
 public:
  Evaluator(const Graph& graph, const Aliases& aliases, loop::Builder& b, const absl::flat_hash_set<NodeId>& local);

  // The element of `value` at `index`, in the value's own dtype. Where `mask` is false nothing is read, and the element
  // is 0.
  loop::ValueId At(ValueId value, const Index& index, loop::ValueId mask = loop::kNone);
  // Makes `element` what At gives for `value` at `index` until the current scope closes.
  void Define(ValueId value, const Index& index, loop::ValueId element);
  void Store(ValueId value, const Index& index, loop::ValueId element, bool streaming = false);
  // An ordered node's update at a point of its space of updates. Returns what it leaves to the next one.
  std::vector<loop::ValueId> Apply(NodeId node, const OrderSpec& spec, const Index& point,
                                   std::span<const loop::ValueId> carry);

  // Scopes follow the builder's open statements.
  void OpenScope() { scopes_.emplace_back(); }
  void CloseScope() { scopes_.pop_back(); }

  // The unmasked loads since the last time, in order, but those whose place data decide.
  std::vector<MemoryAccess> TakeLoads() { return std::exchange(loads_, {}); }
  // From now on an unmasked read of the root's memory at `flat` is one of another buffer.
  void Stage(ValueId root, Sym flat, loop::BufferId buffer, Sym at);
  // The result stands in the dying value's memory.
  void Share(const Reuse& pair);
  // Reads the root's element now, for all reads until the scope closes.
  void Hold(ValueId root, Sym flat);
  // The root's element at the flat index, from memory.
  loop::ValueId LoadFlat(ValueId root, Sym flat);
  // Asks for the line of an element that is to be accessed so.
  void Prefetch(ValueId root, Sym flat, loop::Access access) { b_.Prefetch(BufferOf(root, access), flat); }
  // A buffer of partial results.
  loop::BufferId AddPartial(uint32_t partial, DType dtype, Sym elements, loop::Access access);

  std::span<const KernelBuffer> buffers() const { return buffers_; }  // of each global buffer
  const absl::Status& status() const { return status_; }

 private:
  using Key = std::tuple<ValueId, Sym, loop::ValueId>;

  loop::ValueId Compute(NodeId node, size_t result, const Index& index, loop::ValueId mask);
  loop::ValueId Load(ValueId value, const Index& index, loop::ValueId mask);
  loop::BufferId BufferOf(ValueId root, loop::Access access);
  Key KeyOf(ValueId value, const Index& index, loop::ValueId mask);
  std::optional<loop::ValueId> Find(const Key& key) const;
  bool IsComputedHere(ValueId root) const;
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const Graph& graph_;
  SymContext& syms_;
  const Aliases& aliases_;
  loop::Builder& b_;
  const absl::flat_hash_set<NodeId>& local_;
  std::vector<absl::flat_hash_map<Key, loop::ValueId>> scopes_;
  std::vector<KernelBuffer> buffers_;
  absl::flat_hash_map<ValueId, loop::BufferId> buffer_of_;
  absl::flat_hash_map<std::pair<ValueId, Sym>, std::pair<loop::BufferId, Sym>> staged_;
  std::vector<MemoryAccess> loads_;
  absl::Status status_;
  int depth_ = 0;
};

}  // namespace kiln
