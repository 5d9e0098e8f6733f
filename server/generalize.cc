#include "server/generalize.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/artifact/size_table.h"

namespace kiln {
namespace {

// Lines that are tried for all values together: some 50 ms.
constexpr size_t kMaxFits = 1 << 20;

using Values = std::vector<int64_t>;
using Column = std::vector<int64_t>;  // one value in all requests, in their order

// Builds the expressions, each once. Symbols come first.
class Exprs {
 public:
  explicit Exprs(v1::SymTable* table) : table_(table) {}

  uint32_t Symbol() {
    v1::Symbol* symbol = table_->add_symbols();
    symbol->set_min(2);
    symbol->set_max(std::numeric_limits<int64_t>::max());
    return Intern(v1::SymExpr::SYMBOL, table_->symbols_size() - 1, {});
  }
  uint32_t Times(int64_t factor, std::vector<uint32_t> args) {
    if (factor != 1) args.push_back(Intern(v1::SymExpr::CONST, factor, {}));
    return args.size() == 1 ? args[0] : Intern(v1::SymExpr::MUL, 0, std::move(args));
  }
  uint32_t Plus(int64_t offset, uint32_t arg) {
    return offset == 0 ? arg : Intern(v1::SymExpr::ADD, 0, {arg, Intern(v1::SymExpr::CONST, offset, {})});
  }

 private:
  uint32_t Intern(v1::SymExpr::Op op, int64_t value, std::vector<uint32_t> args) {
    const auto [it, added] = index_.try_emplace({op, value, args}, static_cast<uint32_t>(table_->exprs_size()));
    if (added) {
      v1::SymExpr* expr = table_->add_exprs();
      expr->set_op(op);
      expr->set_value(value);
      expr->mutable_args()->Assign(args.begin(), args.end());
    }
    return it->second;
  }

  v1::SymTable* const table_;
  std::map<std::tuple<v1::SymExpr::Op, int64_t, std::vector<uint32_t>>, uint32_t> index_;
};

bool Fits(__int128 value) {
  return value >= std::numeric_limits<int64_t>::min() && value <= std::numeric_limits<int64_t>::max();
}

// values = scale * of + offset, exactly and without overflow; empty if there are no such numbers.
std::optional<std::pair<int64_t, int64_t>> FitLine(const Column& of, const Column& values) {
  const auto other = std::find_if(of.begin(), of.end(), [&](int64_t v) { return v != of[0]; });
  if (other == of.end()) return std::nullopt;
  const __int128 run = static_cast<__int128>(*other) - of[0];
  const __int128 rise = static_cast<__int128>(values[static_cast<size_t>(other - of.begin())]) - values[0];
  const __int128 scale = rise / run;
  if (scale * run != rise || !Fits(scale)) return std::nullopt;
  const __int128 offset = values[0] - scale * of[0];
  if (!Fits(offset)) return std::nullopt;
  for (size_t i = 0; i < of.size(); ++i) {
    if (!Fits(scale * of[i]) || scale * of[i] + offset != values[i]) return std::nullopt;
  }
  return std::pair(static_cast<int64_t>(scale), static_cast<int64_t>(offset));
}

std::optional<Column> Product(const Column& a, const Column& b) {
  Column out(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (__builtin_mul_overflow(a[i], b[i], &out[i])) return std::nullopt;
  }
  return out;
}

// One try with a set of requests: a generalization, or the value that keeps them apart.
class Attempt {
 public:
  // `fits` is how many lines may still be tried.
  Attempt(const Skeleton& skeleton, const std::vector<const Values*>& rows, size_t* fits)
      : skeleton_(skeleton), rows_(rows), fits_(fits), exprs_(result_.mutable_syms()) {}

  enum class Outcome { kDone, kHopeless, kUnexplained };

