#include "server/explain.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/guard_text.h"
#include "server/explain_advice.h"
#include "server/wire.h"

namespace kiln {
namespace {

constexpr size_t kShownText = 200;
constexpr size_t kShownDigits = 16;
constexpr int kMaxNesting = 8;  // of an argument, as text

class Differences {
 public:
  explicit Differences(Comparison* out) : out_(out) {}

  void Add(std::string part, std::string what, const std::string& before, const std::string& after,
           std::string advice) {
    if (out_->count++ >= kMaxDifferences) return;
    v1::Difference& d = out_->differences.emplace_back();
    d.set_part(OneLine(part, kShownText));
    d.set_what(OneLine(what, kShownText));
    d.set_before(OneLine(before, kShownText));
    d.set_after(OneLine(after, kShownText));
    d.set_advice(std::move(advice));
  }
  void AddFlag(const std::string& what, bool before, bool after, std::string_view advice) {
    if (before != after) Add("guards", what, before ? "True" : "False", after ? "True" : "False", std::string(advice));
  }

 private:
  Comparison* const out_;
};

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
                std::string(kAdviceProgram));
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
      return out_->Add("guards", input, KindText(b), KindText(a), std::string(kAdviceProgram));
    }
    if (b.kind() == Guard::SYMINT) {
      if (!SameSize(b.type(), a.type())) {
        out_->Add("guards", input, At(own_, b.type()), At(now_, a.type()), std::string(kAdviceInt));
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
      out_->Add("guards", input + ": storage", AliasText(b), AliasText(a), std::string(kAdviceAlias));
    }
    if (offsets_ && !SameSize(b.storage_offset(), a.storage_offset())) {
      out_->Add("guards", input + ": storage offset", At(own_, b.storage_offset()), At(now_, a.storage_offset()),
                std::string(kAdviceView));
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
      out_->Add("guards", input + ": dtype", DTypeText(b.dtype()), DTypeText(a.dtype()), std::string(kAdviceDtype));
    }
    if (b.device() != a.device()) {
      out_->Add("guards", input + ": device", DeviceText(b.device()), DeviceText(a.device()),
                std::string(kAdviceDevice));
    }
    if (b.sizes_size() != a.sizes_size()) {
      return out_->Add("guards", input + ": sizes", List(own_, b.sizes()), List(now_, a.sizes()),
                       std::string(kAdviceRank));
    }
    for (int d = 0; d < b.sizes_size(); ++d) {
      if (SameSize(b.sizes(d), a.sizes(d))) continue;
      const std::string was = At(own_, b.sizes(d)), is = At(now_, a.sizes(d));
      out_->Add("guards", absl::StrCat(input, ": dim ", d), was, is, SizeAdvice(parameter, d, was, is));
    }
    if (SameSizes(b.strides(), a.strides())) return;
    const std::optional<std::vector<int>> order = DenseOrder(numbers_before_, b);
    if (!SameSizes(b.sizes(), a.sizes()) && order && order == DenseOrder(numbers_after_, a)) return;
    out_->Add("guards", input + ": strides", List(own_, b.strides()), List(now_, a.strides()),
              std::string(kAdviceStrides));
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
      if (was != is) out_->Add("guards", absl::StrCat("s", a, ": range"), was, is, std::string(kAdviceRange));
    }
  }

  void Predicates() {
    absl::flat_hash_set<std::string> was, is;
    for (const v1::Predicate& p : before_.predicates()) was.insert(PredicateText(renamed_, p));
    for (const v1::Predicate& p : after_.predicates()) is.insert(PredicateText(now_, p));
    if (was == is) return;
    out_->Add("guards", "conditions on sizes", Summary(was, is), Summary(is, was), std::string(kAdviceRange));
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

// --- graphs ---

std::string ArgText(const v1::Arg& arg, int nesting = 0) {
  const auto list = [&](const char* open, const v1::Arg::List& l, const char* close) -> std::string {
    if (nesting == kMaxNesting) return "…";
    return absl::StrCat(open,
                        absl::StrJoin(l.items(), ", ",
                                      [&](std::string* out, const v1::Arg& a) {
                                        if (out->size() < kShownText) absl::StrAppend(out, ArgText(a, nesting + 1));
                                      }),
                        close);
  };
  switch (arg.kind_case()) {
    case v1::Arg::kNone:
      return "None";
    case v1::Arg::kValue:
      return absl::StrCat("%", arg.value());
    case v1::Arg::kSym:
      return "a size";
    case v1::Arg::kI:
      return absl::StrCat(arg.i());
    case v1::Arg::kF:
      return absl::StrCat(arg.f());
    case v1::Arg::kB:
      return arg.b() ? "True" : "False";
    case v1::Arg::kS:
      return absl::StrCat("'", arg.s(), "'");
    case v1::Arg::kDtype:
      return DTypeText(arg.dtype());
    case v1::Arg::kList:
      return list("[", arg.list(), "]");
    case v1::Arg::kTuple:
      return list("(", arg.tuple(), ")");
    default:
      return "another";
  }
}

bool IsSize(const v1::Arg& arg) { return arg.has_sym() || arg.has_i(); }

const v1::Arg::List* ListOf(const v1::Arg& arg) {
  switch (arg.kind_case()) {
    case v1::Arg::kList:
      return &arg.list();
    case v1::Arg::kTuple:
      return &arg.tuple();
    case v1::Arg::kDict:
      return &arg.dict();
    case v1::Arg::kSlice:
      return &arg.slice();
    default:
      return nullptr;
  }
}

// Up to what the guards say of sizes: a size is like any other, and like a number.
bool SameArg(const v1::Arg& b, const v1::Arg& a) {
  if (b.has_sym() || a.has_sym()) return IsSize(b) && IsSize(a);
  if (b.kind_case() != a.kind_case()) return false;
  const v1::Arg::List *was = ListOf(b), *is = ListOf(a);
  if (was == nullptr) return b.SerializeAsString() == a.SerializeAsString();
  return std::equal(was->items().begin(), was->items().end(), is->items().begin(), is->items().end(), SameArg);
}

std::string OpName(const v1::Graph& graph, int node) {
  const uint32_t op = graph.nodes(node).op();
  return op < static_cast<uint32_t>(graph.ops_size()) ? graph.ops(static_cast<int>(op)).name() : "?";
}

void DiffArguments(const v1::Graph& before, const v1::Graph& after, int node, Differences* out) {
  const auto &was = before.nodes(node).args(), &is = after.nodes(node).args();
  const std::string name = absl::StrCat("node ", node, " ", OpName(after, node));
  const auto keywords = [node](const v1::Graph& graph) { return absl::StrJoin(graph.nodes(node).keywords(), ", "); };
  if (keywords(before) != keywords(after)) {
    return out->Add("graph", name + ": keywords", keywords(before), keywords(after), std::string(kAdviceProgram));
  }
  if (was.size() != is.size()) {
    return out->Add("graph", name + ": number of arguments", absl::StrCat(was.size()), absl::StrCat(is.size()),
                    std::string(kAdviceProgram));
  }
  for (int i = 0; i < was.size(); ++i) {
    if (SameArg(was[i], is[i])) continue;
    out->Add("graph", absl::StrCat(name, ": argument ", i), ArgText(was[i]), ArgText(is[i]),
             std::string(was[i].has_i() || is[i].has_i() ? kAdviceNumber : kAdviceProgram));
  }
}

Comparison::Graphs DiffGraphs(const v1::Graph& before, const v1::Graph& after, Differences* out) {
  const int common = std::min(before.nodes_size(), after.nodes_size());
  for (int i = 0; i < common; ++i) {
    if (OpName(before, i) == OpName(after, i)) continue;
    out->Add("graph", absl::StrCat("node ", i), OpName(before, i), OpName(after, i), std::string(kAdviceProgram));
    return Comparison::Graphs::kOther;
  }
  if (before.nodes_size() != after.nodes_size()) {
    out->Add("graph", "number of nodes", absl::StrCat(before.nodes_size()), absl::StrCat(after.nodes_size()),
             std::string(kAdviceProgram));
    return Comparison::Graphs::kOther;
  }
  for (int i = 0; i < common; ++i) DiffArguments(before, after, i, out);
  return Comparison::Graphs::kSameOperations;
}

// --- keys ---

const v1::KeyPart* Find(const std::vector<v1::KeyPart>& parts, const std::string& name) {
  const auto it = std::find_if(parts.begin(), parts.end(), [&](const v1::KeyPart& p) { return p.name() == name; });
  return it == parts.end() ? nullptr : &*it;
}

std::string PartText(const v1::KeyPart* part) {
  if (part == nullptr) return "";
  if (!part->value().empty()) return part->value();
  return "sha256 " + absl::BytesToHexString(part->sha256()).substr(0, kShownDigits);
}

bool SamePart(const ExplainedEntry& before, const ExplainedEntry& after, const std::string& name) {
  const v1::KeyPart *b = Find(before.key_parts, name), *a = Find(after.key_parts, name);
  return b == nullptr || a == nullptr ? b == a : b->sha256() == a->sha256();
}

bool IsLookup(const ExplainedEntry& entry) {
  const v1::KeyPart* level = Find(entry.key_parts, "level");
  return level != nullptr && level->value() == v1::Graph::Level_Name(v1::Graph::TORCH);
}

// A digest's worth of difference: what the part holds is not known, or differs in what has no words.
void AddPart(const ExplainedEntry& before, const ExplainedEntry& after, const std::string& name, std::string advice,
             Differences* out) {
  // Graph and guards may by chance be printable; they are bytes.
  const auto text = [&](const ExplainedEntry& entry) {
    const v1::KeyPart* part = Find(entry.key_parts, name);
    if (part == nullptr || (name != "graph" && name != "guards")) return PartText(part);
    return "sha256 " + absl::BytesToHexString(part->sha256()).substr(0, kShownDigits);
  };
  out->Add(name, "", text(before), text(after), std::move(advice));
}

void DiffPredicates(const ExplainedEntry& before, const ExplainedEntry& after, Differences* out) {
  const auto text = [](const ExplainedEntry& entry) -> std::string {
    if (entry.predicates.empty()) return "any size";
    const std::vector<std::string> exprs = SymTexts(entry.syms);
    return absl::StrJoin(entry.predicates, ", ", [&](std::string* o, const v1::Predicate& p) {
      if (o->size() < kShownText) absl::StrAppend(o, PredicateText(exprs, p));
    });
  };
  const std::string was = text(before), is = text(after);
  if (was != is) out->Add("predicates", "", was, is, std::string(kAdvicePredicates));
}

}  // namespace

