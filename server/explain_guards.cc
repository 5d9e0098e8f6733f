#include "server/explain_guards.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/guard_text.h"
#include "server/explain_advice.h"

namespace kiln {
namespace {

// --- sizes ---

// Numbers for a table's expressions, each symbol being a large one: tells dense layouts from others.
std::vector<double> Numbers(const v1::SymTable& table) {
  std::vector<double> out;
  for (const v1::SymExpr& e : table.exprs()) {
    const auto arg = [&](int i) {
      const bool known = i < e.args_size() && e.args(i) < out.size();
      return known ? out[e.args(i)] : 0.0;
    };
    double value = 0;
    switch (e.op()) {
      case v1::SymExpr::CONST:
        value = static_cast<double>(e.value());
        break;
      case v1::SymExpr::SYMBOL:
        value = 1009.0 + 16.0 * static_cast<double>(e.value());
        break;
      case v1::SymExpr::ADD:
        for (int i = 0; i < e.args_size(); ++i) value += arg(i);
        break;
      case v1::SymExpr::MUL:
        value = 1;
        for (int i = 0; i < e.args_size(); ++i) value *= arg(i);
        break;
      case v1::SymExpr::MIN:
        value = std::min(arg(0), arg(1));
        break;
      case v1::SymExpr::MAX:
        value = std::max(arg(0), arg(1));
        break;
      default:  // no product of sizes: no dense layout
        value = 0.5;
    }
    out.push_back(value);
  }
  return out;
}

// The dimensions from the outermost to the innermost, if the strides are those of a tensor without gaps; else nothing.
std::optional<std::vector<int>> DenseOrder(const std::vector<double>& numbers, const v1::TensorType& type) {
  const auto number = [&](uint32_t i) { return i < numbers.size() ? numbers[i] : 0.0; };
  if (type.sizes_size() != type.strides_size()) return std::nullopt;
  std::vector<int> order(static_cast<size_t>(type.sizes_size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(-number(type.strides(a)), a) < std::pair(-number(type.strides(b)), b);
  });
  double want = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    if (number(type.strides(*dim)) != want) return std::nullopt;
    want *= number(type.sizes(*dim));
  }
  return order;
}

// Which symbol of one GuardSpec is which of another: those that stand alone at the same places.
class SymbolMatch {
 public:
  SymbolMatch(const v1::GuardSpec& before, const v1::GuardSpec& after) : before_(before), after_(after) {
    for (int s = 0; s < before.syms().symbols_size(); ++s) names_.push_back(absl::StrCat("?s", s));
    for (int i = 0; i < std::min(before.inputs_size(), after.inputs_size()); ++i) {
      MatchInputs(before.inputs(i), after.inputs(i));
    }
  }
  // For the symbols of `before`: the name of its counterpart in `after`, or one that nothing there has.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::pair<int, int>>& pairs() const { return pairs_; }

 private:
  using Guard = v1::GuardSpec::InputGuard;

  void MatchInputs(const Guard& b, const Guard& a) {
    if (b.kind() != a.kind()) return;
    if (b.kind() == Guard::SYMINT) return Match(b.type(), a.type());
    if (b.type() >= static_cast<uint32_t>(before_.types_size())) return;
    if (a.type() >= static_cast<uint32_t>(after_.types_size())) return;
    const auto& sizes_before = before_.types(static_cast<int>(b.type())).sizes();
    const auto& sizes_after = after_.types(static_cast<int>(a.type())).sizes();
    if (sizes_before.size() != sizes_after.size()) return;
    for (int d = 0; d < sizes_before.size(); ++d) Match(sizes_before[d], sizes_after[d]);
  }
  static std::optional<int> Symbol(const v1::SymTable& syms, uint32_t expr) {
    if (expr >= static_cast<uint32_t>(syms.exprs_size())) return std::nullopt;
    const v1::SymExpr& e = syms.exprs(static_cast<int>(expr));
    if (e.op() != v1::SymExpr::SYMBOL || e.value() < 0 || e.value() >= syms.symbols_size()) return std::nullopt;
    return static_cast<int>(e.value());
  }
  void Match(uint32_t expr_before, uint32_t expr_after) {
    const std::optional<int> b = Symbol(before_.syms(), expr_before), a = Symbol(after_.syms(), expr_after);
    if (!b || !a || matched_before_.contains(*b) || !matched_after_.insert(*a).second) return;
    matched_before_.insert(*b);
    names_[static_cast<size_t>(*b)] = absl::StrCat("s", *a);
    pairs_.emplace_back(*b, *a);
  }

