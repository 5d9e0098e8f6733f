#include "server/explain.h"

#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

namespace kiln {
namespace {

// Inputs: float32[8, s0] (contiguous), a parameter float32[16], an int s0.
constexpr char kGuards[] = R"(
  syms {
    symbols { min: 2 max: 9223372036854775807 }
    exprs { op: CONST value: 8 } exprs { op: SYMBOL value: 0 } exprs { op: CONST value: 1 }
    exprs { op: CONST value: 16 } exprs { op: CONST value: 0 }
  }
  types { dtype: FLOAT32 device: CPU sizes: [ 0, 1 ] strides: [ 1, 2 ] }
  types { dtype: FLOAT32 device: CPU sizes: [ 3 ] strides: [ 2 ] }
  inputs { kind: TENSOR type: 0 storage_offset: 4 is_leaf: true }
  inputs { kind: TENSOR type: 1 storage_offset: 4 is_leaf: true requires_grad: true is_static: true }
  inputs { kind: SYMINT type: 1 }
  globals { name: "autocast" value: "off" }
  globals { name: "grad_mode" value: "True" }
)";

constexpr char kGraph[] = R"(
  ops { name: "torch.relu" } ops { name: "method:reshape" }
  nodes { op: 0 args { value: 0 } }
  nodes { op: 1 args { value: 3 } args { i: 8 } args { tuple { items { i: -1 } items { sym: 1 } } } }
)";

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

v1::KeyPart Part(const std::string& name, const std::string& value, bool printable = true) {
  v1::KeyPart part;
  part.set_name(name);
  part.set_sha256(absl::StrCat("sha of ", value));
  if (printable) part.set_value(value);
  return part;
}

// As the server would have it of a look-up.
struct Request {
  v1::GuardSpec guards = Parse<v1::GuardSpec>(kGuards);
  v1::Graph graph = Parse<v1::Graph>(kGraph);
  std::string level = "TORCH", precision = "EAGER", torch = "2.13.0", build = "0123456789ab";

  ExplainedEntry Entry() const {
    ExplainedEntry out;
    out.key_parts = {Part("level", level),
                     Part("graph", graph.SerializeAsString(), false),
                     Part("guards", guards.SerializeAsString(), false),
                     Part("precision", precision),
                     Part("torch", torch),
                     Part("build", build)};
    out.guards = guards;
    if (level == "TORCH") out.graph = graph;
    for (const v1::KeyPart& part : out.key_parts) absl::StrAppend(&out.key, part.sha256());
    return out;
  }
};

using Change = std::function<void(Request&)>;

Comparison After(const Change& change) {
  Request after;
  change(after);
  return Compare(Request().Entry(), after.Entry());
}

// "guards: input 0: dim 0: 8 -> 16", one a line.
std::string Text(const Comparison& comparison) {
  std::string out;
  for (const v1::Difference& d : comparison.differences) {
    EXPECT_FALSE(d.advice().empty()) << d.what();
    absl::StrAppend(&out, out.empty() ? "" : "\n", d.part(), d.what().empty() ? "" : ": ", d.what(), ": ", d.before(),
                    " -> ", d.after());
  }
  return out;
}

std::string Guards(const std::function<void(v1::GuardSpec&)>& change) {
  return Text(After([&](Request& r) { change(r.guards); }));
}

uint32_t AddConstant(v1::GuardSpec& g, int64_t value) {
  v1::SymExpr* e = g.mutable_syms()->add_exprs();
  e->set_op(v1::SymExpr::CONST);
  e->set_value(value);
  return static_cast<uint32_t>(g.syms().exprs_size() - 1);
}

TEST(Explain, ASize) {
  const Comparison c = After([](Request& r) { r.guards.mutable_syms()->mutable_exprs(0)->set_value(16); });
  EXPECT_EQ(Text(c), "guards: input 0: dim 0: 8 -> 16");
  EXPECT_EQ(c.differences[0].advice(),
            "mark the dimension dynamic: torch._dynamo.mark_dynamic(x, 0), or compile with dynamic=True");
  EXPECT_EQ(c.graphs, Comparison::Graphs::kSame);
  EXPECT_EQ(c.count, 1u);
}