Comparison Compare(const ExplainedEntry& before, const ExplainedEntry& after) {
  Comparison result;
  Differences out(&result);
  if (before.ns != after.ns) out.Add("namespace", "", before.ns, after.ns, std::string(kAdviceNamespace));
  for (const v1::KeyPart& part : after.key_parts) {
    if (part.name() == "graph" || part.name() == "guards" || SamePart(before, after, part.name())) continue;
    AddPart(before, after, part.name(), AdviceForPart(part.name()), &out);
  }
  for (const v1::KeyPart& part : before.key_parts) {
    if (Find(after.key_parts, part.name()) == nullptr) {
      AddPart(before, after, part.name(), AdviceForPart(part.name()), &out);
    }
  }
  const bool same_guards = SamePart(before, after, "guards");
  if (!same_guards) {
    const uint64_t count = result.count;
    if (before.guards && after.guards) {
      GuardDiff(*before.guards, *after.guards, IsLookup(before) && IsLookup(after), &out).Run();
    }
    if (result.count == count) AddPart(before, after, "guards", AdviceForPart("guards"), &out);
  }
  if (!SamePart(before, after, "graph")) {
    const uint64_t count = result.count;
    const bool known = before.graph && after.graph;
    result.graphs = known ? DiffGraphs(*before.graph, *after.graph, &out) : Comparison::Graphs::kOther;
    if (result.count == count && (!known || same_guards)) {
      AddPart(before, after, "graph",
              std::string(known         ? kAdviceConstants
                          : same_guards ? kAdviceProgram
                                        : kAdviceGraphStatesSizes),
              &out);
    }
  }
  if (before.key == after.key) {
    DiffPredicates(before, after, &out);
  } else if (result.count == 0) {
    out.Add("request", "", "", "", std::string(kAdviceRequest));
  }
  return result;
}

bool IsNearer(const Comparison& a, const Comparison& b) {
  return std::tuple(a.graphs, a.count) < std::tuple(b.graphs, b.count);
}

}  // namespace kiln
