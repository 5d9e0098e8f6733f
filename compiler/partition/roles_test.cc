#include "compiler/partition/roles.h"

#include "compiler/partition/joint_testing.h"

namespace kiln {
namespace {

// "FFB-": one letter a node.
std::string RolesOf(const Graph& joint) {
  const absl::StatusOr<Roles> roles = FindRoles(joint);
  if (!roles.ok()) return roles.status().ToString();
  std::string text;
  for (NodeId n = 0; n < joint.nodes().size(); ++n) text += roles->forward[n] ? 'F' : roles->backward[n] ? 'B' : '-';
  return text;
}

TEST(FindRoles, WhatOnlyAGradientNeedsOfThePrimalsHasNone) {
  EXPECT_EQ(RolesOf(*JointOf(1, 1, R"(
    %0 = input f32[4]
    %1 = input f32[4]
    %2 = aten.sin.default(%0) : f32[4]
    %3 = aten.cos.default(%0) : f32[4] phase=backward
    %4 = aten.mul.Tensor(%1, %3) : f32[4] phase=backward
    return %2, %4
  )")),
            "F-B");
}

TEST(FindRoles, UpdatesAreTheForwards) {
  EXPECT_EQ(RolesOf(*JointOf(2, 1, R"(
    %0 = input f32[4]
    %1 = input f32[4]
    %2 = input f32[4]
    %3 = aten.sin.default(%0) : f32[4]
    %4 = aten.exp.default(%1) : f32[4]
    update 1 %4
    return %3, %2, none
  )")),
            "FF");
}

TEST(FindRoles, RandomNodesStayInTheirPhaseEvenIfNothingNeedsThem) {
  EXPECT_EQ(RolesOf(*JointOf(1, 1, R"(
    %0 = input f32[4]
    %1 = input f32[4]
    %2 = aten.sin.default(%0) : f32[4]
    %3 = aten.rand_like.default(%0, none, none, none, none, none) : f32[4]
    %4 = aten.rand_like.default(%0, none, none, none, none, none) : f32[4] phase=backward
    %5 = aten.exp.default(%4) : f32[4] phase=backward
    return %2, %1
  )")),
            "FFBB");
}

TEST(FindRoles, RefusesAForwardThatDependsOnATangent) {
  EXPECT_EQ(RolesOf(*JointOf(1, 1, R"(
    %0 = input f32[4]
    %1 = input f32[4]
    %2 = aten.mul.Tensor(%0, %1) : f32[4]
    return %2, %1
  )")),
            "INVALID_ARGUMENT: output 0 of the forward depends on a tangent");
  EXPECT_EQ(RolesOf(*JointOf(1, 1, R"(
    %0 = input f32[4]
    %1 = input f32[4]
    %2 = aten.sin.default(%0) : f32[4]
    update 0 %1
    return %2, %1
  )")),
            "UNIMPLEMENTED: input 0 is written in place by the backward");
}

}  // namespace
}  // namespace kiln
