#include "compiler/artifact/call_spec.h"

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/artifact/size_table.h"

namespace kiln {
namespace {

constexpr int kMaxRank = 64;
constexpr int kMaxViewSteps = 64;
constexpr size_t kMaxNameBytes = 100;
constexpr std::string_view kViewStep = "_ViewMeta";

absl::Status Bad(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("spec.", field, ": ", what));
}

absl::Status Match(const std::string& field, uint64_t have, uint64_t want) {
  if (have == want) return absl::OkStatus();
  return Bad(field, absl::StrCat("is ", have, ", the compiled code has ", want));
}

absl::Status Below(const std::string& field, uint64_t have, uint64_t bound) {
  return have < bound ? absl::OkStatus() : Bad(field, absl::StrCat("is ", have, ", want less than ", bound));
}

bool IsViewStep(const std::string& name) {
  if (name.size() > kMaxNameBytes || !absl::EndsWith(name, std::string(kViewStep))) return false;
  for (const char c : name) {
    if (!(c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) return false;
  }
  return true;
}

bool IsPlain(const v1::Arg& arg) {
  switch (arg.kind_case()) {
    case v1::Arg::kNone:
    case v1::Arg::kI:
    case v1::Arg::kB:
    case v1::Arg::kDtype:
      return true;
    default:
      return false;
  }
}

absl::Status CheckViews(const std::string& field, const v1::CallSpec::Output& output) {
  if (output.views_size() > kMaxViewSteps) return Bad(field, absl::StrCat(output.views_size(), " view steps"));
  for (const v1::CallSpec::ViewStep& step : output.views()) {
    if (!IsViewStep(step.name())) return Bad(field, "a view step whose name is none");
    for (const v1::Arg& arg : step.args()) {
      bool plain = IsPlain(arg);
      if (arg.has_list()) {
        plain = arg.list().items_size() <= kMaxRank;
        for (const v1::Arg& item : arg.list().items()) plain &= IsPlain(item);
      }
      if (!plain) return Bad(field, absl::StrCat("an argument of ", step.name(), " that is no number, flag or dtype"));
    }
  }
  return absl::OkStatus();
}

bool IsAlias(v1::CallSpec::Output::Kind kind) {
  return kind != v1::CallSpec::Output::NON_ALIAS && kind != v1::CallSpec::Output::UNSAFE_VIEW_ALIAS &&
         kind != v1::CallSpec::Output::CUSTOM_FUNCTION_VIEW;
}

absl::Status CheckOutputs(const v1::CallSpec& spec) {
  using Output = v1::CallSpec::Output;
  for (int i = 0; i < spec.outputs_size(); ++i) {
    const Output& output = spec.outputs(i);
    const std::string field = absl::StrCat("outputs[", i, "]");
    uint64_t bases = 1;
    switch (output.kind()) {
      case Output::NON_ALIAS:
      case Output::UNSAFE_VIEW_ALIAS:
      case Output::CUSTOM_FUNCTION_VIEW:
        break;
      case Output::ALIAS_OF_INPUT:
      case Output::IS_INPUT:
        bases = spec.num_inputs();
        break;
      case Output::ALIAS_OF_INTERMEDIATE:
      case Output::ALIAS_OF_INTERMEDIATE_SAVE_AS_OUTPUT:
        bases = spec.num_bases();
        break;
      case Output::ALIAS_OF_INTERMEDIATE_BASE_IS_USER_OUTPUT:
        bases = static_cast<uint64_t>(spec.outputs_size());
        break;
      default:
        return Bad(field + ".kind", absl::StrCat("unknown value ", static_cast<int>(output.kind())));
    }
    if (absl::Status s = Below(field + ".base", output.base(), bases); !s.ok()) return s;
    if (absl::Status s = CheckViews(field + ".views", output); !s.ok()) return s;
    for (const uint32_t dim : output.dynamic_dims()) {
      if (absl::Status s = Below(field + ".dynamic_dims", dim, kMaxRank); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTangents(const v1::CallSpec& spec) {
  uint64_t want = spec.num_bases();
  for (const v1::CallSpec::Mutation& mutation : spec.mutations()) want += mutation.data() && mutation.requires_grad();
  for (const v1::CallSpec::Output& output : spec.outputs()) {
    want += !IsAlias(output.kind()) && output.is_tensor() && output.has_tangent();
  }
  if (static_cast<uint64_t>(spec.tangents_size()) != want) {
    return Bad("tangents", absl::StrCat("there are ", spec.tangents_size(), ", by its outputs there are ", want));
  }
  for (int i = 0; i < spec.tangents_size(); ++i) {
    const v1::CallSpec::Tangent& tangent = spec.tangents(i);
    const std::string field = absl::StrCat("tangents[", i, "]");
    if (!v1::CallSpec::Tangent::Layout_IsValid(tangent.layout())) {
      return Bad(field + ".layout", absl::StrCat("unknown value ", static_cast<int>(tangent.layout())));
    }
    if (tangent.sizes_size() != tangent.strides_size() || tangent.sizes_size() > kMaxRank) {
      return Bad(field, absl::StrCat(tangent.sizes_size(), " sizes and ", tangent.strides_size(), " strides"));
    }
    for (int d = 0; d < tangent.sizes_size(); ++d) {
      if (tangent.sizes(d) < 0 || tangent.strides(d) < 0) return Bad(field, "a negative size or stride");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SizeTable> PredicateTable(const v1::Variant& variant) {
  absl::StatusOr<SizeTable> table = SizeTable::Create(variant.syms());
  if (!table.ok()) return table;
  for (int i = 0; i < variant.predicates_size(); ++i) {
    const v1::Predicate& predicate = variant.predicates(i);
    const std::string field = absl::StrCat("predicates[", i, "]");
    if (!v1::Predicate::Op_IsValid(predicate.op()) || predicate.op() == v1::Predicate::OP_UNSPECIFIED) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".op: unknown value ", static_cast<int>(predicate.op())));
    }
    if (predicate.lhs() >= table->size() || predicate.rhs() >= table->size()) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": there is no such expression"));
    }
  }
  return table;
}

}  // namespace

CallShape ShapeOf(const v1::Artifact& artifact) {
  const v1::PlanSignature& signature = artifact.signature();
  CallShape shape{.inputs = signature.num_inputs(),
                  .outputs = signature.num_forward_outputs(),
                  .saved = static_cast<uint32_t>(signature.saved_values_size()),
                  .saved_syms = static_cast<uint32_t>(signature.saved_syms_size()),
                  .training = artifact.functions_size() == 2};
  if (shape.training) shape.backward_inputs = static_cast<uint32_t>(artifact.functions(1).inputs_size());
  return shape;
}

absl::Status CheckCallSpec(const v1::CallSpec& spec, const CallShape& shape) {
  if (spec.training() != shape.training) {
    return Bad("training", absl::StrCat("is ", spec.training(), ", the compiled code is for ",
                                        shape.training ? "training" : "inference"));
  }
  const uint64_t outputs = static_cast<uint64_t>(spec.mutations_size() + spec.outputs_size()) + spec.num_bases();
  for (const auto& [field, have, want] : std::vector<std::tuple<std::string, uint64_t, uint64_t>>{
           {"num_inputs", spec.num_inputs(), shape.inputs},
           {"outputs, mutations and bases", outputs, shape.outputs},
           {"saved", spec.saved_size(), shape.saved},
           {"num_saved_syms", spec.num_saved_syms(), shape.saved_syms}}) {
    if (absl::Status s = Match(field, have, want); !s.ok()) return s;
  }
  for (const v1::CallSpec::Mutation& mutation : spec.mutations()) {
    if (absl::Status s = Below("mutations: input", mutation.input(), spec.num_inputs()); !s.ok()) return s;
  }
  for (const uint32_t input : spec.written_inputs()) {
    if (absl::Status s = Below("written_inputs", input, spec.num_inputs()); !s.ok()) return s;
  }
  for (const uint32_t input : spec.counted_inputs()) {
    if (absl::Status s = Below("counted_inputs", input, spec.num_inputs()); !s.ok()) return s;
  }
  for (const uint32_t input : spec.detached_inputs()) {
    if (absl::Status s = Below("detached_inputs", input, spec.num_inputs()); !s.ok()) return s;
  }
  for (const v1::CallSpec::Saved& saved : spec.saved()) {
    if (!saved.has_input()) continue;
    if (absl::Status s = Below("saved: input", saved.input(), spec.num_inputs()); !s.ok()) return s;
  }
  if (!v1::CallSpec::GradMode_IsValid(spec.grad_mode_after())) {
    return Bad("grad_mode_after", absl::StrCat("unknown value ", static_cast<int>(spec.grad_mode_after())));
  }
  if (absl::Status s = CheckOutputs(spec); !s.ok()) return s;
  if (!spec.training()) {
    return spec.tangents().empty() && spec.detached_inputs().empty() ? absl::OkStatus()
                                                                     : Bad("tangents", "of a call without a backward");
  }
  if (absl::Status s = CheckTangents(spec); !s.ok()) return s;
  return Match("backward's inputs: saved and tangents",
               static_cast<uint64_t>(spec.saved_size() + spec.tangents_size()) + spec.num_saved_syms(),
               shape.backward_inputs);
}

absl::Status CheckPredicates(const v1::Variant& variant) { return PredicateTable(variant).status(); }

absl::StatusOr<bool> PredicatesHold(const v1::Variant& variant, std::span<const int64_t> values) {
  const absl::StatusOr<SizeTable> table = PredicateTable(variant);
  if (!table.ok()) return table.status();
  if (values.size() < table->num_symbols()) return false;
  std::vector<int64_t> exprs = table->constants();
  if (!table->Evaluate(values, exprs).ok()) return false;
  for (const v1::Predicate& predicate : variant.predicates()) {
    const int64_t lhs = exprs[predicate.lhs()], rhs = exprs[predicate.rhs()];
    const bool holds = predicate.op() == v1::Predicate::EQ   ? lhs == rhs
                       : predicate.op() == v1::Predicate::NE ? lhs != rhs
                       : predicate.op() == v1::Predicate::LT ? lhs < rhs
                                                             : lhs <= rhs;
    if (!holds) return false;
  }
  return true;
}

}  // namespace kiln
