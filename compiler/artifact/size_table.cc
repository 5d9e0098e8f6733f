#include "compiler/artifact/size_table.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

// Towards minus infinity, as Python's // does. b is not 0 and the quotient fits.
int64_t FloorDiv(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

int64_t FloorMod(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

absl::Status Bad(size_t entry, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("syms.exprs[", entry, "]: ", what));
}

bool HasArity(v1::SymExpr::Op op, int num_args) {
  switch (op) {
    case v1::SymExpr::CONST:
    case v1::SymExpr::SYMBOL:
      return num_args == 0;
    case v1::SymExpr::ADD:
    case v1::SymExpr::MUL:
      return num_args >= 2;
    default:
      return num_args == 2;
  }
}

}  // namespace

absl::StatusOr<SizeTable> SizeTable::Create(const v1::SymTable& table) {
  SizeTable result;
  for (const v1::Symbol& s : table.symbols()) {
    if (s.min() > s.max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("syms.symbols[", result.symbols_.size(), "]: empty range [", s.min(), ", ", s.max(), "]"));
    }
    result.symbols_.push_back({s.min(), s.max()});
  }
  for (const v1::SymExpr& expr : table.exprs()) {
    if (absl::Status status = result.AddEntry(expr); !status.ok()) return status;
  }
  return result;
}

absl::Status SizeTable::AddEntry(const v1::SymExpr& expr) {
  const uint32_t index = static_cast<uint32_t>(entries_.size());
  if (!v1::SymExpr::Op_IsValid(expr.op()) || expr.op() == v1::SymExpr::OP_UNSPECIFIED) return Bad(index, "unknown op");
  if (!HasArity(expr.op(), expr.args_size())) return Bad(index, "wrong number of operands");
  Entry entry{expr.op(), expr.op() != v1::SymExpr::SYMBOL, static_cast<uint32_t>(args_.size()),
              static_cast<uint32_t>(expr.args_size()), expr.value()};
  if (expr.op() == v1::SymExpr::SYMBOL &&
      (expr.value() < 0 || static_cast<uint64_t>(expr.value()) >= symbols_.size())) {
    return Bad(index, "no such symbol");
  }
  for (uint32_t arg : expr.args()) {
    if (arg >= index) return Bad(index, "an operand is not an earlier entry");
    entry.constant &= entries_[arg].constant;
    args_.push_back(arg);
  }
  entries_.push_back(entry);
  constants_.push_back(0);
  if (entry.constant) return Compute(index, {}, constants_);
  dynamic_.push_back(index);
  return absl::OkStatus();
}

absl::Status SizeTable::Compute(uint32_t entry, std::span<const int64_t> symbols, std::span<int64_t> values) const {
  const Entry& e = entries_[entry];
  const uint32_t* args = args_.data() + e.first_arg;
  int64_t& result = values[entry];
  switch (e.op) {
    case v1::SymExpr::CONST:
      result = e.value;
      return absl::OkStatus();
    case v1::SymExpr::SYMBOL:
      result = symbols[static_cast<size_t>(e.value)];
      return absl::OkStatus();
    case v1::SymExpr::ADD:
    case v1::SymExpr::MUL: {
      int64_t sum = values[args[0]];
      for (uint32_t i = 1; i < e.num_args; ++i) {
        const int64_t v = values[args[i]];
        const bool overflow =
            e.op == v1::SymExpr::ADD ? __builtin_add_overflow(sum, v, &sum) : __builtin_mul_overflow(sum, v, &sum);
        if (overflow) return Bad(entry, "overflows int64");
      }
      result = sum;
      return absl::OkStatus();
    }
    case v1::SymExpr::FLOOR_DIV:
    case v1::SymExpr::MOD: {
      const int64_t a = values[args[0]], b = values[args[1]];
      if (b == 0) return Bad(entry, "divides by zero");
      const bool mod = e.op == v1::SymExpr::MOD;
      if (b == -1 && a == std::numeric_limits<int64_t>::min()) {
        if (!mod) return Bad(entry, "overflows int64");
        result = 0;
        return absl::OkStatus();
      }
      result = mod ? FloorMod(a, b) : FloorDiv(a, b);
      return absl::OkStatus();
    }
    case v1::SymExpr::MIN:
      result = std::min(values[args[0]], values[args[1]]);
      return absl::OkStatus();
    case v1::SymExpr::MAX:
      result = std::max(values[args[0]], values[args[1]]);
      return absl::OkStatus();
    default:
      return Bad(entry, "unknown op");
  }
}

absl::Status SizeTable::Evaluate(std::span<const int64_t> symbols, std::span<int64_t> values) const {
  for (size_t i = 0; i < symbols_.size(); ++i) {
    if (symbols[i] < symbols_[i].min || symbols[i] > symbols_[i].max) {
      return absl::FailedPreconditionError(absl::StrCat("symbol s", i, " is ", symbols[i], "; the plan is for [",
                                                        symbols_[i].min, ", ", symbols_[i].max, "]"));
    }
  }
  for (uint32_t entry : dynamic_) {
    if (absl::Status status = Compute(entry, symbols, values); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace kiln
