// Why one entry of the cache was not served from another: what of their keys differs, and what to do about it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/admin.pb.h"
#include "proto/artifact.pb.h"
#include "proto/graph.pb.h"

namespace kiln {

inline constexpr size_t kMaxDifferences = 16;  // written out of one comparison; further ones are counted

struct ExplainedEntry {
  std::string key;  // 32 bytes
  std::string ns;   // the namespace that alone sees it; empty: all
  std::vector<v1::KeyPart> key_parts;
  // Of the request, as far as the cache still has it:
  std::optional<v1::GuardSpec> guards;
  std::optional<v1::Graph> graph;  // of look-ups only
  // Of look-ups: what must hold of the sizes that they come with.
  v1::SymTable syms;
  std::vector<v1::Predicate> predicates;
};

struct Comparison {
  enum class Graphs { kSame, kSameOperations, kOther };
  Graphs graphs = Graphs::kSame;
  std::vector<v1::Difference> differences;  // up to kMaxDifferences
  uint64_t count = 0;                       // of all
};

// What `after` has otherwise than `before`. Sizes are compared up to the symbols' numbers; strides that follow from the
// sizes, and a graph that states no more than the guards do, are not differences of their own.
Comparison Compare(const ExplainedEntry& before, const ExplainedEntry& after);

// With the same graph first, then with the same operations, then with fewer differences.
bool IsNearer(const Comparison& a, const Comparison& b);

}  // namespace kiln
