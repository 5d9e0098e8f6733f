#include "compiler/graph/verify.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const NodeCheck& check) : graph_(graph), check_(check) {}

  absl::Status Verify() {
    defined_.resize(graph_.num_values());
    Inputs();
    Constants();
    for (NodeId i = 0; i < graph_.nodes().size() && status_.ok(); ++i) OneNode(i);
    Outputs();
    for (ValueId v = 0; v < graph_.num_values() && status_.ok(); ++v) {
      if (graph_.type(v) && !defined_[v]) Fail(absl::StrCat("%", v, " has a type but no definition"));
    }
    return status_;
  }

 private:
  void Inputs() {
    uint32_t position = 0;
    for (const GraphInput& input : graph_.inputs()) {
      const std::string what = absl::StrCat("input ", position++);
      if (input.value != kNoValue) {
        Define(input.value, kNoNode, what);
      } else if (!graph_.syms().AsVar(input.sym)) {
        Fail(what + " binds no size variable");
      } else {
        CheckSym(input.sym, what);
      }
    }
  }

  void Constants() {
    for (const GraphConstant& constant : graph_.constants()) {
      const std::string what = absl::StrCat("constant %", constant.value);
      Define(constant.value, kNoNode, what);
      if (!status_.ok()) return;
      const TensorType& type = *graph_.type(constant.value);
      Sym bytes = graph_.syms().Const(ByteSize(type.dtype));
      for (Sym s : type.sizes) bytes = graph_.syms().Mul(bytes, s);
      if (!graph_.syms().IsConst(bytes, static_cast<int64_t>(constant.data.size()))) {
        Fail(absl::StrCat(what, " has ", constant.data.size(), " bytes"));
      }
    }
  }

  void OneNode(NodeId id) {
    const Node& node = graph_.nodes()[id];
    if (node.op >= graph_.ops().size()) return Fail(absl::StrCat("node ", id, " has no operator"));
    const std::string what = absl::StrCat("node ", id, " (", graph_.op_name(node).name, ")");
    Args(node.args, what, 0);
    if (node.num_results > 0 && node.first_result < next_) Fail(what + " has results that are numbered too low");
    for (uint32_t i = 0; i < node.num_results && status_.ok(); ++i) {
      const ValueId v = node.first_result + i;
      next_ = v + 1;
      if (v >= graph_.num_values()) return Fail(what + " has a result beyond the values");
      if (graph_.type(v)) {
        Define(v, id, what);
      } else if (graph_.producer(v) != id) {
        Fail(what + " does not produce its result");
      }
    }
    if (!status_.ok() || !check_) return;
    absl::Status status = check_(graph_, node);
    if (!status.ok()) Fail(absl::StrCat(what, ": ", std::string(status.message())));
  }

  void Args(std::span<const Arg> args, const std::string& what, int depth) {
    for (const Arg& arg : args) {
      if (const auto* ref = std::get_if<ValueRef>(&arg.v)) Use(ref->id, what);
      if (const auto* sym = std::get_if<Sym>(&arg.v)) CheckSym(*sym, what);
      if (const ArgList* list = arg.list()) {
        if (depth > 0) return Fail(what + " has a list inside a list");
        Args(*list, what, depth + 1);
      }
    }
  }

  void Outputs() {
    for (const GraphOutput& output : graph_.outputs()) {
      if (output.kind == GraphOutput::Kind::kValue) Use(output.value, "an output");
      if (output.kind == GraphOutput::Kind::kSym) CheckSym(output.sym, "an output");
    }
    absl::flat_hash_set<uint32_t> updated;
    for (const GraphUpdate& update : graph_.updates()) {
      const std::string what = absl::StrCat("the update of input ", update.input);
      if (update.input >= graph_.inputs().size() || graph_.inputs()[update.input].value == kNoValue) {
        return Fail(what + " is of no tensor");
      }
      if (!updated.insert(update.input).second) Fail(what + " is there twice");
      Use(update.value, what);
    }
    if (graph_.num_primals() > graph_.inputs().size()) Fail("there are more primals than inputs");
    if (graph_.num_forward_outputs() > graph_.outputs().size()) Fail("there are more forward outputs than outputs");
  }

  void Define(ValueId v, NodeId producer, const std::string& what) {
    if (!status_.ok()) return;
    if (v >= graph_.num_values() || !graph_.type(v)) return Fail(what + " has no type");
    if (defined_[v]) return Fail(absl::StrCat(what, " defines %", v, " again"));
    if (graph_.producer(v) != producer) return Fail(absl::StrCat(what, " is not the producer of %", v));
    defined_[v] = true;
    const TensorType* type = graph_.type(v);
    if (!types_.insert(type).second) return;
    if (type->sizes.size() != type->strides.size())
      return Fail(what + " has a type whose sizes and strides differ in number");
    for (Sym s : type->sizes) CheckSym(s, what);
    for (Sym s : type->strides) CheckSym(s, what);
  }

  void Use(ValueId v, const std::string& what) {
    if (v >= graph_.num_values() || !defined_[v])
      Fail(absl::StrCat(what, " reads %", v, ", which is not defined before it"));
  }

  void CheckSym(Sym s, const std::string& what) {
    if (!syms_.insert(s).second) return;
    if (s.id >= graph_.syms().size()) return Fail(what + " has a size of another context");
    for (Var v : graph_.syms().Variables(s)) {
      if (v.kind != VarKind::kSize || v.index >= graph_.num_sizes()) {
        Fail(absl::StrCat(what, " mentions ", graph_.syms().ToString(s), ", which is not over the graph's sizes"));
      }
    }
  }

  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InternalError("graph verifier: " + message);
  }

  const Graph& graph_;
  const NodeCheck& check_;
  std::vector<bool> defined_;
  ValueId next_ = 0;
  absl::flat_hash_set<const TensorType*> types_;
  absl::flat_hash_set<Sym> syms_;
  absl::Status status_;
};

}  // namespace

absl::Status VerifyGraph(const Graph& graph, const NodeCheck& check) { return Verifier(graph, check).Verify(); }

}  // namespace kiln
