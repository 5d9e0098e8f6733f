#include "compiler/import/import.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/graph/builder.h"
#include "compiler/import/args.h"
#include "compiler/import/errors.h"
#include "compiler/import/syms.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

constexpr uint32_t kNoResult = 0xffffffff;

class Importer {
 public:
  Importer(const v1::Graph& graph, const ImportLimits& limits)
      : graph_(graph),
        limits_(limits),
        builder_(std::make_shared<SymContext>(), static_cast<GraphLevel>(graph.level())) {}

  absl::StatusOr<std::shared_ptr<const Graph>> Import() {
    using Step = absl::Status (Importer::*)();
    for (Step step : {&Importer::Level, &Importer::Tables, &Importer::Inputs, &Importer::Constants, &Importer::Nodes,
                      &Importer::Outputs, &Importer::JointCounts}) {
      absl::Status status = (this->*step)();
      if (!status.ok()) return status;
    }
    return builder_.Build();
  }

 private:
  absl::Status Level() {
    switch (graph_.level()) {
      case v1::Graph::JOINT:
      case v1::Graph::INFERENCE:
        return absl::OkStatus();
      case v1::Graph::TORCH:
        return Unsupported("graph.level", "torch-level graphs are not compiled yet");
      default:
        return Invalid("graph.level", absl::StrCat("unknown level ", static_cast<int>(graph_.level())));
    }
  }

  absl::Status Tables() {
    absl::StatusOr<std::vector<Sym>> exprs = ImportSyms(graph_.syms(), "graph.syms", limits_, builder_);
    if (!exprs.ok()) return exprs.status();
    exprs_ = *std::move(exprs);
    absl::Status status = CheckLimit("graph.types", graph_.types_size(), limits_.max_types);
    if (status.ok()) status = CheckLimit("graph.ops", graph_.ops_size(), limits_.max_ops);
    if (status.ok()) status = CheckLimit("graph.inputs", graph_.inputs_size(), limits_.max_inputs);
    if (status.ok()) status = CheckLimit("graph.nodes", graph_.nodes_size(), limits_.max_nodes);
    if (!status.ok()) return status;
    for (int i = 0; i < graph_.types_size(); ++i) {
      absl::StatusOr<TensorType> type =
          ImportType(graph_.types(i), At("graph.types", i), limits_, exprs_, builder_.syms());
      if (!type.ok()) return type.status();
      types_.push_back(*std::move(type));
    }
    for (int i = 0; i < graph_.ops_size(); ++i) {
      absl::StatusOr<ImportedOp> op = ImportOp(graph_.ops(i), At("graph.ops", i), limits_);
      if (!op.ok()) return op.status();
      ops_.push_back(*std::move(op));
    }
    return absl::OkStatus();
  }

