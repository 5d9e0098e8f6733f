#include "compiler/memory/workspace.h"

#include <gtest/gtest.h>

#include <random>

namespace kiln {
namespace {

std::optional<int64_t> NoSizes(Var) { return std::nullopt; }

TEST(Workspace, PlacesAreHandedOn) {
  SymContext syms;
  const Sym bytes = syms.Const(100);
  // The third begins after the first has ended; the second is alive throughout.
  const std::vector<Temporary> temporaries = {{bytes, 0, 1}, {bytes, 0, 9}, {bytes, 2, 3}, {bytes, 3, 4}};
  const WorkspacePlan plan = PlanWorkspace(syms, temporaries);
  EXPECT_EQ(syms.AsConst(plan.bytes), 3 * 128);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_TRUE(CheckWorkspace(syms, temporaries, plan, NoSizes).ok());
}

TEST(Workspace, SizesThatAreVariables) {
  SymContext syms;
  const Sym n = syms.Size(0), m = syms.Size(1);
  const std::vector<Temporary> temporaries = {{n, 0, 0}, {m, 1, 1}, {n, 2, 2}, {syms.Mul(n, m), 2, 3}};
  const WorkspacePlan plan = PlanWorkspace(syms, temporaries);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);  // nothing says that they are as large
  for (const int64_t size : {0, 1, 63, 1000}) {
    const auto sizes = [&](Var var) { return std::optional<int64_t>(var.index == 0 ? size : 7); };
    EXPECT_TRUE(CheckWorkspace(syms, temporaries, plan, sizes).ok()) << size;
  }
}

TEST(Workspace, RandomLives) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    SymContext syms;
    std::vector<Temporary> temporaries;
    for (int t = 0; t < 60; ++t) {
      const uint32_t first = random() % 40;
      temporaries.push_back({syms.Const(random() % 5 * 64), first, first + static_cast<uint32_t>(random() % 6)});
    }
    const WorkspacePlan plan = PlanWorkspace(syms, temporaries);
    EXPECT_EQ(CheckWorkspace(syms, temporaries, plan, NoSizes), absl::OkStatus());
  }
}

TEST(Workspace, TheCheckerSeesOverlapsAndOverruns) {
  SymContext syms;
  const std::vector<Temporary> temporaries = {{syms.Const(128), 0, 2}, {syms.Const(64), 2, 3}};
  const auto at = [&](int64_t second, int64_t bytes) {
    return CheckWorkspace(syms, temporaries,
                          {.offsets = {syms.Const(0), syms.Const(second)}, .bytes = syms.Const(bytes)}, NoSizes);
  };
  EXPECT_TRUE(at(128, 192).ok());
  EXPECT_EQ(at(64, 192).message(), "temporaries 0 and 1 overlap");
  EXPECT_EQ(at(128, 191).message(), "temporary 1 leaves the workspace");
  EXPECT_EQ(at(129, 256).message(), "temporary 1 leaves the workspace");
}

}  // namespace
}  // namespace kiln
