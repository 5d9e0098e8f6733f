// The updates of a scan or a scatter.
#include "compiler/lower/group_lowering.h"

namespace kiln {

// At the current point of the dims that are gone along in any order.
void GroupLowering::RunOrdered() {
  const NodeId n = group_.nodes[0].node;
  const loop::Builder::OriginScope origin(*b_, n);
  const Node& node = graph_.nodes()[n];
  const OrderSpec spec = node.def->order(Call(graph_, node));
  if (probing()) {
    e_->Apply(n, spec, at_, spec.init ? spec.init(*b_) : Values());
    return;
  }
  if (schedule_.fill) FillResults(n, spec);
  // What is carried along a column stays in scratch: the vector axis goes over the columns of a block.
  Values carry = spec.init ? spec.init(*b_) : Values();
  std::vector<loop::BufferId> scratch;
  for (const loop::ValueId value : carry) {
    scratch.push_back(AddScratch(b_->TypeOf(value), VectorIsOuter() ? schedule_.block : 1));
    b_->Store(scratch.back(), vector_axis_, value);
  }
  const int depth = open_;
  OpenInner(std::span(schedule_.dims).subspan(NumOuter()));
  for (size_t k = 0; k < carry.size(); ++k) carry[k] = b_->Load(scratch[k], vector_axis_);
  carry = e_->Apply(n, spec, at_, carry);
  for (size_t k = 0; k < carry.size(); ++k) b_->Store(scratch[k], vector_axis_, carry[k]);
  CloseLoops(depth);
}

// What the results hold before, at all elements that updates of the current point may reach.
void GroupLowering::FillResults(NodeId n, const OrderSpec& spec) {
  const Node& node = graph_.nodes()[n];
  const Index& sizes = graph_.type(node.first_result)->sizes;
  Index index(sizes.size());
  std::vector<bool> open(sizes.size(), true);
  size_t next = 0;
  for (size_t d = 0; d < spec.sizes.size(); ++d) {
    if (group_.reduced[d]) continue;
    const int64_t to = spec.result_dims[next++];
    index[to] = at_[d];
    open[to] = false;
  }
  const int depth = open_;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!open[d]) continue;
    index[d] = syms_.IsConst(sizes[d], 1) ? syms_.Const(0) : Open(loop::AxisKind::kSerial, sizes[d], 1);
  }
  for (uint32_t r = 0; r < node.num_results; ++r) {
    const ValueId v = node.first_result + r;
    if (graph_.type(v) != nullptr) e_->Store(v, index, e_->At(v, index));
  }
  CloseLoops(depth);
}

}  // namespace kiln
