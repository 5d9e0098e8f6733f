#include "compiler/tools/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/tools/listing.h"
#include "compiler/tools/program.h"

namespace kiln {
namespace {

// An external call, a kernel with a row reduction that reads through a view, and twice the same pointwise kernel around
// another external call.
constexpr char kGraph[] = R"kir(graph inference
%0 = input f32[32, 64]
%1 = input f32[64, 32]
%2 = mm(%0, %1) : f32[32, 32]
%3 = t(%2) : f32[32, 32]{1, 32}
%4 = exp(%3) : f32[32, 32]{1, 32}
%5 = sum_dim(%4, [1], true, none) : f32[32, 1]
%6 = div(%4, %5) : f32[32, 32]{1, 32}
%7 = mm(%6, %0) : f32[32, 64]
%8 = relu(%7) : f32[32, 64]
%9 = mm(%2, %8) : f32[32, 64]
%10 = relu(%9) : f32[32, 64]
return %10
)kir";

Listing Listed(const std::string& text) {
  const absl::StatusOr<Program> program = ReadProgram(text);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  absl::StatusOr<Listing> listing = List(*program, "x86-64-v3");
  EXPECT_TRUE(listing.ok()) << listing.status();
  return listing.ok() ? *std::move(listing) : Listing();
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// The node of the request that the line of the graph's text with `part` writes.
uint32_t RequestNode(const Listing& listing, const std::string& part) {
  const std::vector<std::string> lines = Lines(listing.graphs[0].text);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find(part) != std::string::npos) return listing.graphs[0].nodes[i];
  }
  return kNoNode;
}

// The request's nodes that the lines with `part` of the step's loop nest are for.
std::set<uint32_t> RequestNodesOf(const Listing& listing, const ListedStep& step, const std::string& part) {
  const std::vector<std::string> lines = Lines(listing.kernels[step.kernel].loop);
  std::set<uint32_t> nodes;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find(part) == std::string::npos) continue;
    const uint32_t node = step.origins[i];
    nodes.insert(node == loop::kNone ? loop::kNone : listing.graphs[1].origins[node]);
  }
  return nodes;
}

TEST(List, HasTheStepsOfTheGraphAndDistinctKernels) {
  const Listing listing = Listed(kGraph);
  ASSERT_EQ(listing.graphs.size(), 2);
  EXPECT_EQ(listing.graphs[0].name, "request");
  EXPECT_EQ(listing.graphs[0].origins.size(), 9);
  EXPECT_TRUE(listing.graphs[0].steps.empty());
  EXPECT_EQ(listing.graphs[1].name, "inference");
  std::vector<uint32_t> kernels;
  for (const ListedStep& step : listing.graphs[1].steps) kernels.push_back(step.kernel);
  EXPECT_EQ(kernels, (std::vector<uint32_t>{loop::kNone, 0, loop::kNone, 1, loop::kNone, 1}));
  EXPECT_EQ(listing.kernels.size(), 2);
}

TEST(List, LinksStatementsToNodesAndCodeToStatements) {
  const Listing listing = Listed(kGraph);
  ASSERT_EQ(listing.graphs.size(), 2);
  const ListedStep& softmax = listing.graphs[1].steps.at(1);
  const ListedKernel& kernel = listing.kernels.at(0);
  EXPECT_EQ(softmax.origins.size(), Lines(kernel.loop).size());
  EXPECT_EQ(RequestNodesOf(listing, softmax, "= exp "), std::set{RequestNode(listing, "= exp(")});
  EXPECT_EQ(RequestNodesOf(listing, softmax, "= add "), std::set{RequestNode(listing, "= sum_dim(")});
  EXPECT_EQ(RequestNodesOf(listing, softmax, "reduce ("), std::set{RequestNode(listing, "= sum_dim(")});
  EXPECT_EQ(RequestNodesOf(listing, softmax, "= div "), std::set{RequestNode(listing, "= div(")});
  EXPECT_TRUE(RequestNodesOf(listing, softmax, "buffer b").contains(RequestNode(listing, "mm(%0, %1)")));
  EXPECT_EQ(RequestNodesOf(listing, softmax, "kernel {"), std::set<uint32_t>{loop::kNone});
  std::set<uint32_t> nodes;
  for (const NodeId node : softmax.nodes) nodes.insert(listing.graphs[1].origins[node]);
  EXPECT_EQ(nodes, (std::set<uint32_t>{1, 2, 3, 4}));  // the view through which it reads, too

  // exp's polynomial is code of the line that says exp.
  const std::vector<std::string> loop = Lines(kernel.loop);
  const auto exp = static_cast<uint32_t>(
      std::ranges::find_if(loop, [](const std::string& line) { return line.find("= exp ") != std::string::npos; }) -
      loop.begin());
  ASSERT_EQ(kernel.code.llvm.origins.size(), Lines(kernel.code.llvm.text).size());
  ASSERT_EQ(kernel.code.assembly.origins.size(), Lines(kernel.code.assembly.text).size());
  EXPECT_GE(std::ranges::count(kernel.code.llvm.origins, exp), 8);
  EXPECT_GE(std::ranges::count(kernel.code.assembly.origins, exp), 8);
  EXPECT_GE(Count(kernel.code.llvm.text, "x float> splat (float "), 8);
  EXPECT_EQ(Count(kernel.code.llvm.text, "<float 8.900000e+01, float 8.900000e+01"), 0);
}