  Outcome Run() {
    size_t at = 0;
    for (const Skeleton::Input& input : skeleton_.inputs) {
      for (size_t d = 0; d < input.rank; ++d) {
        if (!AddSize(at + d)) return Outcome::kHopeless;
      }
      at += 2 * input.rank + 1;
    }
    if (symbols_.empty()) return Outcome::kHopeless;
    MakeBases();
    at = 0;
    for (const Skeleton::Input& input : skeleton_.inputs) {
      Place(at, at + input.rank);
      for (size_t d = 0; d < input.rank; ++d) {
        const size_t stride = at + input.rank + d;
        if (!Varies(stride)) continue;
        if (!AddDense(at, input.rank, d) && !AddLine(stride)) return Unexplained(stride);
      }
      at += 2 * input.rank + 1;
    }
    for (; at < skeleton_.values.size(); ++at) {
      if (Varies(at) && !AddLine(at)) return Unexplained(at);
    }
    return Outcome::kDone;
  }

  size_t unexplained() const { return unexplained_; }
  v1::Generalization Take() { return std::move(result_); }

 private:
  bool Varies(size_t at) const {
    return std::any_of(rows_.begin(), rows_.end(), [&](const Values* row) { return (*row)[at] != (*rows_[0])[at]; });
  }

  Column ColumnOf(size_t at) const {
    Column out;
    for (const Values* row : rows_) out.push_back((*row)[at]);
    return out;
  }

  bool AddSize(size_t at) {
    if (!Varies(at)) return true;
    Column column = ColumnOf(at);
    const auto same = std::find_if(symbols_.begin(), symbols_.end(), [&](const auto& s) { return s.first == column; });
    if (same != symbols_.end()) {
      sizes_.emplace(at, same->second);
      return true;
    }
    if (symbols_.size() == kMaxGeneralSymbols) return false;
    sizes_.emplace(at, exprs_.Symbol());
    symbols_.emplace_back(std::move(column), sizes_.at(at));
    return true;
  }

  void Place(size_t begin, size_t end) {
    for (size_t at = begin; at < end; ++at) {
      if (const auto it = sizes_.find(at); it != sizes_.end()) Add(at, it->second);
    }
  }

  void Add(size_t at, uint32_t expr) {
    v1::Generalization::Place* place = result_.add_places();
    place->set_value(static_cast<uint32_t>(at));
    place->set_expr(expr);
  }

  // Stride d of the input that begins at `at`, as the product of the sizes after d.
  bool AddDense(size_t at, size_t rank, size_t d) {
    for (const Values* row : rows_) {
      int64_t product = 1;
      for (size_t e = d + 1; e < rank; ++e) {
        if (__builtin_mul_overflow(product, (*row)[at + e], &product)) return false;
      }
      if (product != (*row)[at + rank + d]) return false;
    }
    int64_t factor = 1;  // divides a stride that is in range
    std::vector<uint32_t> symbols;
    for (size_t e = d + 1; e < rank; ++e) {
      if (const auto it = sizes_.find(at + e); it != sizes_.end()) {
        symbols.push_back(it->second);
      } else {
        factor *= (*rows_[0])[at + e];
      }
    }
    std::sort(symbols.begin(), symbols.end());
    Add(at + rank + d, exprs_.Times(factor, std::move(symbols)));
    return true;
  }

  bool AddLine(size_t at) {
    Column column = ColumnOf(at);
    auto it = lines_.find(column);
    if (it == lines_.end()) {
      std::optional<uint32_t> line = FindLine(column);
      it = lines_.emplace(std::move(column), line).first;
    }
    if (it->second) Add(at, *it->second);
    return it->second.has_value();
  }

  std::optional<uint32_t> FindLine(const Column& column) {
    for (const auto& [of, args] : bases_) {
      if (*fits_ == 0) break;
      --*fits_;
      if (const auto line = FitLine(of, column)) return exprs_.Plus(line->second, exprs_.Times(line->first, args));
    }
    return std::nullopt;
  }

