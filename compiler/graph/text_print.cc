#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/graph/text.h"
#include "compiler/graph/text_names.h"

namespace kiln {
namespace {

constexpr uint64_t kQuietNan = 0x7ff8000000000000;

std::string Quoted(const std::string& s) { return absl::StrCat("\"", absl::CHexEscape(s), "\""); }

// "1.0", "1e-05", "inf": the shortest that reads back to the same bits, and never like an integer.
std::string Float(double value) {
  if (value != value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    return bits == kQuietNan ? "nan" : absl::StrFormat("nan:%016x", bits);
  }
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {
    for (const OpName& op : graph.ops()) {
      std::string name = IsPlainOpName(op.name) ? op.name : Quoted(op.name);
      const uint32_t earlier = seen_[op.name]++;
      if (earlier > 0) absl::StrAppend(&name, "$", earlier);
      op_names_.push_back(std::move(name));
    }
  }

  // `first_node`: the number of the first node's line.
  std::string Print(size_t* first_node = nullptr) {
    Header();
    Values();
    if (first_node != nullptr) *first_node = static_cast<size_t>(std::count(out_.begin(), out_.end(), '\n'));
    for (const Node& node : graph_.nodes()) {
      NodeLine(node);
      out_ += '\n';
    }
    for (const GraphUpdate& u : graph_.updates()) absl::StrAppend(&out_, "update ", u.input, " %", u.value, "\n");
    out_ += "return";
    const char* separator = " ";
    for (const GraphOutput& output : graph_.outputs()) {
      out_ += separator;
      separator = ", ";
      Output(output);
    }
    out_ += '\n';
    return std::move(out_);
  }

  std::string PrintOne(const Node& node) {
    NodeLine(node);
    return std::move(out_);
  }

 private:
  void Header() {
    absl::StrAppend(&out_, "graph ", std::string(LevelName(graph_.level())));
    if (graph_.num_primals() || graph_.num_forward_outputs()) {
      absl::StrAppend(&out_, " primals=", graph_.num_primals(), " forward_outputs=", graph_.num_forward_outputs());
    }
    out_ += '\n';
    for (uint32_t i = 0; i < graph_.num_sizes(); ++i) {
      const SymRange range = graph_.syms().Range({VarKind::kSize, i});
      absl::StrAppend(&out_, "size s", i, " [", Bound(range.min), ", ", Bound(range.max), "]");
      if (graph_.size_class(i)) absl::StrAppend(&out_, " class=", graph_.size_class(i));
      out_ += '\n';
    }
    for (size_t i = 0; i < op_names_.size(); ++i) {
      const std::string& schema = graph_.ops()[i].schema;
      absl::StrAppend(&out_, "op ", op_names_[i], schema.empty() ? "" : " ", schema.empty() ? "" : Quoted(schema),
                      "\n");
    }
  }

  static std::string Bound(int64_t v) {
    if (v == std::numeric_limits<int64_t>::min()) return "-inf";
    return v == kSymUnbounded ? "inf" : absl::StrCat(v);
  }

  void Values() {
    for (const GraphInput& input : graph_.inputs()) {
      if (input.value == kNoValue) {
        absl::StrAppend(&out_, "input ", graph_.syms().ToString(input.sym), "\n");
      } else {
        absl::StrAppend(&out_, "%", input.value, " = input ", Type(graph_.type(input.value)), "\n");
      }
    }
    for (const GraphConstant& constant : graph_.constants()) {
      absl::StrAppend(&out_, "%", constant.value, " = constant ", Type(graph_.type(constant.value)), " ",
                      absl::BytesToHexString(constant.data), "\n");
    }
  }

  void NodeLine(const Node& node) {
    for (uint32_t i = 0; i < node.num_results; ++i) absl::StrAppend(&out_, i ? ", %" : "%", node.first_result + i);
    absl::StrAppend(&out_, node.num_results ? " = " : "", op_names_[node.op], "(");
    Args(node.args);
    out_ += ") :";
    for (uint32_t i = 0; i < node.num_results; ++i) {
      absl::StrAppend(&out_, i ? ", " : " ", Type(graph_.type(node.first_result + i)));
    }
    if (node.phase == Phase::kBackward) out_ += " phase=backward";
    if (node.recompute) absl::StrAppend(&out_, " recompute=", node.recompute);
    if (node.origin != kNoNode) absl::StrAppend(&out_, " origin=", node.origin);
  }

  std::string Type(const TensorType* type) { return type ? PrintType(graph_.syms(), *type) : "none"; }

  void Output(const GraphOutput& output) {
    switch (output.kind) {
      case GraphOutput::Kind::kValue:
        absl::StrAppend(&out_, "%", output.value);
        break;
      case GraphOutput::Kind::kSym:
        out_ += graph_.syms().ToString(output.sym);
        break;
      case GraphOutput::Kind::kNone:
        out_ += "none";
    }
  }

  void Args(std::span<const kiln::Arg> args) {
    const char* separator = "";
    for (const kiln::Arg& arg : args) {
      out_ += separator;
      separator = ", ";
      std::visit([this](const auto& v) { Arg(v); }, arg.v);
    }
  }

  void Arg(std::monostate) { out_ += "none"; }
  void Arg(ValueRef v) { absl::StrAppend(&out_, "%", v.id); }
  void Arg(Sym v) { out_ += graph_.syms().ToString(v); }
  void Arg(double v) { out_ += Float(v); }
  void Arg(bool v) { out_ += v ? "true" : "false"; }
  void Arg(const std::string& v) { out_ += Quoted(v); }
  void Arg(DType v) { absl::StrAppend(&out_, "dtype:", std::string(Name(v))); }
  void Arg(DeviceType v) { absl::StrAppend(&out_, "device:", std::string(Name(v))); }
  void Arg(Layout v) { absl::StrAppend(&out_, "layout:", static_cast<int>(v)); }
  void Arg(MemoryFormat v) { absl::StrAppend(&out_, "format:", std::string(MemoryFormatName(v))); }
  void Arg(const ArgList& v) {
    out_ += '[';
    Args(v);
    out_ += ']';
  }

  const Graph& graph_;
  absl::flat_hash_map<std::string, uint32_t> seen_;
  std::vector<std::string> op_names_;
  std::string out_;
};

}  // namespace

std::string PrintType(SymContext& syms, const TensorType& type) {
  auto list = [&](const std::vector<Sym>& items) {
    std::string out;
    for (size_t i = 0; i < items.size(); ++i) absl::StrAppend(&out, i ? ", " : "", syms.ToString(items[i]));
    return out;
  };
  std::string out = absl::StrCat(std::string(Name(type.dtype)), "[", list(type.sizes), "]");
  if (type.strides != RowMajorStrides(syms, type.sizes)) absl::StrAppend(&out, "{", list(type.strides), "}");
  if (type.device != DeviceType::kCpu) absl::StrAppend(&out, "@", std::string(Name(type.device)));
  return out;
}

std::string PrintGraph(const Graph& graph) { return Printer(graph).Print(); }

std::string PrintGraph(const Graph& graph, std::vector<NodeId>& lines) {
  size_t first = 0;
  std::string text = Printer(graph).Print(&first);
  lines.assign(first + graph.nodes().size() + graph.updates().size() + 1, kNoNode);
  std::iota(lines.begin() + first, lines.begin() + first + graph.nodes().size(), NodeId{0});
  return text;
}

std::string PrintNode(const Graph& graph, const Node& node) { return Printer(graph).PrintOne(node); }

}  // namespace kiln
