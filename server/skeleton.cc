#include "server/skeleton.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/request_key.h"
#include "server/wire.h"

namespace kiln {
namespace {

// Moves the integers out of an argument.
void TakeIntegers(v1::Arg* arg, std::vector<int64_t>* values) {
  const auto items = [&](v1::Arg::List* list) {
    for (v1::Arg& item : *list->mutable_items()) TakeIntegers(&item, values);
  };
  switch (arg->kind_case()) {
    case v1::Arg::kI:
      values->push_back(arg->i());
      arg->set_i(0);
      break;
    case v1::Arg::kList:
      items(arg->mutable_list());
      break;
    case v1::Arg::kTuple:
      items(arg->mutable_tuple());
      break;
    case v1::Arg::kDict:
      items(arg->mutable_dict());
      break;
    case v1::Arg::kSlice:
      items(arg->mutable_slice());
      break;
    default:
      break;
  }
}

// The guards taken apart. Types and expressions are shared between inputs as their sizes happen to be: in what is left
// each input has a type of its own.
class Guards {
 public:
  Guards(v1::GuardSpec* guards, Skeleton* out) : guards_(guards), out_(out) {}

  bool Take() {
    if (!guards_->syms().symbols().empty() || !guards_->predicates().empty()) return false;
    for (v1::GuardSpec::InputGuard& input : *guards_->mutable_inputs()) {
      if (!TakeInput(&input)) return false;
    }
    guards_->clear_syms();
    *guards_->mutable_types() = std::move(types_);
    return true;
  }

 private:
  bool TakeInput(v1::GuardSpec::InputGuard* input) {
    if (input->kind() != v1::GuardSpec::InputGuard::TENSOR) return false;
    if (input->type() >= static_cast<uint32_t>(guards_->types_size())) return false;
    v1::TensorType type = guards_->types(static_cast<int>(input->type()));
    if (type.sizes_size() != type.strides_size()) return false;
    for (google::protobuf::RepeatedField<uint32_t>* field : {type.mutable_sizes(), type.mutable_strides()}) {
      for (uint32_t& entry : *field) {
        if (!TakeConstant(&entry)) return false;
      }
    }
    uint32_t offset = input->storage_offset();
    if (!TakeConstant(&offset)) return false;
    out_->inputs.push_back(
        {.rank = static_cast<uint32_t>(type.sizes_size()), .fixed = input->is_static() || input->alias_group() != 0});
    input->set_storage_offset(0);
    input->set_type(static_cast<uint32_t>(types_.size()));
    *types_.Add() = std::move(type);
    return true;
  }

  bool TakeConstant(uint32_t* entry) {
    if (*entry >= static_cast<uint32_t>(guards_->syms().exprs_size())) return false;
    const v1::SymExpr& expr = guards_->syms().exprs(static_cast<int>(*entry));
    if (expr.op() != v1::SymExpr::CONST || out_->values.size() >= kMaxSkeletonValues) return false;
    out_->values.push_back(expr.value());
    *entry = 0;
    return true;
  }

  v1::GuardSpec* const guards_;
  Skeleton* const out_;
  google::protobuf::RepeatedPtrField<v1::TensorType> types_;
};

}  // namespace

std::optional<Skeleton> SkeletonOf(const v1::CompileRequest& canonical, const std::string& build) {
  if (!canonical.graph().syms().symbols().empty()) return std::nullopt;
  v1::CompileRequest rest = canonical;
  rest.clear_debug();
  Skeleton out;
  if (!Guards(rest.mutable_guards(), &out).Take()) return std::nullopt;
  for (v1::Node& node : *rest.mutable_graph()->mutable_nodes()) {
    for (v1::Arg& arg : *node.mutable_args()) TakeIntegers(&arg, &out.values);
  }
  if (out.values.size() > kMaxSkeletonValues) return std::nullopt;
  out.key = KeyBuilder("skeleton")
                .Add("request", SerializeDeterministic(rest))
                .Add("schema", absl::StrCat(kSchemaVersion))
                .Add("build", build)
                .Build()
                .value()  // its names are distinct
                .ToKey();
  return out;
}

}  // namespace kiln
