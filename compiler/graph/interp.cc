#include "compiler/graph/interp.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

class Run {
 public:
  Run(const Graph& graph, const EvalNode& eval)
      : graph_(graph),
        eval_(eval),
        owned_(graph.num_values()),
        values_(graph.num_values()),
        last_use_(graph.num_values(), 0) {
    size_ = [this](Var v) -> std::optional<int64_t> {
      auto it = sizes_.find(v);
      return it == sizes_.end() ? std::nullopt : std::optional(it->second);
    };
  }

  absl::StatusOr<GraphResult> Execute(std::span<const HostValue> inputs) {
    absl::Status status = BindSizes(inputs);
    if (status.ok()) status = BindInputs(inputs);
    if (status.ok()) status = BindConstants();
    FindLastUses();
    for (NodeId i = 0; i < graph_.nodes().size() && status.ok(); ++i) status = RunNode(i);
    if (!status.ok()) return status;
    return Gather();
  }

 private:
  absl::Status BindSizes(std::span<const HostValue> inputs) {
    if (inputs.size() != graph_.inputs().size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(inputs.size(), " inputs given, the graph has ", graph_.inputs().size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const GraphInput& input = graph_.inputs()[i];
      if (input.value != kNoValue) continue;
      const auto* value = std::get_if<int64_t>(&inputs[i]);
      std::optional<Var> var = graph_.syms().AsVar(input.sym);
      if (!value || !var) return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be an integer"));
      sizes_[*var] = *value;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const GraphInput& input = graph_.inputs()[i];
      const auto* array = std::get_if<HostArray>(&inputs[i]);
      if (input.value == kNoValue || !array) continue;
      const TensorType& type = *graph_.type(input.value);
      for (size_t d = 0; d < std::min(type.sizes.size(), array->sizes.size()); ++d) {
        if (std::optional<Var> var = graph_.syms().AsVar(type.sizes[d])) sizes_.try_emplace(*var, array->sizes[d]);
      }
    }
    return absl::OkStatus();
  }

  absl::Status BindInputs(std::span<const HostValue> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId v = graph_.inputs()[i].value;
      if (v == kNoValue) continue;
      const auto* array = std::get_if<HostArray>(&inputs[i]);
      if (!array) return absl::InvalidArgumentError(absl::StrCat("input ", i, " must be a tensor"));
      absl::Status status = Check(*array, *graph_.type(v));
      if (!status.ok())
        return absl::InvalidArgumentError(absl::StrCat("input ", i, ": ", std::string(status.message())));
      values_[v] = array;
    }
    return absl::OkStatus();
  }

  absl::Status BindConstants() {
    for (const GraphConstant& constant : graph_.constants()) {
      const TensorType& type = *graph_.type(constant.value);
      absl::StatusOr<std::vector<int64_t>> sizes = Sizes(type);
      if (!sizes.ok()) return sizes.status();
      Own(constant.value, {type.dtype, *std::move(sizes), constant.data});
    }
    return absl::OkStatus();
  }

  void FindLastUses() {
    for (NodeId i = 0; i < graph_.nodes().size(); ++i) {
      ForEachValue(graph_.nodes()[i].args, [&](ValueId v) { last_use_[v] = i; });
    }
    auto forever = [&](ValueId v) { last_use_[v] = kNoNode; };
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.kind == GraphOutput::Kind::kValue) forever(output.value);
    }
    for (const GraphUpdate& update : graph_.updates()) forever(update.value);
  }

  absl::Status RunNode(NodeId id) {
    const Node& node = graph_.nodes()[id];
    absl::StatusOr<std::vector<HostValue>> results = eval_(NodeRun(graph_, node, values_, size_));
    const std::string what = absl::StrCat("node ", id, " (", graph_.op_name(node).name, ")");
    if (!results.ok()) {
      return absl::Status(results.status().code(), absl::StrCat(what, ": ", std::string(results.status().message())));
    }
    if (results->size() != node.num_results) return absl::InternalError(what + ": wrong number of results");
    for (uint32_t i = 0; i < node.num_results; ++i) {
      const TensorType* type = graph_.type(node.first_result + i);
      auto* array = std::get_if<HostArray>(&(*results)[i]);
      if ((type != nullptr) != (array != nullptr)) return absl::InternalError(what + ": a result is None or should be");
      if (!array) continue;
      absl::Status status = Check(*array, *type);
      if (!status.ok()) return absl::InternalError(absl::StrCat(what, ": ", std::string(status.message())));
      Own(node.first_result + i, std::move(*array));
    }
    ForEachValue(node.args, [&](ValueId v) {
      if (last_use_[v] == id) owned_[v].reset();
    });
    return absl::OkStatus();
  }

  absl::StatusOr<GraphResult> Gather() {
    GraphResult result;
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.kind == GraphOutput::Kind::kValue) {
        result.outputs.emplace_back(*values_[output.value]);
      } else if (output.kind == GraphOutput::Kind::kSym) {
        absl::StatusOr<int64_t> value = graph_.syms().Eval(output.sym, size_);
        if (!value.ok()) return value.status();
        result.outputs.emplace_back(*value);
      } else {
        result.outputs.emplace_back();
      }
    }
    for (const GraphUpdate& update : graph_.updates()) result.updates.push_back(*values_[update.value]);
    return result;
  }

  absl::StatusOr<std::vector<int64_t>> Sizes(const TensorType& type) {
    std::vector<int64_t> out;
    for (Sym s : type.sizes) {
      absl::StatusOr<int64_t> size = graph_.syms().Eval(s, size_);
      if (!size.ok()) return size.status();
      out.push_back(*size);
    }
    return out;
  }

  absl::Status Check(const HostArray& array, const TensorType& type) {
    absl::StatusOr<std::vector<int64_t>> sizes = Sizes(type);
    if (!sizes.ok()) return sizes.status();
    if (array.dtype != type.dtype) return absl::InvalidArgumentError("wrong dtype");
    if (array.sizes != *sizes) return absl::InvalidArgumentError("wrong sizes");
    __int128 bytes = ByteSize(array.dtype);
    for (int64_t s : array.sizes) bytes *= s;
    if (bytes != static_cast<__int128>(array.data.size())) return absl::InvalidArgumentError("wrong number of bytes");
    return absl::OkStatus();
  }

  void Own(ValueId v, HostArray array) {
    owned_[v] = std::make_unique<HostArray>(std::move(array));
    values_[v] = owned_[v].get();
  }

  const Graph& graph_;
  const EvalNode& eval_;
  std::vector<std::unique_ptr<HostArray>> owned_;
  std::vector<const HostArray*> values_;
  std::vector<NodeId> last_use_;
  absl::flat_hash_map<Var, int64_t> sizes_;
  std::function<std::optional<int64_t>(Var)> size_;
};

}  // namespace

absl::StatusOr<std::vector<int64_t>> NodeRun::Sizes(const TensorType& type) const {
  std::vector<int64_t> out;
  for (Sym s : type.sizes) {
    absl::StatusOr<int64_t> size = Eval(s);
    if (!size.ok()) return size.status();
    out.push_back(*size);
  }
  return out;
}

absl::StatusOr<GraphResult> Interpret(const Graph& graph, std::span<const HostValue> inputs, const EvalNode& eval) {
  return Run(graph, eval).Execute(inputs);
}

}  // namespace kiln
