// The identities that Simplify applies to one Let.
#pragma once

#include <functional>
#include <optional>

#include "compiler/loop/ir.h"

namespace kiln::loop {

// Finds definitions of values: the Let, or null for what a Reduce defines.
using DefinitionFn = std::function<const Let*(ValueId)>;

// What a Let may be replaced by: an existing value of the same type, a constant, or another Let (result and type kept).
struct Replacement {
  std::optional<ValueId> value;
  std::optional<Let> let;
};

// The first rule that fits, or nothing. Every rule is exact (see simplify.h).
std::optional<Replacement> ApplyRules(const Let& let, const DefinitionFn& definition);

// Whether every value of `from` is a value of `to`, so that a cast there and on to a third type equals the direct cast
// (ints through floats to ints excepted, where the third type must hold every value too).
bool IsLossless(DType from, DType to);

}  // namespace kiln::loop
