// Joint graphs as text, for the tests of the partitioner.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/ops/registry.h"
#include "gtest/gtest.h"

namespace kiln {

// The body of a joint graph with these counts over sizes s0 and s1.
inline std::shared_ptr<const Graph> JointOf(int primals, int forward_outputs, std::string_view body) {
  absl::StatusOr<std::shared_ptr<const Graph>> graph =
      ParseGraph(absl::StrCat("graph joint primals=", primals, " forward_outputs=", forward_outputs,
                              "\nsize s0 [2, inf]\nsize s1 [2, inf] class=5\n", std::string(body)),
                 ResolveOp);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return nullptr;
  EXPECT_TRUE(VerifyGraph(**graph).ok()) << VerifyGraph(**graph);
  return *graph;
}

// "%1 %5", or the error.
inline std::string Names(const absl::StatusOr<std::vector<ValueId>>& values) {
  if (!values.ok()) return values.status().ToString();
  return absl::StrJoin(*values, " ", [](std::string* out, ValueId v) { absl::StrAppend(out, "%", v); });
}

}  // namespace kiln
