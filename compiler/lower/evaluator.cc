#include "compiler/lower/evaluator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lower/node_element.h"

namespace kiln {
namespace {

// Far above what a group's size and its chains of views and creations can reach.
constexpr int kMaxDepth = 2000;

}  // namespace

Evaluator::Evaluator(const Graph& graph, const Aliases& aliases, loop::Builder& b,
                     const absl::flat_hash_set<NodeId>& local)
    : graph_(graph), syms_(graph.syms()), aliases_(aliases), b_(b), local_(local) {
  OpenScope();
}

Evaluator::Key Evaluator::KeyOf(ValueId value, const Index& index, loop::ValueId mask) {
  return {value, Linearize(syms_, index, graph_.type(value)->sizes), mask};
}

std::optional<loop::ValueId> Evaluator::Find(const Key& key) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto it = scope->find(key); it != scope->end()) return it->second;
  }
  return std::nullopt;
}

bool Evaluator::IsComputedHere(ValueId root) const {
  const NodeId p = graph_.producer(root);
  return p != kNoNode && (local_.contains(p) || aliases_.kind(p) == NodeKind::kInlined);
}

loop::ValueId Evaluator::At(ValueId value, const Index& index, loop::ValueId mask) {
  Index at = index;
  while (IsComputedHere(aliases_.root(value)) && aliases_.is_view(value)) {
    const Node& node = graph_.nodes()[graph_.producer(value)];
    const Call call(graph_, node);
    at = node.def->view(call, value - node.first_result, at);
    value = call.value(0);
  }
  if (!IsComputedHere(aliases_.root(value))) return Load(value, at, mask);
  if (const std::optional<loop::ValueId> known = Find(KeyOf(value, at, mask))) return *known;
  if (mask != loop::kNone) {
    // What is known at this point without the mask needs no second computation, and a reduction has none.
    const std::optional<loop::ValueId> whole = Find(KeyOf(value, at, loop::kNone));
    if (whole) return b_.Select(mask, *whole, b_.ConstBits(graph_.type(value)->dtype, 0));
  }
  const NodeId p = graph_.producer(value);
  return Compute(p, value - graph_.nodes()[p].first_result, at, mask);
}

loop::ValueId Evaluator::Compute(NodeId n, size_t result, const Index& index, loop::ValueId mask) {
  const Node& node = graph_.nodes()[n];
  const DType type = graph_.type(node.first_result + result)->dtype;
  if (node.def->lower == nullptr || depth_ >= kMaxDepth) {
    Fail(absl::InternalError(
        absl::StrCat("node ", n, " (", graph_.op_name(node).name, ") is read where it is not computed")));
    return b_.Const(type, 0);
  }
  ++depth_;
  const loop::Builder::OriginScope origin(b_, n);
  NodeElement element(graph_, node, index, mask, b_,
                      [this](ValueId value, const Index& at, loop::ValueId m) { return At(value, at, m); });
  Results results = node.def->lower(element);
  --depth_;
  if (results.size() != node.num_results) {
    Fail(absl::InternalError(absl::StrCat("record ", graph_.op_name(node).name, " computes ", results.size(),
                                          " results, not ", node.num_results)));
    return b_.Const(type, 0);
  }
  for (uint32_t r = 0; r < node.num_results; ++r) {
    const ValueId v = node.first_result + r;
    if (graph_.type(v) == nullptr) continue;
    results[r] = b_.Cast(graph_.type(v)->dtype, results[r]);
    if (mask != loop::kNone) results[r] = b_.Select(mask, results[r], b_.ConstBits(graph_.type(v)->dtype, 0));
    scopes_.back()[KeyOf(v, index, mask)] = results[r];
  }
  return results[result];
}

loop::ValueId Evaluator::Load(ValueId value, const Index& index, loop::ValueId mask) {
  const Sym flat = syms_.Add(aliases_.offset(value), Dot(syms_, index, graph_.type(value)->strides));
  const ValueId root = aliases_.root(value);
  if (mask == loop::kNone) {
    if (!NamesData(syms_, flat)) loads_.push_back({root, flat});
    return LoadFlat(root, flat);
  }
  return b_.Load(BufferOf(root, loop::Access::kRead), flat, mask);
}

void Evaluator::Share(const Reuse& pair) { buffer_of_[pair.result] = BufferOf(pair.dying, loop::Access::kReadWrite); }

void Evaluator::Hold(ValueId root, Sym flat) { scopes_.back()[{root, flat, loop::kNone}] = LoadFlat(root, flat); }

loop::ValueId Evaluator::LoadFlat(ValueId root, Sym flat) {
  if (const std::optional<loop::ValueId> held = Find({root, flat, loop::kNone})) return *held;
  if (const auto it = staged_.find({root, flat}); it != staged_.end())
    return b_.Load(it->second.first, it->second.second);
  return b_.Load(BufferOf(root, loop::Access::kRead), flat);
}

void Evaluator::Stage(ValueId root, Sym flat, loop::BufferId buffer, Sym at) { staged_[{root, flat}] = {buffer, at}; }

void Evaluator::Define(ValueId value, const Index& index, loop::ValueId element) {
  scopes_.back()[KeyOf(value, index, loop::kNone)] = element;
}

void Evaluator::Store(ValueId value, const Index& index, loop::ValueId element, bool streaming) {
  b_.Store(BufferOf(value, loop::Access::kWrite), Dot(syms_, index, graph_.type(value)->strides), element, loop::kNone,
           streaming);
}

std::vector<loop::ValueId> Evaluator::Apply(NodeId n, const OrderSpec& spec, const Index& point,
                                            std::span<const loop::ValueId> carry) {
  const Node& node = graph_.nodes()[n];
  NodeElement element(graph_, node, point, loop::kNone, b_,
                      [this](ValueId value, const Index& at, loop::ValueId m) { return At(value, at, m); });
  const ValueId first = node.first_result;
  const auto stored = [&](std::span<const Sym> index) {
    const TensorType& type = *graph_.type(first);
    const Sym flat = Dot(syms_, index, type.strides);
    return b_.Cast(ComputeDType(type.dtype), b_.Load(BufferOf(first, loop::Access::kReadWrite), flat));
  };
  Updated updated = spec.update({element, carry, stored});
  for (uint32_t r = 0; r < node.num_results; ++r) {
    const TensorType* type = graph_.type(node.first_result + r);
    if (type == nullptr) continue;
    b_.Store(BufferOf(node.first_result + r, loop::Access::kReadWrite), Dot(syms_, updated.index, type->strides),
             b_.Cast(type->dtype, updated.results[r]), updated.mask);
  }
  return std::move(updated.carry);
}

loop::BufferId Evaluator::AddPartial(uint32_t partial, DType dtype, Sym elements, loop::Access access) {
  buffers_.push_back({.partial = partial});
  b_.kernel().buffers.push_back({.dtype = dtype, .size = elements, .access = access});
  return static_cast<loop::BufferId>(b_.kernel().buffers.size() - 1);
}

loop::BufferId Evaluator::BufferOf(ValueId root, loop::Access access) {
  const auto [it, added] = buffer_of_.try_emplace(root, static_cast<loop::BufferId>(b_.kernel().buffers.size()));
  if (added) {
    const TensorType& type = *graph_.type(root);
    buffers_.push_back({.root = root});
    b_.kernel().buffers.push_back({.dtype = type.dtype, .size = StorageSize(syms_, type), .access = access});
  } else if (b_.kernel().buffers[it->second].access != access) {
    b_.kernel().buffers[it->second].access = loop::Access::kReadWrite;
  }
  return it->second;
}

}  // namespace kiln
