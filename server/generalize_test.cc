#include "server/generalize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/size_table.h"

namespace kiln {
namespace {

// A request with inputs and one node, whose arguments are integers within one list.
class Request {
 public:
  explicit Request(std::vector<int64_t> literals = {}) {
    request_.mutable_graph()->set_level(v1::Graph::TORCH);
    v1::Arg::List* list = request_.mutable_graph()->add_nodes()->add_args()->mutable_list();
    for (const int64_t literal : literals) list->add_items()->set_i(literal);
  }

  // Dense, unless strides are given.
  Request& In(const std::vector<int64_t>& sizes, std::vector<int64_t> strides = {}, int64_t offset = 0) {
    if (strides.empty()) {
      strides.resize(sizes.size());
      for (size_t d = sizes.size(); d-- > 0;) strides[d] = d + 1 == sizes.size() ? 1 : strides[d + 1] * sizes[d + 1];
    }
    v1::GuardSpec* guards = request_.mutable_guards();
    v1::TensorType* type = guards->add_types();
    for (const int64_t size : sizes) type->add_sizes(Constant(size));
    for (const int64_t stride : strides) type->add_strides(Constant(stride));
    v1::GuardSpec::InputGuard* input = guards->add_inputs();
    input->set_kind(v1::GuardSpec::InputGuard::TENSOR);
    input->set_type(static_cast<uint32_t>(guards->types_size() - 1));
    input->set_storage_offset(Constant(offset));
    return *this;
  }
  Request& Static() {
    request_.mutable_guards()->mutable_inputs()->rbegin()->set_is_static(true);
    return *this;
  }

  v1::CompileRequest& message() { return request_; }
  Skeleton Take() const { return SkeletonOf(request_, "build").value(); }

 private:
  // As clients write them: each number once.
  uint32_t Constant(int64_t value) {
    v1::SymTable* syms = request_.mutable_guards()->mutable_syms();
    for (int i = 0; i < syms->exprs_size(); ++i) {
      if (syms->exprs(i).value() == value) return static_cast<uint32_t>(i);
    }
    syms->add_exprs()->set_op(v1::SymExpr::CONST);
    syms->mutable_exprs()->rbegin()->set_value(value);
    return static_cast<uint32_t>(syms->exprs_size() - 1);
  }

