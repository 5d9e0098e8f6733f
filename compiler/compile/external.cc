#include "compiler/compile/external.h"

#include <string>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

class ArgWriter {
 public:
  ArgWriter(const SymContext& syms, const std::function<uint32_t(ValueId)>& tensor,
            const std::function<uint32_t(Sym)>& sym)
      : syms_(syms), tensor_(tensor), sym_(sym) {}

  void Write(const Arg& arg, v1::Arg& out) {
    std::visit([&](const auto& v) { Set(v, out); }, arg.v);
  }

 private:
  void Set(std::monostate, v1::Arg& out) { out.mutable_none(); }
  void Set(ValueRef ref, v1::Arg& out) { out.set_value(tensor_(ref.id)); }
  void Set(Sym s, v1::Arg& out) {
    if (const std::optional<int64_t> fixed = syms_.AsConst(s)) {
      out.set_i(*fixed);
    } else {
      out.set_sym(sym_(s));
    }
  }
  void Set(double f, v1::Arg& out) { out.set_f(f); }
  void Set(bool b, v1::Arg& out) { out.set_b(b); }
  void Set(const std::string& s, v1::Arg& out) { out.set_s(s); }
  void Set(DType dtype, v1::Arg& out) { out.set_dtype(static_cast<v1::DType>(dtype)); }
  void Set(DeviceType device, v1::Arg& out) { out.set_device(static_cast<v1::DeviceType>(device)); }
  void Set(Layout layout, v1::Arg& out) { out.set_layout(static_cast<uint32_t>(layout)); }
  void Set(MemoryFormat format, v1::Arg& out) { out.set_memory_format(static_cast<uint32_t>(format)); }
  void Set(const ArgList& list, v1::Arg& out) {
    for (const Arg& item : list) Write(item, *out.mutable_list()->add_items());
    out.mutable_list();
  }

  const SymContext& syms_;
  const std::function<uint32_t(ValueId)>& tensor_;
  const std::function<uint32_t(Sym)>& sym_;
};

}  // namespace

absl::Status DescribeCall(const Graph& graph, const Node& node, const std::function<uint32_t(ValueId)>& tensor,
                          const std::function<uint32_t(Sym)>& sym, v1::External& call) {
  const OpName& op = graph.op_name(node);
  if (!absl::StrContains(op.name, '.')) {
    return absl::UnimplementedError(absl::StrCat("node ", node.origin, ": ", op.name,
                                                 " has no meaning for these operands, and no overload to call"));
  }
  call.set_op(op.name);
  call.set_schema(op.schema);
  call.set_origin(node.origin);
  call.set_random(TraitsOf(Call(graph, node)).random);
  ArgWriter writer(graph.syms(), tensor, sym);
  for (const Arg& arg : node.args) writer.Write(arg, *call.add_args());
  return absl::OkStatus();
}

}  // namespace kiln
