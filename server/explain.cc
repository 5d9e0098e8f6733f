#include "server/explain.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/artifact/guard_text.h"
#include "server/explain_advice.h"
#include "server/explain_differences.h"
#include "server/explain_graph.h"
#include "server/explain_guards.h"

namespace kiln {
namespace {

constexpr size_t kShownDigits = 16;

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
  if (was != is) out->Add("predicates", "", was, is, kAdvicePredicates);
}

}  // namespace

Comparison Compare(const ExplainedEntry& before, const ExplainedEntry& after) {
  Comparison result;
  Differences out(&result);
  if (before.ns != after.ns) out.Add("namespace", "", before.ns, after.ns, kAdviceNamespace);
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
      DiffGuards(*before.guards, *after.guards, IsLookup(before) && IsLookup(after), &out);
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
    out.Add("request", "", "", "", kAdviceRequest);
  }
  return result;
}

bool IsNearer(const Comparison& a, const Comparison& b) {
  return std::tuple(a.graphs, a.count) < std::tuple(b.graphs, b.count);
}

}  // namespace kiln
