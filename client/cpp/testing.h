// Plans for tests, written as text protos with the boring parts filled in.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/artifact/abi.h"
#include "proto/artifact.pb.h"

namespace kiln {

// An artifact whose one function is `function`, with `num_kernels` kernels k0, k1, …
inline v1::Artifact ArtifactOf(const std::string& function, int num_kernels = 0) {
  v1::Artifact artifact;
  artifact.set_version(kArtifactVersion);
  for (int i = 0; i < num_kernels; ++i) artifact.add_kernels()->set_symbol("k" + std::to_string(i));
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(function, artifact.add_functions())) << function;
  return artifact;
}

}  // namespace kiln
