// Anti-unification: several requests of one skeleton as one request with symbols.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "proto/generalization.pb.h"
#include "server/skeleton.h"

namespace kiln {

inline constexpr size_t kMaxGeneralSymbols = 16;

// Fewer say too little about which sizes vary.
inline constexpr size_t kLeastInstances = 3;

// What `request` and those of `others` (values of the same skeleton, in any order) that are of its kind have in common;
// empty where they are fewer than kLeastInstances, or differ in what no size explains. Dims that are equal in all are
// one symbol; each stride and integer that varies is that of a dense tensor, or a*s+b or a*s*t+b of symbols s, t. A
// request is of another kind if it differs in the sizes of fixed inputs, in a size below 2, in a storage offset, or in
// a value that would be left unexplained.
//
// A function of the set: neither their order nor repetition matters. Time is linear in the number of values; what is
// tried for those that vary is bounded, and where that does not suffice there is none.
std::optional<v1::Generalization> Generalize(const Skeleton& request, std::span<const std::vector<int64_t>> others);

// Whether `values` are those of `member`, which is a generalization, at some sizes of its symbols.
bool IsInstance(const v1::SkeletonMember& member, std::span<const int64_t> values);

}  // namespace kiln
