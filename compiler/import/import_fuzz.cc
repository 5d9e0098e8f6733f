// Any bytes: a request is refused, or becomes a graph that verifies and whose text reads back to the same graph.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "compiler/graph/text.h"
#include "compiler/graph/verify.h"
#include "compiler/import/import.h"
#include "compiler/ops/registry.h"

namespace {

void Require(bool condition, const char* what, const std::string& detail) {
  if (condition) return;
  fprintf(stderr, "%s: %s\n", what, detail.c_str());
  abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::v1::Graph message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  auto graph = kiln::ImportGraph(message);
  if (!graph.ok()) {
    Require(graph.status().code() != absl::StatusCode::kInternal, "an internal error", graph.status().ToString());
    return 0;
  }
  absl::Status status = kiln::VerifyGraph(**graph);
  Require(status.ok(), "does not verify", status.ToString());
  const std::string text = kiln::PrintGraph(**graph);
  auto again = kiln::ParseGraph(
      text, [](kiln::OpName& op) { return kiln::FindTorchOp(op.name, op.schema); }, (*graph)->shared_syms());
  Require(again.ok(), "does not parse", again.status().ToString() + "\n" + text);
  Require(kiln::SameGraph(**graph, **again), "reads back as another graph", text);
  return 0;
}
