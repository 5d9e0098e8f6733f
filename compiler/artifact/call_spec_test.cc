// What is said of a call is held against the code that it goes with.
#include "compiler/artifact/call_spec.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace kiln {
namespace {

// A forward of two inputs with one mutation, two outputs (a view of input 1 among them) and one base, and its backward.
v1::CallSpec Spec() {
  v1::CallSpec spec;
  spec.set_num_inputs(2);
  spec.set_training(true);
  v1::CallSpec::Mutation* mutation = spec.add_mutations();
  mutation->set_data(true);
  mutation->set_requires_grad(true);
  v1::CallSpec::Output* plain = spec.add_outputs();
  plain->set_kind(v1::CallSpec::Output::NON_ALIAS);
  plain->set_is_tensor(true);
  plain->set_has_tangent(true);
  v1::CallSpec::Output* view = spec.add_outputs();
  view->set_kind(v1::CallSpec::Output::ALIAS_OF_INPUT);
  view->set_base(1);
  view->set_has_views(true);
  v1::CallSpec::ViewStep* step = view->add_views();
  step->set_name("view_ViewMeta");
  step->add_args()->set_b(false);
  step->add_args()->mutable_list()->add_items()->set_i(-1);
  spec.set_num_bases(1);
  spec.add_saved()->set_input(1);
  spec.add_saved()->set_output(true);
  spec.set_num_saved_syms(1);
  for (int i = 0; i < 3; ++i) spec.add_tangents();
  return spec;
}

const CallShape kShape{.inputs = 2, .outputs = 4, .saved = 2, .saved_syms = 1, .training = true, .backward_inputs = 6};

std::string Refusal(const std::function<void(v1::CallSpec&)>& change) {
  v1::CallSpec spec = Spec();
  change(spec);
  const absl::Status status = CheckCallSpec(spec, kShape);
  return status.ok() ? "" : std::string(status.message());
}

TEST(CallSpec, FitsItsCode) {
  EXPECT_EQ(Refusal([](auto&) {}), "");
}

TEST(CallSpec, EveryCountAndPositionIsChecked) {
  EXPECT_EQ(Refusal([](auto& s) { s.set_num_inputs(3); }), "spec.num_inputs: is 3, the compiled code has 2");
  EXPECT_EQ(Refusal([](auto& s) { s.set_training(false); }), "spec.training: is 0, the compiled code is for training");
  EXPECT_EQ(Refusal([](auto& s) { s.set_num_bases(0); }),
            "spec.outputs, mutations and bases: is 3, the compiled code has 4");
  EXPECT_EQ(Refusal([](auto& s) { s.mutable_saved()->RemoveLast(); }), "spec.saved: is 1, the compiled code has 2");
  EXPECT_EQ(Refusal([](auto& s) { s.set_num_saved_syms(0); }), "spec.num_saved_syms: is 0, the compiled code has 1");
  EXPECT_EQ(Refusal([](auto& s) { s.mutable_mutations(0)->set_input(2); }),
            "spec.mutations: input: is 2, want less than 2");
  EXPECT_EQ(Refusal([](auto& s) { s.add_written_inputs(9); }), "spec.written_inputs: is 9, want less than 2");
  EXPECT_EQ(Refusal([](auto& s) { s.add_counted_inputs(2); }), "spec.counted_inputs: is 2, want less than 2");
  EXPECT_EQ(Refusal([](auto& s) { s.add_detached_inputs(2); }), "spec.detached_inputs: is 2, want less than 2");
  EXPECT_EQ(Refusal([](auto& s) { s.mutable_saved(0)->set_input(7); }), "spec.saved: input: is 7, want less than 2");
  EXPECT_EQ(Refusal([](auto& s) { s.mutable_outputs(1)->set_base(2); }),
            "spec.outputs[1].base: is 2, want less than 2");
  EXPECT_EQ(Refusal([](auto& s) { s.mutable_outputs(0)->set_kind(v1::CallSpec::Output::KIND_UNSPECIFIED); }),
            "spec.outputs[0].kind: unknown value 0");
  EXPECT_EQ(Refusal([](auto& s) { s.mutable_outputs(0)->add_dynamic_dims(64); }),
            "spec.outputs[0].dynamic_dims: is 64, want less than 64");
  EXPECT_EQ(Refusal([](auto& s) { s.mutable_tangents()->RemoveLast(); }),
            "spec.tangents: there are 2, by its outputs there are 3");
  EXPECT_EQ(Refusal([](auto& s) { s.mutable_tangents(1)->add_sizes(4); }), "spec.tangents[1]: 1 sizes and 0 strides");
  EXPECT_EQ(Refusal([](auto& s) {
              s.mutable_tangents(0)->add_sizes(4);
              s.mutable_tangents(0)->add_strides(-1);
            }),
            "spec.tangents[0]: a negative size or stride");
}

TEST(CallSpec, ViewsAreNamesAndNumbers) {
  const auto view = [](const std::function<void(v1::CallSpec::ViewStep*)>& change) {
    return Refusal([&](v1::CallSpec& s) { change(s.mutable_outputs(1)->mutable_views(0)); });
  };
  for (const std::string name : {"", "view", "__import__", "os.system_ViewMeta", "a b_ViewMeta"}) {
    EXPECT_EQ(view([&](auto* s) { s->set_name(name); }), "spec.outputs[1].views: a view step whose name is none");
  }
  EXPECT_EQ(view([](auto* s) { s->add_args()->set_s("text"); }),
            "spec.outputs[1].views: an argument of view_ViewMeta that is no number, flag or dtype");
  EXPECT_EQ(view([](auto* s) { s->mutable_args(1)->mutable_list()->add_items()->mutable_list(); }),
            "spec.outputs[1].views: an argument of view_ViewMeta that is no number, flag or dtype");
}

TEST(CallSpec, TheBackwardTakesWhatIsSavedAndTheTangents) {
  CallShape shape = kShape;
  shape.backward_inputs = 5;
  EXPECT_EQ(CheckCallSpec(Spec(), shape).message(),
            "spec.backward's inputs: saved and tangents: is 6, the compiled code has 5");
}

// 3 <= s1 and s0 % 8 == 0.
v1::Variant Divisible() {
  v1::Variant variant;
  for (int i = 0; i < 2; ++i) {
    v1::Symbol* symbol = variant.mutable_syms()->add_symbols();
    symbol->set_min(0);
    symbol->set_max(100);
  }
  const auto expr = [&](v1::SymExpr::Op op, int64_t value, const std::vector<uint32_t>& args) {
    v1::SymExpr* e = variant.mutable_syms()->add_exprs();
    e->set_op(op);
    e->set_value(value);
    for (const uint32_t arg : args) e->add_args(arg);
  };
  expr(v1::SymExpr::SYMBOL, 0, {});
  expr(v1::SymExpr::SYMBOL, 1, {});
  expr(v1::SymExpr::CONST, 8, {});
  expr(v1::SymExpr::MOD, 0, {0, 2});
  expr(v1::SymExpr::CONST, 0, {});
  expr(v1::SymExpr::CONST, 3, {});
  const auto predicate = [&](v1::Predicate::Op op, uint32_t lhs, uint32_t rhs) {
    v1::Predicate* p = variant.add_predicates();
    p->set_op(op);
    p->set_lhs(lhs);
    p->set_rhs(rhs);
  };
  predicate(v1::Predicate::EQ, 3, 4);
  predicate(v1::Predicate::LE, 5, 1);
  return variant;
}

TEST(Predicates, HoldOfValuesOrDoNot) {
  const auto holds = [](const std::vector<int64_t>& values) { return PredicatesHold(Divisible(), values).value(); };
  EXPECT_TRUE(holds({16, 3}));
  EXPECT_FALSE(holds({16, 2}));
  EXPECT_FALSE(holds({17, 3}));
  EXPECT_FALSE(holds({104, 3}));  // out of the symbol's range
  EXPECT_FALSE(holds({16}));
  EXPECT_TRUE(PredicatesHold(v1::Variant(), {}).value());
}

TEST(Predicates, HostileOnesAreRefused) {
  v1::Variant forward = Divisible();
  forward.mutable_syms()->mutable_exprs(3)->set_args(0, 5);
  EXPECT_EQ(CheckPredicates(forward).code(), absl::StatusCode::kInvalidArgument);
  v1::Variant missing = Divisible();
  missing.mutable_predicates(1)->set_rhs(6);
  EXPECT_EQ(CheckPredicates(missing).message(), "predicates[1]: there is no such expression");
  v1::Variant unknown = Divisible();
  unknown.mutable_predicates(0)->set_op(v1::Predicate::OP_UNSPECIFIED);
  EXPECT_EQ(CheckPredicates(unknown).message(), "predicates[0].op: unknown value 0");
  v1::Variant zero = Divisible();
  zero.mutable_syms()->mutable_exprs(2)->set_value(0);
  EXPECT_FALSE(PredicatesHold(zero, std::vector<int64_t>{16, 3}).value());  // divides by zero: holds of nothing
}

}  // namespace
}  // namespace kiln
