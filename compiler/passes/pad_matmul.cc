#include "compiler/passes/pad_matmul.h"

#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/graph/rewriter.h"
#include "compiler/ops/handles.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

using Replacement = std::optional<std::vector<ValueId>>;

// Elements of 16 bits in 16 bytes.
constexpr int64_t kAligned = 8;
// Multiplications for each element of the operands and the result: below, copying them costs about what it gains.
constexpr int64_t kLeastIntensity = 128;
constexpr int64_t kLeastProduct = int64_t{1} << 28;

struct Matrix {
  ValueId value = kNoValue;
  int64_t rows = 0, columns = 0;
  bool by_columns = false;  // a column's elements are neighbours in memory
};

// Matrices that have been padded, by value and zeros: a gradient is the operand of two products.
using PaddedValues = absl::flat_hash_map<std::tuple<ValueId, int64_t, int64_t>, ValueId>;

class Padder {
 public:
  Padder(GraphBuilder& graph, const Call& call, PaddedValues& padded)
      : graph_(graph), b_(graph), call_(call), syms_(graph.syms()), padded_(padded) {}

  Replacement Pad() {
    const bool added = call_.node().def == &op::addmm();
    const std::optional<Matrix> a = Read(added ? 1 : 0), b = Read(added ? 2 : 1);
    if (!a || !b || !IsLarge(*a, *b)) return std::nullopt;
    const int64_t m = a->by_columns ? Missing(a->rows) : 0;
    const int64_t k = a->by_columns && !b->by_columns ? 0 : Missing(a->columns);
    const int64_t n = Missing(b->columns);  // the result's rows, too
    if (m == 0 && k == 0 && n == 0) return std::nullopt;
    if (added && n != 0 && call_.type(0).rank() != 1) return std::nullopt;
    std::vector<Arg> args(call_.node().args.begin(), call_.node().args.end());
    if (added && n != 0) args[0] = Arg{ValueRef{b_.constant_pad_nd(call_.value(0), std::vector<int64_t>{0, n}, 0)}};
    args[added ? 1 : 0] = Arg{ValueRef{Padded(*a, m, k)}};
    args[added ? 2 : 1] = Arg{ValueRef{Padded(*b, k, n)}};
    return std::vector<ValueId>{Cut(std::move(args), *a, *b, m, n)};
  }

 private:
  static int64_t Missing(int64_t length) { return (kAligned - length % kAligned) % kAligned; }

  std::optional<Matrix> Read(size_t arg) {
    const TensorType& type = call_.type(arg);
    if (!IsLowPrecisionFloat(type.dtype)) return std::nullopt;
    const std::optional<int64_t> rows = syms_.AsConst(type.sizes[0]), columns = syms_.AsConst(type.sizes[1]);
    if (!rows || !columns) return std::nullopt;
    const bool by_columns = syms_.IsConst(type.strides[0], 1) && !syms_.IsConst(type.strides[1], 1);
    return Matrix{call_.value(arg), *rows, *columns, by_columns};
  }

  static bool IsLarge(const Matrix& a, const Matrix& b) {
    // Lengths of tensors that exist: their products in double precision cannot overflow.
    const auto m = static_cast<double>(a.rows), k = static_cast<double>(a.columns), n = static_cast<double>(b.columns);
    return m * k * n >= kLeastProduct && m * k * n >= kLeastIntensity * (m * k + k * n + m * n);
  }

  // With so many rows and columns of zeros more, along the same memory.
  ValueId Padded(const Matrix& matrix, int64_t rows, int64_t columns) {
    if (rows == 0 && columns == 0) return matrix.value;
    if (!matrix.by_columns) return PaddedRows(matrix.value, rows, columns);
    return b_.transpose(PaddedRows(Turned(matrix.value), columns, rows), 0, 1);
  }

  ValueId PaddedRows(ValueId value, int64_t rows, int64_t columns) {
    const auto [it, fresh] = padded_.try_emplace({value, rows, columns}, kNoValue);
    if (fresh) it->second = b_.constant_pad_nd(value, std::vector<int64_t>{0, columns, 0, rows}, 0);
    return it->second;
  }

  // What a matrix by columns is the transpose of.
  ValueId Turned(ValueId value) {
    const NodeId producer = graph_.graph().producer(value);
    if (producer != kNoNode) {
      const Node& node = graph_.graph().nodes()[producer];
      const bool turns = node.def == &op::t() || node.def == &op::transpose() || node.def == &op::permute();
      const auto* operand = turns ? std::get_if<ValueRef>(&node.args[0].v) : nullptr;
      if (operand != nullptr && IsTranspose(b_.type(operand->id), b_.type(value))) return operand->id;
    }
    return b_.transpose(value, 0, 1);
  }

  static bool IsTranspose(const TensorType& a, const TensorType& b) {
    return a.rank() == 2 && a.sizes[0] == b.sizes[1] && a.sizes[1] == b.sizes[0] && a.strides[0] == b.strides[1] &&
           a.strides[1] == b.strides[0];
  }

  // The product of the padded operands, in the shape that was asked for.
  ValueId Cut(std::vector<Arg> args, const Matrix& a, const Matrix& b, int64_t m, int64_t n) {
    const TensorType& wanted = call_.result();
    TensorType type = wanted;
    type.sizes = {syms_.Const(a.rows + m), syms_.Const(b.columns + n)};
    type.strides = {type.sizes[1], syms_.Const(1)};
    const OpName op = call_.graph().op_name(call_.node());
    ValueId product = graph_.AddNode(op, call_.node().def, std::move(args), {type});
    if (m != 0) product = b_.slice(product, 0, 0, a.rows, 1);
    if (n != 0) product = b_.slice(product, 1, 0, b.columns, 1);
    if (b_.type(product).strides == wanted.strides) return product;
    const OpDef& clone = op::clone();
    return graph_.AddNode({std::string(clone.name()), std::string(clone.schema)}, &clone, {{ValueRef{product}}, {}},
                          {wanted});
  }

  GraphBuilder& graph_;
  OpBuilder b_;
  const Call& call_;
  SymContext& syms_;
  PaddedValues& padded_;
};

absl::StatusOr<Replacement> PadNode(GraphBuilder& builder, const Node& node, PaddedValues& padded) {
  if (node.def != &op::mm() && node.def != &op::addmm()) return Replacement();
  const Call call(builder.graph(), node);
  if (call.result().device != DeviceType::kCuda) return Replacement();
  return Padder(builder, call, padded).Pad();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Graph>> PadMatmuls(std::shared_ptr<const Graph> graph) {
  if (graph->device() != DeviceType::kCuda) return graph;
  PaddedValues padded;
  return RewriteGraph(std::move(graph),
                      [&](GraphBuilder& builder, const Node& node) { return PadNode(builder, node, padded); });
}

}  // namespace kiln
