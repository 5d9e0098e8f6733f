#include "compiler/pipeline/graph_passes.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/ops/registry.h"
#include "compiler/passes/channels_last.h"
#include "compiler/passes/dead_code.h"
#include "compiler/passes/decompose.h"
#include "compiler/passes/fold_copies.h"
#include "compiler/passes/move_scalars.h"
#include "compiler/passes/pad_matmul.h"
#include "compiler/passes/share_equal.h"
#include "compiler/passes/simplify_views.h"
#include "compiler/pipeline/graph_check.h"

namespace kiln {
namespace {

using GraphPtr = std::shared_ptr<const Graph>;

template <absl::StatusOr<GraphPtr> (*F)(GraphPtr)>
absl::StatusOr<GraphPtr> Ignoring(GraphPtr graph, const Options&) {
  return F(std::move(graph));
}

constexpr Pass<GraphPtr> kRequestPasses[] = {
    {"narrow_operands", Ignoring<NarrowOperands>},
    {"share_equal", Ignoring<ShareEqualNodes>},
    {"simplify_views", Ignoring<SimplifyViews>},
    {"channels_last", Ignoring<ChooseChannelsLast>},
};

constexpr Pass<GraphPtr> kPasses[] = {
    {"move_scalars", Ignoring<MoveScalars>},
    {"pad_matmul", Ignoring<PadMatmuls>},
    {"decompose", Ignoring<Decompose>},
    {"simplify_views", Ignoring<SimplifyViews>},
    {"fold_copies", Ignoring<FoldCopies>},
    {"dead_code", Ignoring<EliminateDeadCode>},
};

class TheGraphIr : public Ir<GraphPtr> {
 public:
  std::string_view extension() const override { return "kir"; }
  std::string Print(const GraphPtr& graph) const override { return PrintGraph(*graph); }

  absl::Status Verify(const GraphPtr& graph) const override {
    return VerifyGraph(*graph, [](const Graph& g, const Node& node) {
      return node.def ? VerifyCall(Call(g, node)) : absl::OkStatus();
    });
  }

  absl::Status ReadBack(const GraphPtr& graph, const std::string& text) const override {
    absl::StatusOr<GraphPtr> again = ParseGraph(text, ResolveOp, graph->shared_syms());
    if (!again.ok()) {
      return absl::InternalError(absl::StrCat("does not read back: ", std::string(again.status().message())));
    }
    return SameGraph(*graph, **again) ? absl::OkStatus() : absl::InternalError("reads back as another graph:\n" + text);
  }

  absl::Status Compare(const GraphPtr& before, const GraphPtr& after) const override {
    return CheckSameResults(*before, *after);
  }

  bool Same(const GraphPtr& before, const GraphPtr& after) const override { return before == after; }
};

}  // namespace

std::span<const Pass<GraphPtr>> RequestPasses() { return kRequestPasses; }
std::span<const Pass<GraphPtr>> GraphPasses() { return kPasses; }

const Ir<GraphPtr>& GraphIr() {
  static const TheGraphIr ir;
  return ir;
}

absl::StatusOr<GraphPtr> RunRequestPasses(GraphPtr graph, const PassContext& context) {
  return RunPasses(std::move(graph), RequestPasses(), GraphIr(), context);
}

absl::StatusOr<GraphPtr> RunGraphPasses(GraphPtr graph, const PassContext& context) {
  return RunPasses(std::move(graph), GraphPasses(), GraphIr(), context);
}

}  // namespace kiln
