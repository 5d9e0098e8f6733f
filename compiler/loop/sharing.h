// Finds equal Lets that are visible: value numbering over open blocks (Builder, Simplify).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/loop/ir.h"

namespace kiln::loop {

// Whether equal Lets of this kind have equal values wherever both are visible: all but loads of buffers that the kernel
// writes.
bool IsPure(const Let& let, std::span<const Buffer> buffers);

// A table a block; those of enclosing blocks stay visible. Starts with one open block. Not thread-safe.
class SharedLets {
 public:
  SharedLets() : blocks_(1) {}
  void Open() { blocks_.emplace_back(); }
  void Close() { blocks_.pop_back(); }

  // The result of a Let that equals `let` in all but the result.
  std::optional<ValueId> Find(const Let& let) const;
  void Add(const Let& let) { blocks_.back()[KeyOf(let)] = let.result; }

 private:
  using Key = std::tuple<DType, Op, std::vector<ValueId>, uint64_t, Sym, BufferId, ValueId, ValueId>;
  static Key KeyOf(const Let& let) {
    return {let.type, let.op, let.args, let.imm, let.index, let.buffer, let.mask, let.other};
  }
  std::vector<absl::flat_hash_map<Key, ValueId>> blocks_;
};

inline bool IsPure(const Let& let, std::span<const Buffer> buffers) {
  return let.op != Op::kLoad || buffers[let.buffer].access == Access::kRead;
}

inline std::optional<ValueId> SharedLets::Find(const Let& let) const {
  const Key key = KeyOf(let);
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    if (auto it = block->find(key); it != block->end()) return it->second;
  }
  return std::nullopt;
}

}  // namespace kiln::loop
