// Sizes, types and conditions as people read them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/graph.pb.h"

namespace kiln {

// All expressions of the table in Python's notation; one is "e7" where that would be long or the table is bad. Symbol i
// is called symbols[i], without one s<i>. Linear.
std::vector<std::string> SymTexts(const v1::SymTable& table, std::span<const std::string> symbols = {});

// The expression at `index`.
std::string SymText(const v1::SymTable& table, uint32_t index);

// "float32", "cpu"; a number where it has no name.
std::string DTypeText(v1::DType dtype);
std::string DeviceText(v1::DeviceType device);

// "float32[8, s0] strides [s0, 1] cpu".
std::string TypeText(const v1::SymTable& table, const v1::TensorType& type);

// "s0 <= 8".
std::string PredicateText(const std::vector<std::string>& exprs, const v1::Predicate& predicate);

}  // namespace kiln
