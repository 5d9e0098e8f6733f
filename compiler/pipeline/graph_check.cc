#include "compiler/pipeline/graph_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/interp.h"
#include "compiler/ops/eval.h"
#include "compiler/ops/registry.h"

namespace kiln {
namespace {

// Small, and different for neighbours, so that a mix-up of two sizes is seen.
int64_t SizeFor(const Graph& graph, Var var) {
  const SymRange range = graph.syms().Range(var);
  return std::clamp<int64_t>(3 + var.index % 5, std::max<int64_t>(range.min, 0), std::max<int64_t>(range.max, 0));
}

std::optional<int64_t> NumElements(const Graph& graph, const TensorType& type) {
  __int128 count = 1;
  for (Sym s : type.sizes) {
    absl::StatusOr<int64_t> size = graph.syms().Eval(s, [&](Var v) { return SizeFor(graph, v); });
    if (!size.ok() || *size < 0) return std::nullopt;
    count *= *size;
    if (count > INT64_MAX) return std::nullopt;
  }
  return static_cast<int64_t>(count);
}

// Whether every node has a meaning and all values together are small: elements read and written stand for the work.
bool IsCheap(const Graph& graph, int64_t max_operations) {
  int64_t work = 0;
  auto add = [&](ValueId v) {
    const TensorType* type = graph.type(v);
    if (!type || work > max_operations) return;
    std::optional<int64_t> count = NumElements(graph, *type);
    work = count && *count <= max_operations ? work + *count : max_operations + 1;
  };
  for (const Node& node : graph.nodes()) {
    if (!HasMeaning(Call(graph, node))) return false;
    ForEachValue(node.args, add);
    for (uint32_t r = 0; r < node.num_results; ++r) add(node.first_result + r);
  }
  return work <= max_operations;
}

// Bit patterns of small numbers: 1, -0.5, 2, 0.25, -1.5, 0.
uint64_t FloatBits(DType dtype, uint64_t i) {
  static constexpr uint64_t kBits[4][6] = {
      {0x3c00, 0xb800, 0x4000, 0x3400, 0xbe00, 0},                                      // f16
      {0x3f80, 0xbf00, 0x4000, 0x3e80, 0xbfc0, 0},                                      // bf16
      {0x3f800000, 0xbf000000, 0x40000000, 0x3e800000, 0xbfc00000, 0},                  // f32
      {0x3ff0000000000000, 0xbfe0000000000000, 0x4000000000000000, 0x3fd0000000000000,  // f64
       0xbff8000000000000, 0},
  };
  switch (dtype) {
    case DType::kFloat16:
      return kBits[0][i % 6];
    case DType::kBFloat16:
      return kBits[1][i % 6];
    case DType::kFloat32:
      return kBits[2][i % 6];
    case DType::kFloat64:
      return kBits[3][i % 6];
    default:
      return 0;
  }
}

// Integers are 0 and 1, so that they serve as indices.
HostArray DrawArray(const TensorType& type, const std::vector<int64_t>& sizes, uint64_t& state) {
  HostArray array{type.dtype, sizes, {}};
  int64_t count = 1;
  for (int64_t s : sizes) count *= s;
  const int bytes = ByteSize(type.dtype);
  const bool integer = IsInt(type.dtype) || type.dtype == DType::kBool;
  array.data.reserve(static_cast<size_t>(count * bytes));
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = integer ? (state >> 40) & 1 : FloatBits(type.dtype, state >> 40);
    for (int b = 0; b < bytes; ++b, bits >>= 8) array.data.push_back(static_cast<char>(bits & 0xff));
  }
  return array;
}

std::optional<std::vector<HostValue>> DrawInputs(const Graph& graph) {
  std::vector<HostValue> inputs;
  uint64_t state = 1;
  for (const GraphInput& input : graph.inputs()) {
    if (input.value == kNoValue) {
      std::optional<Var> var = graph.syms().AsVar(input.sym);
      if (!var) return std::nullopt;
      inputs.emplace_back(SizeFor(graph, *var));
      continue;
    }
    const TensorType& type = *graph.type(input.value);
    std::vector<int64_t> sizes;
    for (Sym s : type.sizes) {
      absl::StatusOr<int64_t> size = graph.syms().Eval(s, [&](Var v) { return SizeFor(graph, v); });
      if (!size.ok()) return std::nullopt;
      sizes.push_back(*size);
    }
    inputs.emplace_back(DrawArray(type, sizes, state));
  }
  return inputs;
}

}  // namespace

absl::Status CheckSameResults(const Graph& before, const Graph& after, int64_t max_operations) {
  if (!IsCheap(before, max_operations) || !IsCheap(after, max_operations)) return absl::OkStatus();
  std::optional<std::vector<HostValue>> inputs = DrawInputs(before);
  if (!inputs) return absl::OkStatus();
  absl::StatusOr<GraphResult> expected = Interpret(before, *inputs, EvalRecord);
  if (!expected.ok()) return absl::OkStatus();
  absl::StatusOr<GraphResult> actual = Interpret(after, *inputs, EvalRecord);
  if (!actual.ok()) {
    return absl::InternalError(absl::StrCat("no longer interprets: ", std::string(actual.status().message())));
  }
  for (size_t i = 0; i < expected->outputs.size(); ++i) {
    if (expected->outputs[i] != actual->outputs[i]) return absl::InternalError(absl::StrCat("output ", i, " changes"));
  }
  for (size_t i = 0; i < expected->updates.size(); ++i) {
    if (expected->updates[i] != actual->updates[i]) return absl::InternalError(absl::StrCat("update ", i, " changes"));
  }
  return absl::OkStatus();
}

}  // namespace kiln
