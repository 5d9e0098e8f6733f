// Graphs as text, for the tests of passes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/ops/registry.h"
#include "gtest/gtest.h"

namespace kiln {

inline std::shared_ptr<const Graph> GraphOf(std::string_view text) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph =
      ParseGraph("graph inference\nsize s0 [2, inf]\n" + std::string(text), ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : nullptr;
}

// The text from the first value on.
inline std::string BodyOf(const absl::StatusOr<std::shared_ptr<const Graph>>& graph) {
  if (!graph.ok()) return graph.status().ToString();
  absl::Status status = VerifyGraph(**graph);
  if (!status.ok()) return status.ToString();
  const std::string text = PrintGraph(**graph);
  return text.substr(std::min(text.find("\n%"), text.find("\nreturn")) + 1);
}

}  // namespace kiln