  absl::Status Inputs() {
    for (int i = 0; i < graph_.inputs_size(); ++i) {
      const std::string path = At("graph.inputs", i);
      const v1::Input& input = graph_.inputs(i);
      if (input.kind_case() == v1::Input::kType) {
        if (input.type() >= types_.size())
          return Invalid(path + ".type", absl::StrCat("there is no type ", input.type()));
        const TensorType& type = types_[input.type()];
        input_of_value_[builder_.AddInput(type)] = static_cast<uint32_t>(i);
        for (Sym s : type.sizes) Bind(s);
      } else if (input.kind_case() == v1::Input::kSym) {
        if (input.sym() >= exprs_.size())
          return Invalid(path + ".sym", absl::StrCat("there is no expression ", input.sym()));
        if (!builder_.syms().AsVar(exprs_[input.sym()])) return Invalid(path + ".sym", "is not a symbol");
        builder_.AddSymInput(exprs_[input.sym()]);
        Bind(exprs_[input.sym()]);
      } else {
        return Invalid(path, "neither a tensor nor a size");
      }
    }
    for (int i = 0; i < graph_.inputs_size(); ++i) {
      if (graph_.inputs(i).kind_case() != v1::Input::kType) continue;
      absl::Status status = CheckBound(types_[graph_.inputs(i).type()], At("graph.inputs", i));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  void Bind(Sym s) {
    if (std::optional<Var> var = builder_.syms().AsVar(s)) bound_.insert(*var);
  }

  // Every size that the graph uses must be told by an input: as a size input, or as a dim of a tensor input.
  absl::Status CheckBound(Sym s, const std::string& path) {
    if (!checked_.insert(s).second) return absl::OkStatus();
    for (Var v : builder_.syms().Variables(s)) {
      if (!bound_.contains(v)) return Invalid(path, absl::StrCat("symbol ", v.index, " is bound by no input"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBound(const TensorType& type, const std::string& path) {
    for (const std::vector<Sym>* list : {&type.sizes, &type.strides}) {
      for (Sym s : *list) {
        absl::Status status = CheckBound(s, path);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBound(std::span<const Arg> args, const std::string& path) {
    for (const Arg& arg : args) {
      absl::Status status;
      if (const auto* s = std::get_if<Sym>(&arg.v)) status = CheckBound(*s, path);
      if (const ArgList* list = arg.list()) status = CheckBound(*list, path);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Constants() {
    int64_t total = 0;
    for (int i = 0; i < graph_.constants_size(); ++i) {
      const std::string path = At("graph.constants", i);
      const v1::Graph::Constant& constant = graph_.constants(i);
      if (constant.type() >= types_.size())
        return Invalid(path + ".type", absl::StrCat("there is no type ", constant.type()));
      const TensorType& type = types_[constant.type()];
      __int128 bytes = ByteSize(type.dtype);
      for (Sym s : type.sizes) {
        std::optional<int64_t> size = builder_.syms().AsConst(s);
        if (!size) return Invalid(path + ".type", "a constant has fixed sizes");
        bytes = std::min(bytes, __int128{1} << 64) * *size;
      }
      if (bytes != static_cast<__int128>(constant.data().size())) {
        return Invalid(path + ".data", absl::StrCat(constant.data().size(), " bytes are not what the type takes"));
      }
      total += static_cast<int64_t>(constant.data().size());
      absl::Status status = CheckLimit("graph.constants (bytes)", total, limits_.max_constant_bytes);
      if (!status.ok()) return status;
      builder_.AddConstant(type, constant.data());
    }
    return absl::OkStatus();
  }

  absl::Status Nodes() {
    for (int i = 0; i < graph_.nodes_size(); ++i) {
      absl::Status status = OneNode(i);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status OneNode(int i) {
    const v1::Node& node = graph_.nodes(i);
    const std::string path = At("graph.nodes", i);
    if (node.op() >= ops_.size()) return Invalid(path + ".op", absl::StrCat("there is no operator ", node.op()));
    const ImportedOp& op = ops_[node.op()];
    if (!v1::Node::Phase_IsValid(node.phase())) return Invalid(path + ".phase", "unknown phase");
    absl::StatusOr<std::vector<Arg>> args = ImportArgs(node, path, limits_, op, exprs_, current_, builder_.graph());
    if (!args.ok()) return args.status();
    absl::Status status = CheckBound(*args, path + ".args");
    if (!status.ok()) return status;
    absl::StatusOr<GraphBuilder::ResultTypes> results = Results(node, path, op);
    if (!results.ok()) return results.status();
    if (op.is_copy) return Update(node, path, *args);
    builder_.SetContext({static_cast<Phase>(node.phase()), node.recompute(), static_cast<NodeId>(i)});
    builder_.AddNode(op.name, op.def, *std::move(args), *results);
    if (!op.def || !builder_.status().ok()) return builder_.status();
    status = VerifyCall(Call(builder_.graph(), builder_.graph().nodes().back()));
    return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", std::string(status.message())));
  }

  absl::StatusOr<GraphBuilder::ResultTypes> Results(const v1::Node& node, const std::string& path,
                                                    const ImportedOp& op) {
    absl::Status status = CheckLimit(path + ".result_types", node.result_types_size(), limits_.max_results);
    if (!status.ok()) return status;
    // A list of results stands for any number of them.
    const std::vector<SchemaResult>& declared = op.schema.results;
    const bool list = declared.size() == 1 && declared[0].list;
    if (!list && node.result_types_size() != static_cast<int>(declared.size())) {
      return Invalid(path + ".result_types", absl::StrCat(node.result_types_size(), ", but ", op.name.name, " has ",
                                                          declared.size(), " results"));
    }
    GraphBuilder::ResultTypes results;
    for (int k = 0; k < node.result_types_size(); ++k) {
      const uint32_t index = node.result_types(k);
      if (index == kNoResult) {
        results.push_back(std::nullopt);
        continue;
      }
      const std::string at = At(path + ".result_types", k);
      if (index >= types_.size()) return Invalid(at, absl::StrCat("there is no type ", index));
      if (declared[list ? 0 : k].kind != ArgKind::kTensor) return Invalid(at, "the schema's result is no tensor");
      status = CheckBound(types_[index], at);
      if (!status.ok()) return status;
      results.push_back(types_[index]);
    }
    return results;
  }

  // aten.copy_(self, source, non_blocking) -> self
  absl::Status Update(const v1::Node& node, const std::string& path, const std::vector<Arg>& args) {
    const ValueId self = node.args(0).kind_case() == v1::Arg::kValue ? node.args(0).value() : kNoValue;
    const auto* source = std::get_if<ValueRef>(&args[1].v);
    auto input = input_of_value_.find(self);
    const bool tangent =
        graph_.level() == v1::Graph::JOINT && input != input_of_value_.end() && input->second >= graph_.num_primals();
    if (input == input_of_value_.end() || tangent || !source || node.phase() == v1::Node::BACKWARD) {
      return Unsupported(path, "copy_ into anything but an input, or in the backward");
    }
    const TensorType& to = *builder_.graph().type(self);
    const TensorType& from = *builder_.graph().type(source->id);
    if (to.dtype != from.dtype || to.device != from.device || to.sizes != from.sizes) {
      return Unsupported(path, "copy_ that converts or broadcasts");
    }
    const ValueId result = builder_.SkipValue();
    current_[self] = current_[result] = source->id;
    for (GraphUpdate& update : updates_) {
      if (update.input == input->second) {
        update.value = source->id;
        return absl::OkStatus();
      }
    }
    updates_.push_back({input->second, source->id});
    return absl::OkStatus();
  }

  // What a value id stands for at this point of the request's order.
  ValueId Current(ValueId v) const {
    auto it = current_.find(v);
    return it == current_.end() ? v : it->second;
  }

  absl::Status Outputs() {
    absl::Status status = CheckLimit("graph.outputs", graph_.outputs_size(), limits_.max_inputs);
    for (int i = 0; i < graph_.outputs_size() && status.ok(); ++i) {
      const std::string path = At("graph.outputs", i);
      const v1::Output& output = graph_.outputs(i);
      switch (output.kind_case()) {
        case v1::Output::kValue: {
          const ValueId v = Current(output.value());
          if (v >= builder_.graph().num_values() || !builder_.graph().type(v)) {
            return Invalid(path + ".value", absl::StrCat("there is no value ", output.value()));
          }
          builder_.AddOutput(v);
          break;
        }
        case v1::Output::kSym:
          if (output.sym() >= exprs_.size())
            return Invalid(path + ".sym", absl::StrCat("there is no expression ", output.sym()));
          status = CheckBound(exprs_[output.sym()], path + ".sym");
          builder_.AddSymOutput(exprs_[output.sym()]);
          break;
        case v1::Output::kNone:
          builder_.AddNoneOutput();
          break;
        case v1::Output::kArg:
        case v1::Output::KIND_NOT_SET:
          return Invalid(path, "an output of unknown kind");
      }
    }
    for (const GraphUpdate& update : updates_) builder_.AddUpdate(update.input, update.value);
    return status;
  }

  absl::Status JointCounts() {
    if (graph_.level() == v1::Graph::INFERENCE) {
      if (graph_.num_primals() || graph_.num_forward_outputs()) {
        return Invalid("graph.num_primals, graph.num_forward_outputs", "an inference graph has neither");
      }
      return absl::OkStatus();
    }
    if (graph_.num_primals() > static_cast<uint32_t>(graph_.inputs_size())) {
      return Invalid("graph.num_primals", absl::StrCat(graph_.num_primals(), " of ", graph_.inputs_size(), " inputs"));
    }
    if (static_cast<int64_t>(graph_.num_forward_outputs()) + graph_.num_primals() != graph_.outputs_size()) {
      return Invalid("graph.outputs", absl::StrCat(graph_.outputs_size(), ", not ", graph_.num_forward_outputs(),
                                                   " of the forward and one a primal (", graph_.num_primals(), ")"));
    }
    builder_.SetJointCounts(graph_.num_primals(), graph_.num_forward_outputs());
    return absl::OkStatus();
  }

  const v1::Graph& graph_;
  const ImportLimits& limits_;
  GraphBuilder builder_;
  std::vector<Sym> exprs_;
  std::vector<TensorType> types_;
  std::vector<ImportedOp> ops_;
  absl::flat_hash_set<Var> bound_;
  absl::flat_hash_set<Sym> checked_;
  absl::flat_hash_map<ValueId, uint32_t> input_of_value_;
  CurrentValues current_;
  std::vector<GraphUpdate> updates_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> ImportGraph(const v1::Graph& graph, const ImportLimits& limits) {
  return Importer(graph, limits).Import();
}

}  // namespace kiln