TEST(Explain, ASizeThatBecameDynamic) {
  // Symbols are numbered by first use: what was s0 is s1 now, and no difference.
  const Comparison c = After([](Request& r) {
    v1::SymTable& syms = *r.guards.mutable_syms();
    syms.add_symbols()->set_max(1000);
    *syms.mutable_symbols(1) = syms.symbols(0);
    syms.mutable_exprs(0)->set_op(v1::SymExpr::SYMBOL);
    syms.mutable_exprs(0)->set_value(0);
    syms.mutable_exprs(1)->set_value(1);
  });
  EXPECT_EQ(Text(c), "guards: input 0: dim 0: 8 -> s0");
  EXPECT_EQ(c.differences[0].advice().find("torch learns that a size varies at its second value"), 0u);
}

TEST(Explain, SizesZeroAndOneAndParametersAreTheirOwnMatter) {
  const Comparison one = After([](Request& r) { r.guards.mutable_syms()->mutable_exprs(0)->set_value(1); });
  EXPECT_EQ(Text(one), "guards: input 0: dim 0: 8 -> 1");
  EXPECT_EQ(one.differences[0].advice().find("torch compiles sizes 0 and 1 apart"), 0u);
  const Comparison parameter = After([](Request& r) { r.guards.mutable_syms()->mutable_exprs(3)->set_value(32); });
  EXPECT_EQ(Text(parameter), "guards: input 1: dim 0: 16 -> 32");
  EXPECT_EQ(parameter.differences[0].advice().find("a parameter of another size"), 0u);
}

TEST(Explain, SizesThatHangTogetherInAnotherWay) {
  EXPECT_EQ(Guards([](v1::GuardSpec& g) {
              g.mutable_syms()->add_symbols()->set_max(9);
              v1::SymExpr* e = g.mutable_syms()->add_exprs();
              e->set_op(v1::SymExpr::SYMBOL);
              e->set_value(1);
              g.mutable_inputs(2)->set_type(5);
            }),
            "guards: input 2: s0 -> s1");
  EXPECT_EQ(Guards([](v1::GuardSpec& g) {
              v1::SymExpr* e = g.mutable_syms()->add_exprs();
              e->set_op(v1::SymExpr::MUL);
              e->add_args(0);
              e->add_args(1);
              g.mutable_inputs(2)->set_type(5);
            }),
            "guards: input 2: s0 -> 8*s0");
}

TEST(Explain, TypesAndStrides) {
  EXPECT_EQ(Guards([](v1::GuardSpec& g) { g.mutable_types(0)->set_dtype(v1::BFLOAT16); }),
            "guards: input 0: dtype: float32 -> bfloat16");
  EXPECT_EQ(Guards([](v1::GuardSpec& g) { g.mutable_types(0)->set_device(v1::CUDA); }),
            "guards: input 0: device: cpu -> cuda");
  EXPECT_EQ(Guards([](v1::GuardSpec& g) {
              g.mutable_types(0)->set_strides(0, 2);
              g.mutable_types(0)->set_strides(1, 0);
            }),
            "guards: input 0: strides: [s0, 1] -> [1, 8]");
  EXPECT_EQ(Guards([](v1::GuardSpec& g) {
              g.mutable_types(0)->add_sizes(2);
              g.mutable_types(0)->add_strides(2);
            }),
            "guards: input 0: sizes: [8, s0] -> [8, s0, 1]");
  // A size and the strides that follow from it are one difference; a gap is another.
  const auto resized = [](int64_t stride) {
    return Guards([&](v1::GuardSpec& g) {
      g.mutable_types(0)->set_sizes(1, AddConstant(g, 32));
      g.mutable_types(0)->set_strides(0, AddConstant(g, stride));
    });
  };
  EXPECT_EQ(resized(32), "guards: input 0: dim 1: s0 -> 32");
  EXPECT_EQ(resized(64), "guards: input 0: dim 1: s0 -> 32\nguards: input 0: strides: [s0, 1] -> [64, 1]");
}

