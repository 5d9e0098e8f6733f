// Size expressions of a graph as the flat table that a plan carries.
#pragma once

#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/graph/sym.h"
#include "proto/graph.pb.h"

namespace kiln {

// Appends to `table`, which outlives the writer. Symbols keep their numbers. Equal expressions get one index.
class SymTableWriter {
 public:
  SymTableWriter(const SymContext& syms, v1::SymTable& table) : syms_(syms), table_(table) {}

  uint32_t operator()(Sym s);
  template <typename List>
  void Write(std::span<const Sym> sizes, List* indices) {
    for (const Sym s : sizes) indices->Add((*this)(s));
  }

 private:
  const SymContext& syms_;
  v1::SymTable& table_;
  absl::flat_hash_map<Sym, uint32_t> index_of_;
};

}  // namespace kiln