TEST(List, TakesKernels) {
  const Listing listing = Listed(R"(kernel {
  buffer b0: f32[64] read
  buffer b1: f32[64] write
  parallel i0 in 0..1 {
    vector i1 in 0..64 width 8 {
      v0: f32 = load b0[i1]
      v1: f32 = sqrt v0
      store b1[i1] = v1
    }
  }
}
)");
  EXPECT_TRUE(listing.graphs.empty());
  ASSERT_EQ(listing.kernels.size(), 1);
  EXPECT_GE(std::ranges::count(listing.kernels[0].code.assembly.origins, 6), 1);  // sqrt
}

TEST(HtmlPage, HoldsTheListingAndNothingFromElsewhere) {
  const Listing listing = Listed(kGraph);
  const std::string page = HtmlPage(listing, "softmax.kir");
  EXPECT_EQ(page.substr(0, 15), "<!doctype html>");
  EXPECT_EQ(Count(page, "<title>softmax.kir</title>"), 1);
  EXPECT_EQ(Count(page, "{\"loop\":\""), 2);   // kernels
  EXPECT_EQ(Count(page, "\"schedule\":"), 6);  // steps
  EXPECT_EQ(Count(page, "\"name\":"), 2);      // graphs
  EXPECT_EQ(Count(page, "%4 = exp(%3)"), 2);   // in both
  EXPECT_EQ(Count(page, "vsqrtps"), 0);
  EXPECT_GE(Count(page, "vdivps"), 1);
  EXPECT_EQ(Count(page, "default-src 'none'"), 1);
  for (const char* outside : {"http:", "https:", "src=", "href=", "url(", "@import"}) {
    EXPECT_EQ(Count(page, outside), 0) << outside;
  }
}

TEST(HtmlPage, IsDeterministic) { EXPECT_EQ(HtmlPage(Listed(kGraph), "x"), HtmlPage(Listed(kGraph), "x")); }

TEST(HtmlPage, NamesAreNeverMarkup) {
  const Listing listing = Listed(R"kir(graph inference
op "evil</script><script>alert(1)</script>" "evil(Tensor self, str mode) -> Tensor"
%0 = input f32[4]
%1 = "evil</script><script>alert(1)</script>"(%0, "<!--<script>") : f32[4]
%2 = relu(%1) : f32[4]
return %2
)kir");
  const std::string page = HtmlPage(listing, "</title><img src=x onerror=alert(1)>&\"");
  EXPECT_EQ(Count(page, "<script"), 2);
  EXPECT_EQ(Count(page, "</script"), 2);
  EXPECT_EQ(Count(page, "<!--"), 0);
  EXPECT_EQ(Count(page, "<img"), 0);
  EXPECT_EQ(Count(page, "</title>"), 1);
  EXPECT_GE(Count(page, "evil\\u003c/script\\u003e\\u003cscript\\u003ealert(1)"), 2);
  EXPECT_EQ(Count(page, "&#60;img src=x onerror=alert(1)&#62;&#38;&#34;"), 2);  // title and heading
}

}  // namespace
}  // namespace kiln