  const v1::GuardSpec& before_;
  const v1::GuardSpec& after_;
  std::vector<std::string> names_;
  std::vector<std::pair<int, int>> pairs_;
  absl::flat_hash_set<int> matched_before_, matched_after_;
};

std::string RangeText(const v1::Symbol& s) {
  return s.max() == INT64_MAX ? absl::StrCat("at least ", s.min()) : absl::StrCat(s.min(), " to ", s.max());
}

bool IsNumber(const std::string& text) {
  int64_t ignored;
  return absl::SimpleAtoi(text, &ignored);
}

// --- guards ---

class GuardDiff {
 public:
  // Offsets are there in the guards of Dynamo's graphs only.
  GuardDiff(const v1::GuardSpec& before, const v1::GuardSpec& after, bool offsets, Differences* out)
      : before_(before),
        after_(after),
        match_(before, after),
        own_(SymTexts(before.syms())),
        renamed_(SymTexts(before.syms(), match_.names())),
        now_(SymTexts(after.syms())),
        numbers_before_(Numbers(before.syms())),
        numbers_after_(Numbers(after.syms())),
        offsets_(offsets),
        out_(out) {}

  void Run() {
    if (before_.inputs_size() != after_.inputs_size()) {
      out_->Add("guards", "number of inputs", absl::StrCat(before_.inputs_size()), absl::StrCat(after_.inputs_size()),
                kAdviceProgram);
    }
    for (int i = 0; i < std::min(before_.inputs_size(), after_.inputs_size()); ++i) Inputs(i);
    Ranges();
    Predicates();
    Globals();
  }

 private:
  using Guard = v1::GuardSpec::InputGuard;

  static std::string At(const std::vector<std::string>& texts, uint32_t i) {
    return i < texts.size() ? texts[i] : absl::StrCat("e", i);
  }
  bool SameSize(uint32_t before, uint32_t after) const { return At(renamed_, before) == At(now_, after); }
  bool SameSizes(const google::protobuf::RepeatedField<uint32_t>& before,
                 const google::protobuf::RepeatedField<uint32_t>& after) const {
    return std::equal(before.begin(), before.end(), after.begin(), after.end(),
                      [this](uint32_t b, uint32_t a) { return SameSize(b, a); });
  }
  static std::string List(const std::vector<std::string>& texts, const google::protobuf::RepeatedField<uint32_t>& l) {
    return absl::StrCat(
        "[", absl::StrJoin(l, ", ", [&](std::string* out, uint32_t i) { absl::StrAppend(out, At(texts, i)); }), "]");
  }
  static std::string KindText(const Guard& guard) { return guard.kind() == Guard::SYMINT ? "an int" : "a tensor"; }

  void Inputs(int i) {
    const Guard &b = before_.inputs(i), &a = after_.inputs(i);
    const std::string input = absl::StrCat("input ", i);
    if (b.kind() != a.kind()) {
      return out_->Add("guards", input, KindText(b), KindText(a), kAdviceProgram);
    }
    if (b.kind() == Guard::SYMINT) {
      if (!SameSize(b.type(), a.type())) {
        out_->Add("guards", input, At(own_, b.type()), At(now_, a.type()), kAdviceInt);
      }
      return;
    }
    if (b.type() < static_cast<uint32_t>(before_.types_size()) &&
        a.type() < static_cast<uint32_t>(after_.types_size())) {
      Types(input, b.is_static() && a.is_static(), before_.types(static_cast<int>(b.type())),
            after_.types(static_cast<int>(a.type())));
    }
    const auto flag = [&](const char* name, bool was, bool is, std::string_view advice) {
      out_->AddFlag(absl::StrCat(input, ": ", name), was, is, advice);
    };
    flag("requires_grad", b.requires_grad(), a.requires_grad(), kAdviceRequiresGrad);
    flag("parameter or buffer", b.is_static(), a.is_static(), kAdviceStatic);
    if (b.alias_group() != a.alias_group()) {
      out_->Add("guards", input + ": storage", AliasText(b), AliasText(a), kAdviceAlias);
    }
    if (offsets_ && !SameSize(b.storage_offset(), a.storage_offset())) {
      out_->Add("guards", input + ": storage offset", At(own_, b.storage_offset()), At(now_, a.storage_offset()),
                kAdviceView);
    }
    flag("leaf", b.is_leaf(), a.is_leaf(), kAdviceLeaf);
    flag("view", b.is_view(), a.is_view(), kAdviceView);
    flag("made in inference mode", b.is_inference(), a.is_inference(), kAdviceInferenceTensor);
  }

