#include "server/explain_graph.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/guard_text.h"
#include "server/explain_advice.h"

namespace kiln {
namespace {

constexpr int kMaxNesting = 8;  // of an argument, as text

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
    return out->Add("graph", name + ": keywords", keywords(before), keywords(after), kAdviceProgram);
  }
  if (was.size() != is.size()) {
    return out->Add("graph", name + ": number of arguments", absl::StrCat(was.size()), absl::StrCat(is.size()),
                    kAdviceProgram);
  }
  for (int i = 0; i < was.size(); ++i) {
    if (SameArg(was[i], is[i])) continue;
    out->Add("graph", absl::StrCat(name, ": argument ", i), ArgText(was[i]), ArgText(is[i]),
             std::string(was[i].has_i() || is[i].has_i() ? kAdviceNumber : kAdviceProgram));
  }
}

}  // namespace

Comparison::Graphs DiffGraphs(const v1::Graph& before, const v1::Graph& after, Differences* out) {
  const int common = std::min(before.nodes_size(), after.nodes_size());
  for (int i = 0; i < common; ++i) {
    if (OpName(before, i) == OpName(after, i)) continue;
    out->Add("graph", absl::StrCat("node ", i), OpName(before, i), OpName(after, i), kAdviceProgram);
    return Comparison::Graphs::kOther;
  }
  if (before.nodes_size() != after.nodes_size()) {
    out->Add("graph", "number of nodes", absl::StrCat(before.nodes_size()), absl::StrCat(after.nodes_size()),
             kAdviceProgram);
    return Comparison::Graphs::kOther;
  }
  for (int i = 0; i < common; ++i) DiffArguments(before, after, i, out);
  return Comparison::Graphs::kSameOperations;
}

}  // namespace kiln
