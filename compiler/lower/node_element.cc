#include "compiler/lower/node_element.h"

#include <utility>
#include <vector>

#include "compiler/ops/lower_rules.h"
#include "compiler/ops/promote.h"

namespace kiln {

NodeElement::NodeElement(const Graph& graph, const Node& node, const Index& index, loop::ValueId mask, loop::Builder& b,
                         Read read)
    : call_(graph, node), index_(index), mask_(mask), b_(b), read_(std::move(read)), promoted_(PromotedDType(call_)) {}

loop::ValueId NodeElement::operator[](size_t i) {
  if (!call_.is_tensor(i)) return Number(i);
  return At(i, BroadcastIndex(call_.syms(), index_, call_.type(i).sizes), 0, loop::kNone);
}

loop::ValueId NodeElement::At(size_t i, std::span<const Sym> index, size_t k, loop::ValueId mask) {
  loop::ValueId value = ReadOperand(i, index, k, mask);
  if (call_.node().def->promote != Promote::kNone && IsOperand(*call_.node().def, i)) value = b_.Cast(promoted_, value);
  return b_.Cast(ComputeDType(b_.TypeOf(value)), value);
}

loop::ValueId NodeElement::Raw(size_t i, std::span<const Sym> index, size_t k) {
  const loop::ValueId value = ReadOperand(i, index, k, loop::kNone);
  return b_.Cast(ComputeDType(b_.TypeOf(value)), value);
}

loop::ValueId NodeElement::Number(size_t i) { return NumberOperand(*this, i, promoted_).id(); }

loop::ValueId NodeElement::ReadOperand(size_t i, std::span<const Sym> index, size_t k, loop::ValueId mask) {
  ValueId value = kNoValue;
  if (call_.is_tensor(i)) {
    value = call_.value(i);
  } else if (const std::vector<ValueId> items = call_.Values(i); k < items.size()) {
    value = items[k];
  }
  // The verifier has checked the argument's kind: not reached for a graph that it passed.
  if (value == kNoValue) return b_.Const(compute(), 0);
  if (mask == loop::kNone) {
    mask = mask_;
  } else if (mask_ != loop::kNone) {
    mask = b_.Apply(loop::Op::kAnd, mask_, mask);
  }
  return read_(value, Index(index.begin(), index.end()), mask);
}

}  // namespace kiln