  static std::string AliasText(const Guard& guard) {
    return guard.alias_group() == 0 ? "its own" : absl::StrCat("shared by group ", guard.alias_group());
  }

  void Types(const std::string& input, bool parameter, const v1::TensorType& b, const v1::TensorType& a) {
    if (b.dtype() != a.dtype()) {
      out_->Add("guards", input + ": dtype", DTypeText(b.dtype()), DTypeText(a.dtype()), kAdviceDtype);
    }
    if (b.device() != a.device()) {
      out_->Add("guards", input + ": device", DeviceText(b.device()), DeviceText(a.device()), kAdviceDevice);
    }
    if (b.sizes_size() != a.sizes_size()) {
      return out_->Add("guards", input + ": sizes", List(own_, b.sizes()), List(now_, a.sizes()), kAdviceRank);
    }
    for (int d = 0; d < b.sizes_size(); ++d) {
      if (SameSize(b.sizes(d), a.sizes(d))) continue;
      const std::string was = At(own_, b.sizes(d)), is = At(now_, a.sizes(d));
      out_->Add("guards", absl::StrCat(input, ": dim ", d), was, is, SizeAdvice(parameter, d, was, is));
    }
    if (SameSizes(b.strides(), a.strides())) return;
    const std::optional<std::vector<int>> order = DenseOrder(numbers_before_, b);
    if (!SameSizes(b.sizes(), a.sizes()) && order && order == DenseOrder(numbers_after_, a)) return;
    out_->Add("guards", input + ": strides", List(own_, b.strides()), List(now_, a.strides()), kAdviceStrides);
  }

  static std::string SizeAdvice(bool parameter, int dim, const std::string& was, const std::string& is) {
    if (parameter) return std::string(kAdviceParameter);
    const bool number_before = IsNumber(was), number_after = IsNumber(is);
    if (!number_before && !number_after) return std::string(kAdviceRelation);
    if (was == "0" || was == "1" || is == "0" || is == "1") return std::string(kAdviceZeroOne);
    return number_before && number_after ? AdviceForSize(dim) : AdviceForDynamic(dim);
  }

  void Ranges() {
    for (const auto& [b, a] : match_.pairs()) {
      const std::string was = RangeText(before_.syms().symbols(b)), is = RangeText(after_.syms().symbols(a));
      if (was != is) out_->Add("guards", absl::StrCat("s", a, ": range"), was, is, kAdviceRange);
    }
  }

  void Predicates() {
    absl::flat_hash_set<std::string> was, is;
    for (const v1::Predicate& p : before_.predicates()) was.insert(PredicateText(renamed_, p));
    for (const v1::Predicate& p : after_.predicates()) is.insert(PredicateText(now_, p));
    if (was == is) return;
    out_->Add("guards", "conditions on sizes", Summary(was, is), Summary(is, was), kAdviceRange);
  }

  // "3, with s0 < 8": their number, and one that the others lack.
  static std::string Summary(const absl::flat_hash_set<std::string>& all,
                             const absl::flat_hash_set<std::string>& other) {
    std::string own;
    for (const std::string& text : all) {
      if (!other.contains(text) && (own.empty() || text < own)) own = text;
    }
    return own.empty() ? absl::StrCat(all.size()) : absl::StrCat(all.size(), ", with ", own);
  }

  void Globals() {
    absl::flat_hash_map<std::string, std::string> was;
    for (const auto& g : before_.globals()) was[g.name()] = g.value();
    for (const auto& g : after_.globals()) {
      const auto old = was.find(g.name());
      const bool known = old != was.end();
      if (!known || old->second != g.value()) {
        out_->Add("guards", g.name(), known ? old->second : "", g.value(), AdviceForGlobal(g.name()));
      }
      if (known) was.erase(old);
    }
    for (const auto& g : before_.globals()) {
      if (was.contains(g.name())) out_->Add("guards", g.name(), g.value(), "", AdviceForGlobal(g.name()));
    }
  }

  const v1::GuardSpec& before_;
  const v1::GuardSpec& after_;
  const SymbolMatch match_;
  const std::vector<std::string> own_, renamed_, now_;  // before's expressions; the same in after's names; after's
  const std::vector<double> numbers_before_, numbers_after_;
  const bool offsets_;
  Differences* const out_;
};

}  // namespace

void DiffGuards(const v1::GuardSpec& before, const v1::GuardSpec& after, bool offsets, Differences* out) {
  GuardDiff(before, after, offsets, out).Run();
}

}  // namespace kiln