  // What lines are in: symbols, then products of two.
  void MakeBases() {
    for (const auto& [of, symbol] : symbols_) bases_.emplace_back(of, std::vector<uint32_t>{symbol});
    for (size_t i = 0; i < symbols_.size(); ++i) {
      for (size_t j = i; j < symbols_.size(); ++j) {
        if (std::optional<Column> of = Product(symbols_[i].first, symbols_[j].first)) {
          bases_.emplace_back(*std::move(of), std::vector<uint32_t>{symbols_[i].second, symbols_[j].second});
        }
      }
    }
  }

  Outcome Unexplained(size_t at) {
    unexplained_ = at;
    return Outcome::kUnexplained;
  }

  const Skeleton& skeleton_;
  const std::vector<const Values*>& rows_;
  size_t* const fits_;
  v1::Generalization result_;
  Exprs exprs_;
  std::vector<std::pair<Column, uint32_t>> symbols_;  // with their expressions
  std::vector<std::pair<Column, std::vector<uint32_t>>> bases_;
  std::map<size_t, uint32_t> sizes_;  // the expressions of the sizes that vary
  std::map<Column, std::optional<uint32_t>> lines_;
  size_t unexplained_ = 0;
};

// Whether the two may be one computation at two sizes, as far as the inputs say.
bool IsOfOneKind(const Skeleton& request, const Values& other) {
  if (other.size() != request.values.size()) return false;
  size_t at = 0;
  for (const Skeleton::Input& input : request.inputs) {
    const size_t offset = at + 2 * input.rank;
    for (size_t d = at; d < at + input.rank; ++d) {
      const int64_t a = request.values[d], b = other[d];
      if (a != b && (input.fixed || std::min(a, b) < 2 || request.values[offset] != 0)) return false;
    }
    if (request.values[offset] != other[offset]) return false;
    at = offset + 1;
  }
  return true;
}

}  // namespace

std::optional<v1::Generalization> Generalize(const Skeleton& request, std::span<const Values> others) {
  std::vector<const Values*> rows = {&request.values};
  for (const Values& other : others) {
    if (other != request.values && IsOfOneKind(request, other)) rows.push_back(&other);
  }
  const auto less = [](const Values* a, const Values* b) { return *a < *b; };
  const auto equal = [](const Values* a, const Values* b) { return *a == *b; };
  std::sort(rows.begin(), rows.end(), less);
  rows.erase(std::unique(rows.begin(), rows.end(), equal), rows.end());
  size_t fits = kMaxFits;
  while (rows.size() >= kLeastInstances && fits != 0) {
    Attempt attempt(request, rows, &fits);
    const Attempt::Outcome outcome = attempt.Run();
    if (outcome == Attempt::Outcome::kDone) return attempt.Take();
    if (outcome == Attempt::Outcome::kHopeless) return std::nullopt;
    // At least one goes: the value varies.
    const size_t at = attempt.unexplained();
    std::erase_if(rows, [&](const Values* row) { return (*row)[at] != request.values[at]; });
  }
  return std::nullopt;
}

bool IsInstance(const v1::SkeletonMember& member, std::span<const int64_t> values) {
  const v1::Generalization& g = member.generalization();
  if (static_cast<size_t>(member.values_size()) != values.size()) return false;
  const absl::StatusOr<SizeTable> table = SizeTable::Create(g.syms());
  if (!table.ok()) return false;
  Values want(member.values().begin(), member.values().end());
  Values symbols(table->num_symbols(), 0), exprs = table->constants();
  for (const v1::Generalization::Place& place : g.places()) {
    if (place.value() >= values.size() || place.expr() >= table->size()) return false;
    if (const int64_t symbol = table->AsSymbol(place.expr()); symbol >= 0) {
      symbols[static_cast<size_t>(symbol)] = values[place.value()];
    }
  }
  if (!table->Evaluate(symbols, exprs).ok()) return false;
  for (const v1::Generalization::Place& place : g.places()) want[place.value()] = exprs[place.expr()];
  return std::equal(want.begin(), want.end(), values.begin());
}

}  // namespace kiln