TEST(Explain, WhatElseIsGuardedOfAnInput) {
  EXPECT_EQ(Guards([](v1::GuardSpec& g) {
              v1::GuardSpec::InputGuard& input = *g.mutable_inputs(0);
              input.set_requires_grad(true);
              input.set_is_static(true);
              input.set_alias_group(2);
              input.set_storage_offset(0);
              input.set_is_leaf(false);
              input.set_is_view(true);
              input.set_is_inference(true);
            }),
            "guards: input 0: requires_grad: False -> True\n"
            "guards: input 0: parameter or buffer: False -> True\n"
            "guards: input 0: storage: its own -> shared by group 2\n"
            "guards: input 0: storage offset: 0 -> 8\n"
            "guards: input 0: leaf: True -> False\n"
            "guards: input 0: view: False -> True\n"
            "guards: input 0: made in inference mode: False -> True");
  EXPECT_EQ(Guards([](v1::GuardSpec& g) { g.mutable_inputs()->RemoveLast(); }), "guards: number of inputs: 3 -> 2");
  EXPECT_EQ(Guards([](v1::GuardSpec& g) { g.mutable_inputs(2)->set_kind(v1::GuardSpec::InputGuard::TENSOR); }),
            "guards: input 2: an int -> a tensor");
}

TEST(Explain, OffsetsAreOfLookUpsOnly) {
  Request before, after;
  before.level = after.level = "JOINT";
  after.guards.mutable_inputs(0)->set_storage_offset(0);
  after.guards.mutable_inputs(0)->set_is_view(true);
  EXPECT_EQ(Text(Compare(before.Entry(), after.Entry())), "guards: input 0: view: False -> True");
}

TEST(Explain, RangesAndConditions) {
  EXPECT_EQ(Guards([](v1::GuardSpec& g) {
              g.mutable_syms()->mutable_symbols(0)->set_max(64);
              v1::Predicate* p = g.add_predicates();
              p->set_op(v1::Predicate::LT);
              p->set_lhs(1);
              p->set_rhs(0);
            }),
            "guards: s0: range: at least 2 -> 2 to 64\n"
            "guards: conditions on sizes: 0 -> 1, with s0 < 8");
}

TEST(Explain, GlobalStateByName) {
  const Comparison c = After([](Request& r) {
    r.guards.mutable_globals(1)->set_value("False");
    r.guards.mutable_globals(0)->set_name("default_dtype");
    r.guards.mutable_globals(0)->set_value("float64");
  });
  EXPECT_EQ(Text(c),
            "guards: default_dtype:  -> float64\n"
            "guards: grad_mode: True -> False\n"
            "guards: autocast: off -> ");
  EXPECT_EQ(c.differences[1].advice().find("the code ran with gradients and without"), 0u);
  EXPECT_EQ(c.differences[2].advice().find("enter torch.autocast alike"), 0u);
}

TEST(Explain, PartsOfTheKey) {
  const Comparison c = After([](Request& r) {
    r.build = "ba9876543210";
    r.precision = "FAST";
    r.torch = "2.13.1";
  });
  EXPECT_EQ(Text(c), "precision: EAGER -> FAST\ntorch: 2.13.0 -> 2.13.1\nbuild: 0123456789ab -> ba9876543210");
  EXPECT_EQ(c.differences[0].advice(), "set the option precision (KILN_PRECISION) alike in all jobs");
  EXPECT_EQ(c.differences[2].advice(), "the server was upgraded: prewarm when you deploy");
}

TEST(Explain, Graphs) {
  const Comparison other = After([](Request& r) { r.graph.mutable_ops(0)->set_name("torch.sin"); });
  EXPECT_EQ(Text(other), "graph: node 0: torch.relu -> torch.sin");
  EXPECT_EQ(other.graphs, Comparison::Graphs::kOther);
  EXPECT_EQ(Text(After([](Request& r) { r.graph.add_nodes(); })), "graph: number of nodes: 2 -> 3");
  const Comparison number = After([](Request& r) { r.graph.mutable_nodes(1)->mutable_args(1)->set_i(16); });
  EXPECT_EQ(Text(number), "graph: node 1 method:reshape: argument 1: 8 -> 16");
  EXPECT_EQ(number.graphs, Comparison::Graphs::kSameOperations);
  EXPECT_EQ(Text(After([](Request& r) {
              r.graph.mutable_nodes(1)->mutable_args(2)->mutable_tuple()->mutable_items(0)->set_s("x");
            })),
            "graph: node 1 method:reshape: argument 2: (-1, a size) -> ('x', a size)");
  EXPECT_EQ(Text(After([](Request& r) { r.graph.mutable_nodes(0)->add_keywords("inplace"); })),
            "graph: node 0 torch.relu: keywords:  -> inplace");
  EXPECT_EQ(After([](Request& r) { r.graph.add_outputs(); }).differences[0].advice(),
            "the same operations, over other constants or with other outputs");
}

