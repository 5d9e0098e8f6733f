#include "compiler/graph/builder.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kiln {

GraphBuilder::GraphBuilder(std::shared_ptr<SymContext> syms, GraphLevel level) : graph_(std::make_shared<Graph>()) {
  graph_->syms_ = std::move(syms);
  graph_->level_ = level;
}

GraphBuilder GraphBuilder::Like(const Graph& graph) {
  GraphBuilder builder = PartOf(graph, graph.level());
  builder.SetJointCounts(graph.num_primals(), graph.num_forward_outputs());
  return builder;
}

GraphBuilder GraphBuilder::PartOf(const Graph& graph, GraphLevel level) {
  GraphBuilder builder(graph.shared_syms(), level);
  builder.graph_->size_classes_ = graph.size_classes_;
  builder.graph_->device_ = graph.device_;
  return builder;
}

void GraphBuilder::Fail(const std::string& message) {
  if (status_.ok()) status_ = absl::InternalError("graph builder: " + message);
}

Sym GraphBuilder::AddSize(SymRange range, uint32_t size_class) {
  graph_->size_classes_.push_back(size_class);
  return syms().Size(graph_->num_sizes() - 1, range);
}

ValueId GraphBuilder::NewValue(const TensorType* type, NodeId producer) {
  if (type != nullptr && type->device != DeviceType::kCpu) graph_->device_ = type->device;
  graph_->value_types_.push_back(type);
  graph_->producers_.push_back(producer);
  return graph_->num_values() - 1;
}

const TensorType* GraphBuilder::Intern(TensorType type) {
  if (type.sizes.size() != type.strides.size()) {
    Fail(absl::StrCat("a type with ", type.sizes.size(), " sizes and ", type.strides.size(), " strides"));
  }
  auto it = types_.find(type);
  if (it != types_.end()) return it->second;
  graph_->types_.push_back(std::make_unique<const TensorType>(type));
  const TensorType* interned = graph_->types_.back().get();
  types_.emplace(std::move(type), interned);
  return interned;
}

uint32_t GraphBuilder::InternOp(const OpName& op) {
  auto [it, fresh] = ops_.try_emplace(op, static_cast<uint32_t>(graph_->ops_.size()));
  if (fresh) graph_->ops_.push_back(op);
  return it->second;
}

ValueId GraphBuilder::AddInput(TensorType type) {
  const ValueId value = NewValue(Intern(std::move(type)), kNoNode);
  graph_->inputs_.push_back({value, {}});
  return value;
}

void GraphBuilder::AddSymInput(Sym sym) {
  graph_->inputs_.push_back({kNoValue, sym});
  SkipValue();
}

ValueId GraphBuilder::AddConstant(TensorType type, std::string data) {
  const ValueId value = NewValue(Intern(std::move(type)), kNoNode);
  graph_->constants_.push_back({value, std::move(data)});
  return value;
}

ValueId GraphBuilder::SkipValue() { return NewValue(nullptr, kNoNode); }

ValueId GraphBuilder::AddNode(const OpName& op, const OpDef* def, std::vector<Arg> args, const ResultTypes& results) {
  const auto id = static_cast<NodeId>(graph_->nodes_.size());
  ForEachValue(args, [&](ValueId v) {
    if (!Defined(v)) Fail(absl::StrCat("node ", id, " (", op.name, ") reads %", v, ", which is not defined before it"));
  });
  Node node;
  node.def = def;
  node.op = InternOp(op);
  node.args = std::move(args);
  node.first_result = results.empty() ? kNoValue : graph_->num_values();
  node.num_results = static_cast<uint32_t>(results.size());
  node.phase = context_.phase;
  node.recompute = context_.recompute;
  node.origin = context_.origin;
  for (const std::optional<TensorType>& type : results) NewValue(type ? Intern(*type) : nullptr, id);
  const ValueId first = node.first_result;
  graph_->nodes_.push_back(std::move(node));
  return first;
}

ValueId GraphBuilder::AddCopy(const Graph& from, const Node& node, std::vector<Arg> args) {
  ResultTypes results;
  for (uint32_t i = 0; i < node.num_results; ++i) {
    const TensorType* type = from.type(node.first_result + i);
    results.push_back(type ? std::optional(*type) : std::nullopt);
  }
  return AddNode(from.op_name(node), node.def, std::move(args), results);
}

void GraphBuilder::SetStrides(ValueId value, std::vector<Sym> strides) {
  if (!Defined(value)) return Fail(absl::StrCat("strides of %", value, ", which is not defined"));
  TensorType type = *graph_->type(value);
  type.strides = std::move(strides);
  graph_->value_types_[value] = Intern(std::move(type));
}

void GraphBuilder::AddOutput(ValueId value) {
  if (!Defined(value)) Fail(absl::StrCat("output %", value, " is not defined"));
  graph_->outputs_.push_back({GraphOutput::Kind::kValue, value, {}});
}

void GraphBuilder::AddSymOutput(Sym sym) { graph_->outputs_.push_back({GraphOutput::Kind::kSym, kNoValue, sym}); }

void GraphBuilder::AddNoneOutput() { graph_->outputs_.push_back({}); }

void GraphBuilder::AddUpdate(uint32_t input, ValueId value) {
  if (input >= graph_->inputs_.size() || graph_->inputs_[input].value == kNoValue) {
    Fail(absl::StrCat("update of input ", input, ", which is no tensor"));
  }
  if (!Defined(value)) Fail(absl::StrCat("update by %", value, ", which is not defined"));
  graph_->updates_.push_back({input, value});
}

void GraphBuilder::SetJointCounts(uint32_t num_primals, uint32_t num_forward_outputs) {
  graph_->num_primals_ = num_primals;
  graph_->num_forward_outputs_ = num_forward_outputs;
}

absl::StatusOr<std::shared_ptr<const Graph>> GraphBuilder::Build() {
  if (!status_.ok()) return status_;
  return std::shared_ptr<const Graph>(std::move(graph_));
}

}  // namespace kiln