  v1::CompileRequest request_;
};

// The generalization of all of them, as seen by the last.
std::optional<v1::Generalization> Of(const std::vector<Request>& requests) {
  std::vector<std::vector<int64_t>> others;
  for (size_t i = 0; i + 1 < requests.size(); ++i) {
    EXPECT_EQ(requests[i].Take().key, requests.back().Take().key);
    others.push_back(requests[i].Take().values);
  }
  return Generalize(requests.back().Take(), others);
}

std::string TextOf(const v1::SymTable& syms, uint32_t expr) {
  const v1::SymExpr& e = syms.exprs(static_cast<int>(expr));
  if (e.op() == v1::SymExpr::CONST) return absl::StrCat(e.value());
  if (e.op() == v1::SymExpr::SYMBOL) return absl::StrCat("s", e.value());
  std::string out;
  for (const uint32_t arg : e.args()) {
    absl::StrAppend(&out, out.empty() ? "" : e.op() == v1::SymExpr::MUL ? "*" : "+", TextOf(syms, arg));
  }
  return out;
}

// "0:s0 2:s0*8": the places of the generalization.
std::string Text(const std::optional<v1::Generalization>& g) {
  if (!g) return "none";
  EXPECT_TRUE(SizeTable::Create(g->syms()).ok());
  std::string out;
  for (const v1::Generalization::Place& p : g->places()) {
    absl::StrAppend(&out, out.empty() ? "" : " ", p.value(), ":", TextOf(g->syms(), p.expr()));
  }
  return out;
}

TEST(Skeletons, ValuesAreTakenInOrder) {
  const Skeleton skeleton = Request({7, 8}).In({2, 3}).In({5}, {1}, 4).Take();
  EXPECT_EQ(skeleton.values, (std::vector<int64_t>{2, 3, 3, 1, 0, 5, 1, 4, 7, 8}));
  ASSERT_EQ(skeleton.inputs.size(), 2u);
  EXPECT_EQ(skeleton.inputs[0].rank, 2u);
}

TEST(Skeletons, IntegersWithinOtherArgumentsAreValues) {
  Request request;
  v1::Arg* tuple = request.message().mutable_graph()->add_nodes()->add_args();
  tuple->mutable_tuple()->add_items()->set_i(3);
  tuple->mutable_tuple()->add_items()->mutable_slice()->add_items()->set_i(4);
  tuple->mutable_tuple()->add_items()->mutable_dict()->add_items()->set_i(5);
  tuple->mutable_tuple()->add_items()->set_b(true);
  EXPECT_EQ(request.Take().values, (std::vector<int64_t>{3, 4, 5}));
}

TEST(Skeletons, TheKeyIsOfAllButTheValues) {
  // Which inputs have the same type, and which number is written first, are the sizes' to say.
  const Key key = Request({1}).In({2, 3}).In({2, 3}).Take().key;
  EXPECT_EQ(Request({9}).In({4, 5}).In({5, 4}, {1, 4}).Take().key, key);
  EXPECT_NE(Request({1}).In({2, 3}).In({2}).Take().key, key);
  EXPECT_NE(Request({1, 1}).In({2, 3}).In({2, 3}).Take().key, key);
  EXPECT_NE(Request({1}).In({2, 3}).In({2, 3}).Static().Take().key, key);
  const std::vector<std::function<void(v1::CompileRequest&)>> changes = {
      [](auto& r) { r.mutable_graph()->add_ops()->set_name("torch.relu"); },
      [](auto& r) { r.mutable_graph()->mutable_nodes(0)->add_args()->set_f(1); },
      [](auto& r) { r.mutable_graph()->add_outputs()->mutable_arg()->set_i(1); },
      [](auto& r) { r.mutable_graph()->add_subgraphs()->add_nodes()->add_args()->set_i(1); },
      [](auto& r) { r.mutable_graph()->add_constants()->set_data("x"); },
      [](auto& r) { r.mutable_guards()->mutable_types(0)->set_dtype(v1::FLOAT64); },
      [](auto& r) { r.mutable_guards()->mutable_inputs(0)->set_requires_grad(true); },
      [](auto& r) { r.mutable_guards()->add_globals()->set_name("grad_mode"); },
      [](auto& r) { r.mutable_options()->set_memory_budget(0.5); },
      [](auto& r) { r.mutable_target()->set_name("x86-64-v2"); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Request request = Request({1}).In({2, 3}).In({2, 3});
    changes[i](request.message());
    EXPECT_NE(request.Take().key, key) << i;
  }
  EXPECT_NE(SkeletonOf(Request({1}).In({2, 3}).In({2, 3}).message(), "another build")->key, key);
}

TEST(Skeletons, SymbolsAndWhatIsNotWellFormedHaveNone) {
  const std::vector<std::function<void(v1::CompileRequest&)>> changes = {
      [](auto& r) { r.mutable_guards()->mutable_syms()->add_symbols(); },
      [](auto& r) { r.mutable_graph()->mutable_syms()->add_symbols(); },
      [](auto& r) { r.mutable_guards()->mutable_inputs(0)->set_kind(v1::GuardSpec::InputGuard::SYMINT); },
      [](auto& r) { r.mutable_guards()->mutable_inputs(0)->set_type(7); },
      [](auto& r) { r.mutable_guards()->mutable_inputs(0)->set_storage_offset(1000); },
      [](auto& r) { r.mutable_guards()->mutable_types(0)->set_sizes(0, 1000); },
      [](auto& r) { r.mutable_guards()->mutable_types(0)->add_sizes(0); },
      [](auto& r) { r.mutable_guards()->mutable_syms()->mutable_exprs(0)->set_op(v1::SymExpr::ADD); },
      [](auto& r) {
        v1::Arg* arg = r.mutable_graph()->mutable_nodes(0)->add_args();
        for (size_t i = 0; i < kMaxSkeletonValues; ++i) arg->mutable_list()->add_items()->set_i(1);
      },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Request request = Request({1}).In({2, 3});
    changes[i](request.message());
    EXPECT_FALSE(SkeletonOf(request.message(), "build")) << i;
  }
}

TEST(Generalizations, ABatchIsASymbol) {
  EXPECT_EQ(Text(Of({Request().In({4, 8}), Request().In({6, 8}), Request().In({9, 8})})), "0:s0");
}

TEST(Generalizations, DenseStridesFollowFromSizes) {
  // Values: sizes 0-2, strides 3-5.
  EXPECT_EQ(Text(Of({Request().In({4, 7, 8}), Request().In({6, 5, 8}), Request().In({9, 3, 8})})), "0:s0 1:s1 3:s1*8");
}

TEST(Generalizations, OtherStridesAreLinesInASymbol) {
  // A transposed matrix; and a slice of a wider one.
  EXPECT_EQ(Text(Of({Request().In({8, 4}, {1, 8}), Request().In({6, 4}, {1, 6}), Request().In({9, 4}, {1, 9})})),
            "0:s0 3:s0");
  EXPECT_EQ(Text(Of({Request().In({8, 4}, {10, 2}), Request().In({6, 4}, {10, 2}), Request().In({9, 4}, {10, 2})})),
            "0:s0");
  EXPECT_EQ(Text(Of({Request().In({8, 4}, {10, 1}), Request().In({6, 4}, {11, 1}), Request().In({9, 4}, {12, 1})})),
            "none");
}

TEST(Generalizations, EqualDimsShareASymbol) {
  EXPECT_EQ(Text(Of({Request().In({4, 8}).In({4}), Request().In({6, 8}).In({6}), Request().In({9, 8}).In({9})})),
            "0:s0 5:s0");
  EXPECT_EQ(Text(Of({Request().In({4, 8}).In({4}), Request().In({6, 8}).In({6}), Request().In({9, 8}).In({7})})),
            "0:s0 5:s1");
}

TEST(Generalizations, IntegersAreLinesInOneSymbolOrInAProductOfTwo) {
  const auto request = [](int64_t b, int64_t s) {
    return Request({b, 3 * s - 1, b * s, 2 * b * s + 5, b * b, -b, 64}).In({b, s});
  };
  // Sizes 0-1, strides 2-3, offset 4.
  EXPECT_EQ(Text(Of({request(2, 7), request(5, 11), request(3, 4)})),
            "0:s0 1:s1 2:s1 5:s0 6:s1*3+-1 7:s0*s1 8:s0*s1*2+5 9:s0*s0 10:s0*-1");
}

TEST(Generalizations, WhatNoSizeExplainsKeepsRequestsApart) {
  const auto request = [](int64_t b, int64_t literal) { return Request({literal}).In({b, 8}); };
  EXPECT_EQ(Text(Of({request(4, 2), request(6, 3), request(9, 5)})), "none");   // b/2 rounded up
  EXPECT_EQ(Text(Of({request(4, 2), request(4, 3), request(4, 5)})), "none");   // only a constant
  EXPECT_EQ(Text(Of({request(4, 2), request(6, 3), request(10, 5)})), "none");  // b/2: no integer factor
  // Two families, of which one has three members.
  const std::vector<Request> two = {request(4, 2), request(4, 3), request(6, 2), request(6, 3), request(9, 2)};
  EXPECT_EQ(Text(Of(two)), "0:s0");
}

TEST(Generalizations, TakeThreeSizes) {
  EXPECT_EQ(Text(Of({Request().In({4, 8}), Request().In({6, 8})})), "none");
  EXPECT_EQ(Text(Of({Request().In({4, 8}), Request().In({4, 8}), Request().In({6, 8}), Request().In({6, 8})})), "none");
}

TEST(Generalizations, SizesBelowTwoParametersAndOffsetsDoNotVary) {
  const auto three = [](const std::function<Request(int64_t)>& make) { return Text(Of({make(4), make(6), make(9)})); };
  EXPECT_EQ(Text(Of({Request().In({1, 8}), Request().In({6, 8}), Request().In({9, 8})})), "none");
  EXPECT_EQ(Text(Of({Request().In({4, 8}), Request().In({6, 8}), Request().In({1, 8})})), "none");
  EXPECT_EQ(Text(Of({Request().In({0, 8}), Request().In({4, 8}), Request().In({6, 8}), Request().In({9, 8})})), "0:s0");
  EXPECT_EQ(three([](int64_t n) { return Request().In({n, 8}).In({n}).Static(); }), "none");
  EXPECT_EQ(three([](int64_t n) { return Request().In({n, 8}).In({8}).Static(); }), "0:s0");
  EXPECT_EQ(three([](int64_t n) { return Request().In({n, 8}).In({8}, {1}, n); }), "none");
  EXPECT_EQ(three([](int64_t n) { return Request().In({n, 8}, {8, 1}, 3); }), "none");
  EXPECT_EQ(three([](int64_t n) { return Request().In({n, 8}).In({8}, {1}, 3); }), "0:s0");
}

TEST(Generalizations, SymbolsAreBounded) {
  const auto request = [](int64_t salt, size_t dims) {
    std::vector<int64_t> sizes;
    for (size_t d = 0; d < dims; ++d) sizes.push_back(2 + static_cast<int64_t>(d) * salt % 7 + salt);
    Request out;
    for (size_t d = 0; d < dims; ++d) out.In({sizes[d] + static_cast<int64_t>(d * d) * salt});
    return out;
  };
  const auto general = Of({request(1, 16), request(2, 16), request(4, 16)});
  ASSERT_TRUE(general);
  EXPECT_EQ(general->syms().symbols_size(), 16);
  EXPECT_FALSE(Of({request(1, 17), request(2, 17), request(4, 17)}));
}

TEST(Generalizations, HugeNumbersDoNotOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Text(Of({Request({-kHuge}).In({2}), Request({kHuge}).In({3}), Request({0}).In({5})})), "none");
  EXPECT_EQ(Text(Of({Request({1}).In({kHuge}), Request({2}).In({kHuge - 1}), Request({4}).In({kHuge - 3})})), "none");
}

TEST(Generalizations, OrderDoesNotMatter) {
  std::vector<Request> requests;
  for (const int64_t n : {4, 6, 9, 11}) requests.push_back(Request({n * 2}).In({n, 8, 9 - n % 2}));
  const std::string want = Of(requests)->SerializeAsString();
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    std::vector<Request> permuted;
    for (const size_t i : order) permuted.push_back(requests[i]);
    EXPECT_EQ(Of(permuted)->SerializeAsString(), want);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Instances, AreWhatTheExpressionsGive) {
  const auto request = [](int64_t b, int64_t literal, int64_t width = 8) { return Request({literal}).In({b, width}); };
  v1::SkeletonMember member;
  *member.mutable_generalization() = Of({request(4, 8), request(6, 12), request(9, 18)}).value();
  const std::vector<int64_t> values = request(4, 8).Take().values;
  member.mutable_values()->Assign(values.begin(), values.end());
  EXPECT_TRUE(IsInstance(member, request(100, 200).Take().values));
  EXPECT_FALSE(IsInstance(member, request(100, 201).Take().values));
  EXPECT_FALSE(IsInstance(member, request(100, 200, 16).Take().values));
  EXPECT_FALSE(IsInstance(member, request(1, 2).Take().values));
  EXPECT_FALSE(IsInstance(member, Request().In({100, 8}).Take().values));
  EXPECT_FALSE(IsInstance(member, request(std::numeric_limits<int64_t>::max(), 0).Take().values));
}

}  // namespace
}  // namespace kiln
