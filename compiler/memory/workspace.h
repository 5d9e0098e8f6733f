// Where the temporaries of a call stand in its workspace.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "compiler/graph/sym.h"

namespace kiln {

// A temporary lives from the step that writes it to the last step that reads it, both included.
struct Temporary {
  Sym bytes;
  uint32_t first = 0;
  uint32_t last = 0;
};

struct WorkspacePlan {
  std::vector<Sym> offsets;  // bytes, one a temporary, multiples of kWorkspaceAlignment
  Sym bytes;                 // of the whole workspace
};

inline constexpr int64_t kWorkspaceAlignment = 64;

// Temporaries whose lives do not meet may share a place; places are handed on only among sizes that are the same
// expression. In the order given by `first`. Test: workspace_test.cc.
WorkspacePlan PlanWorkspace(SymContext& syms, std::span<const Temporary> temporaries);

// Internal if two temporaries that are alive at one step overlap for these sizes, or one leaves the workspace.
absl::Status CheckWorkspace(const SymContext& syms, std::span<const Temporary> temporaries, const WorkspacePlan& plan,
                            const std::function<std::optional<int64_t>(Var)>& sizes);

}  // namespace kiln
