// kilnctl ops
#include <fnmatch.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/cli.h"
#include "client/cli/table.h"

namespace kiln {
namespace {

constexpr char kFooter[] =
    R"(KIND: how it is computed. pointwise, reduction, scan, scatter, creation; view: index maths, never a copy;
composite: of other operators; external: by a call into torch, as is every operator that is not listed.
GRADIENT: a rule, that of its parts (decomposed), or why there is none.
BUDGET: how far an element may be from the exact result, in units in the last place.
ERROR: of each function that an element takes, how far it was found to be of how far it may be, for float32;
* over all inputs. --json has float64 too.

  kilnctl ops                       all
  kilnctl ops softmax               those with it in their name, or in that of an overload of torch's
  kilnctl ops 'aten.*_backward.*'   those of which an overload (without a dot: the name) is like this)";

struct Filter {
  std::string pattern;  // empty: all
  std::string kind;     // empty: any
};

// A pattern with something to fill in is like a shell's: of the record's name, or with a dot of an overload's. Else it
// is a part of either.
bool Passes(const v1::OpInfo& op, const Filter& filter) {
  if (!filter.kind.empty() && op.kind() != filter.kind) return false;
  const std::string& pattern = filter.pattern;
  const bool shell = pattern.find_first_of("*?[") != std::string::npos;
  const bool overloads = !shell || absl::StrContains(pattern, ".");
  const auto matches = [&](const std::string& name) {
    return shell ? fnmatch(pattern.c_str(), name.c_str(), 0) == 0 : absl::StrContains(name, pattern);
  };
  return matches(op.name()) || (overloads && std::ranges::any_of(op.torch(), matches));
}

std::string BudgetText(const v1::OpInfo& op) {
  return op.has_budget() ? absl::StrFormat("%.3g ulp", op.budget().ulp()) : "-";
}

std::string ErrorText(const v1::OpInfo& op) {
  if (op.functions().empty()) return "-";
  return absl::StrJoin(op.functions(), ", ", [](std::string* out, const v1::OpInfo::Function& f) {
    absl::StrAppendFormat(out, "%s %.3f of %.4g%s", f.name(), f.f32_measured(), f.f32_budget(),
                          f.exhaustive() ? "*" : "");
  });
}

void PrintOps(const v1::ListOpsReply& reply, Cli& cli) {
  Table table({{"OP"}, {"KIND"}, {"GRADIENT"}, {"BUDGET"}, {"ERROR"}, {"TORCH"}});
  for (const v1::OpInfo& op : reply.ops()) {
    table.Add({op.name(), op.kind(), op.gradient(), BudgetText(op), ErrorText(op), absl::StrJoin(op.torch(), ", ")});
  }
  cli.out << table.Text(cli.terminal);
}

void Run(Cli& cli, const Filter& filter) {
  v1::ListOpsReply all, reply;
  if (!cli.Call(&v1::Admin::Stub::ListOps, v1::ListOpsRequest(), &all)) return;
  for (const v1::OpInfo& op : all.ops()) {
    if (Passes(op, filter)) *reply.add_ops() = op;
  }
  if (reply.ops().empty()) {
    cli.err << "kilnctl: none of the server's " << all.ops_size() << " operators is like that\n";
    cli.status = kFailed;
    return;
  }
  cli.json ? cli.PrintJson(reply) : PrintOps(reply, cli);
}

}  // namespace

void AddOps(CLI::App& app, Cli& cli) {
  auto filter = std::make_shared<Filter>();
  CLI::App* verb = app.add_subcommand("ops", "the operators that the server knows, and how exact they are");
  verb->add_option("pattern", filter->pattern, "a part of a name, or a whole one with * ? []");
  verb->add_option("--kind", filter->kind, "of one kind only")
      ->check(
          CLI::IsMember({"pointwise", "reduction", "scan", "scatter", "creation", "view", "composite", "external"}));
  verb->footer(kFooter);
  verb->callback([&cli, filter] { Run(cli, *filter); });
}

}  // namespace kiln
