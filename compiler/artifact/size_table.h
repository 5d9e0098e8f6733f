// The size expressions of a plan: checked once, evaluated once a call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/graph.pb.h"

namespace kiln {

// Immutable after Create, so safe to share between threads.
class SizeTable {
 public:
  // InvalidArgument names the entry: an unknown operator, a wrong number of operands, an operand that is not an
  // earlier entry, an unknown symbol, an empty range; or a constant that overflows or divides by zero.
  static absl::StatusOr<SizeTable> Create(const v1::SymTable& table);

  size_t size() const { return entries_.size(); }
  size_t num_symbols() const { return symbols_.size(); }
  bool IsConstant(uint32_t entry) const { return entries_[entry].constant; }
  // The index of the symbol that `entry` is; -1 if it is anything else.
  int64_t AsSymbol(uint32_t entry) const {
    return entries_[entry].op == v1::SymExpr::SYMBOL ? entries_[entry].value : -1;
  }
  int64_t LeastValue(size_t symbol) const { return symbols_[symbol].min; }
  // Values of all entries, with those that depend on a symbol left 0.
  const std::vector<int64_t>& constants() const { return constants_; }

  // Fills in the entries that depend on symbols. `values` starts as constants(). FailedPrecondition: a symbol is out
  // of its range; InvalidArgument: an entry overflows int64 or divides by zero.
  absl::Status Evaluate(std::span<const int64_t> symbols, std::span<int64_t> values) const;

 private:
  struct Entry {
    v1::SymExpr::Op op;
    bool constant;
    uint32_t first_arg;  // into args_
    uint32_t num_args;
    int64_t value;  // CONST: the value; SYMBOL: the symbol
  };
  struct Range {
    int64_t min, max;
  };

  absl::Status AddEntry(const v1::SymExpr& expr);
  absl::Status Compute(uint32_t entry, std::span<const int64_t> symbols, std::span<int64_t> values) const;

  std::vector<Range> symbols_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> args_;
  std::vector<uint32_t> dynamic_;  // entries that depend on a symbol, in order
  std::vector<int64_t> constants_;
};

}  // namespace kiln