TEST(Explain, AGraphThatStatesNoMoreThanTheGuards) {
  const auto change = [](Request& r) {
    r.guards.mutable_syms()->mutable_exprs(0)->set_value(16);
    *r.graph.mutable_syms() = r.guards.syms();
    r.graph.mutable_nodes(1)->mutable_args(2)->mutable_tuple()->mutable_items(1)->set_i(16);  // a size before
  };
  EXPECT_EQ(Text(After(change)), "guards: input 0: dim 0: 8 -> 16");
  // Of compiled code the graph is not kept.
  Request before, after;
  before.level = after.level = "JOINT";
  change(after);
  const Comparison code = Compare(before.Entry(), after.Entry());
  EXPECT_EQ(code.differences[0].what(), "input 0: dim 0");
  EXPECT_EQ(code.differences[1].part(), "graph");
  EXPECT_EQ(code.differences[1].before().substr(0, 7), "sha256 ");
  EXPECT_EQ(code.differences[1].advice().find("the graph states sizes and types too"), 0u);
  after.guards = before.guards;
  EXPECT_EQ(Compare(before.Entry(), after.Entry()).differences[0].advice(), "another program, or another branch of it");
}

TEST(Explain, VariantsOfOneLookUp) {
  ExplainedEntry before = Request().Entry(), after = before;
  EXPECT_EQ(Text(Compare(before, after)), "");
  after.syms = Request().guards.syms();
  v1::Predicate& p = after.predicates.emplace_back();
  p.set_op(v1::Predicate::LE);
  p.set_lhs(0);
  p.set_rhs(1);
  after.ns = "uid:1";
  before.ns = "uid:2";
  EXPECT_EQ(Text(Compare(before, after)), "namespace: uid:2 -> uid:1\npredicates: any size -> 8 <= s0");
  after.key = "another";
  after.ns = before.ns;
  EXPECT_EQ(Text(Compare(before, after)), "request:  -> ");
}

TEST(Explain, WhatIsGoneIsADigest) {
  Request changed;
  changed.guards.clear_globals();
  ExplainedEntry before = Request().Entry();
  before.guards.reset();
  const Comparison c = Compare(before, changed.Entry());
  EXPECT_EQ(c.differences[0].part(), "guards");
  EXPECT_EQ(c.differences[0].what(), "");
  EXPECT_EQ(c.differences[0].before().substr(0, 7), "sha256 ");
}

TEST(Explain, IsBounded) {
  const Comparison c = After([](Request& r) {
    for (int i = 0; i < 100; ++i) r.guards.add_globals()->set_name(absl::StrCat("g", i, std::string(1000, 'x')));
  });
  EXPECT_EQ(c.count, 100u);
  EXPECT_EQ(c.differences.size(), kMaxDifferences);
  EXPECT_LE(c.differences[0].what().size(), 210u);
}

TEST(Explain, BadTablesAreNoHarm) {
  const Comparison c = After([](Request& r) {
    r.guards.mutable_types(0)->set_sizes(0, 99);
    r.guards.mutable_inputs(1)->set_type(99);
    r.guards.mutable_syms()->mutable_exprs(1)->set_value(-5);
    r.guards.mutable_syms()->add_exprs()->add_args(4000000000u);
    r.graph.mutable_nodes(0)->set_op(99);
  });
  EXPECT_GT(c.count, 0u);
}

TEST(Explain, Nearness) {
  const Comparison same = After([](Request& r) {
    r.torch = "2.13.1";
    r.precision = "FAST";
  });
  const Comparison size = After([](Request& r) { r.graph.mutable_nodes(1)->mutable_args(1)->set_i(16); });
  const Comparison other = After([](Request& r) { r.graph.mutable_ops(0)->set_name("torch.sin"); });
  const Comparison one = After([](Request& r) { r.torch = "2.13.1"; });
  EXPECT_TRUE(IsNearer(same, size));
  EXPECT_TRUE(IsNearer(size, other));
  EXPECT_TRUE(IsNearer(one, same));
  EXPECT_FALSE(IsNearer(same, same));
}

}  // namespace
}  // namespace kiln
