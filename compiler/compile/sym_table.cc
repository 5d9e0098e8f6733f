#include "compiler/compile/sym_table.h"

namespace kiln {
namespace {

v1::SymExpr::Op ProtoOp(SymNode::Op op) {
  switch (op) {
    case SymNode::Op::kConst:
      return v1::SymExpr::CONST;
    case SymNode::Op::kVar:
      return v1::SymExpr::SYMBOL;
    case SymNode::Op::kAdd:
      return v1::SymExpr::ADD;
    case SymNode::Op::kMul:
      return v1::SymExpr::MUL;
    case SymNode::Op::kFloorDiv:
      return v1::SymExpr::FLOOR_DIV;
    case SymNode::Op::kMod:
      return v1::SymExpr::MOD;
    case SymNode::Op::kMin:
      return v1::SymExpr::MIN;
    case SymNode::Op::kMax:
      return v1::SymExpr::MAX;
  }
  return v1::SymExpr::OP_UNSPECIFIED;
}

}  // namespace

uint32_t SymTableWriter::operator()(Sym s) {
  if (auto it = index_of_.find(s); it != index_of_.end()) return it->second;
  const SymNode node = syms_.Node(s);
  v1::SymExpr expr;
  expr.set_op(ProtoOp(node.op));
  if (node.op == SymNode::Op::kConst) expr.set_value(node.value);
  if (node.op == SymNode::Op::kVar) {
    expr.set_value(node.var.index);
    while (table_.symbols_size() <= static_cast<int>(node.var.index)) {
      const SymRange range = syms_.Range({VarKind::kSize, static_cast<uint32_t>(table_.symbols_size())});
      v1::Symbol* symbol = table_.add_symbols();
      symbol->set_min(range.min);
      symbol->set_max(range.max);
    }
  }
  for (const Sym arg : node.args) expr.add_args((*this)(arg));
  const auto index = static_cast<uint32_t>(table_.exprs_size());
  *table_.add_exprs() = std::move(expr);
  index_of_.emplace(s, index);
  return index;
}

}  // namespace kiln
