#include "client/cpp/program.h"

#include "client/cpp/testing.h"

namespace kiln {
namespace {

// Sizes: 0 is 3, 1 is 1, 2 is 0, 3 is symbol s0, 4 is s0 * 3, 5 is 36.
constexpr char kSyms[] = R"pb(
  name: "f"
  syms {
    symbols { min: 1 max: 1000 }
    exprs { op: CONST value: 3 }
    exprs { op: CONST value: 1 }
    exprs { op: CONST }
    exprs { op: SYMBOL }
    exprs { op: MUL args: 3 args: 0 }
    exprs { op: CONST value: 36 }
  }
  workspace: 5
)pb";
// A 3x3 input, a tensor like it, and a workspace value of 36 bytes.
constexpr char kValues[] = R"pb(
  inputs { type: 0 }
  values { storage: INPUT dtype: FLOAT32 sizes: 0 sizes: 0 strides: 0 strides: 1 }
  values { storage: TENSOR dtype: FLOAT32 sizes: 0 sizes: 0 strides: 0 strides: 1 }
  values { storage: WORKSPACE dtype: FLOAT32 sizes: 0 sizes: 0 strides: 0 strides: 1 offset: 2 }
)pb";

std::string Refusal(const v1::Artifact& artifact) {
  absl::StatusOr<Program> program = Program::Build(artifact, 0);
  if (program.ok()) return "accepted";
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(program.status().message());
}

std::string Refusal(const std::string& steps) { return Refusal(ArtifactOf(std::string(kSyms) + kValues + steps, 1)); }

TEST(Program, FlattensSteps) {
  absl::StatusOr<Program> p = Program::Build(
      ArtifactOf(std::string(kSyms) + kValues + R"pb(
                   steps { launch { buffers: 0 buffers: 2 sizes: 0 sizes: 5 extent: 0 grain: 1 origin: 7 } }
                   steps { allocate: 1 }
                   steps { copy { to: 1 from: 2 } }
                   steps { release { values: 0 } }
                   outputs { value: 1 }
                   outputs { none {} }
                   outputs { sym: 0 }
                   outputs { value: 1 }
                 )pb",
                 1),
      0);
  ASSERT_TRUE(p.ok()) << p.status();
  ASSERT_EQ(p->steps.size(), 4u);
  EXPECT_EQ(p->steps[0].kind, Program::Step::Kind::kLaunch);
  EXPECT_EQ(p->launches[0].origin, 7u);
  EXPECT_EQ(p->slots[p->launches[0].sizes], 3);
  EXPECT_EQ(p->slots[p->launches[0].sizes + 1], 36);
  EXPECT_EQ(p->buffers, (std::vector<uint32_t>{0, 2}));
  EXPECT_TRUE(p->inputs[0].released);
  EXPECT_FALSE(p->inputs[0].returned);
  EXPECT_TRUE(p->values[0].needs_data);
  EXPECT_EQ(p->outputs[3].same_as, 0u);
  EXPECT_EQ(p->slots[p->outputs[2].index], 3);
  EXPECT_EQ(p->slots[p->workspace], 36);
  EXPECT_TRUE(p->dynamic_slots.empty());
}

TEST(Program, IndicesOutOfRangeAreRefused) {
  EXPECT_EQ(Refusal("steps { allocate: 9 }"), "function f: step 0: no value 9");
  EXPECT_EQ(Refusal("steps { view: 4294967295 }"), "function f: step 0: no value 4294967295");
  EXPECT_EQ(Refusal("steps { launch { kernel: 1 extent: 0 grain: 1 } }"), "function f: step 0: no kernel 1");
  EXPECT_EQ(Refusal("steps { launch { buffers: 8 extent: 0 grain: 1 } }"), "function f: step 0: no value 8");
  EXPECT_EQ(Refusal("steps { launch { sizes: 6 extent: 0 grain: 1 } }"), "function f: step 0: size expression 6 of 6");
  EXPECT_EQ(Refusal("steps { release { values: 3 } }"), "function f: step 0: no value 3");
  EXPECT_EQ(Refusal("steps { copy { to: 0 from: 3 } }"), "function f: step 0: no value 3");
  EXPECT_EQ(Refusal("steps { }"), "function f: step 0: unknown kind");
  EXPECT_EQ(Refusal("outputs { value: 3 }"), "function f: output 0: no value 3");
  EXPECT_EQ(Refusal("outputs { sym: 77 }"), "function f: output 0: size expression 77 of 6");
  EXPECT_EQ(Refusal("outputs { }"), "function f: output 0: unknown kind");
  EXPECT_EQ(Refusal("values { storage: TENSOR dtype: FLOAT32 sizes: 0 }"),
            "function f: value 3: as many strides as sizes, please");
  EXPECT_EQ(Refusal("values { storage: VIEW dtype: FLOAT32 base: 3 }"), "function f: value 3: no base 3");
  EXPECT_EQ(Refusal("values { storage: CONSTANT dtype: FLOAT32 }"), "function f: value 3: no constant 0");
  EXPECT_EQ(Refusal("values { storage: TENSOR }"), "function f: value 3: unknown dtype");
  EXPECT_EQ(Refusal("values { dtype: FLOAT32 }"), "function f: value 3: unknown storage");
  EXPECT_EQ(Refusal("values { storage: INPUT dtype: FLOAT32 }"),
            "function f: value 3: inputs are the first values, all of them");
}

TEST(Program, ValuesLiveOnceAndAreUsedWhileTheyLive) {
  EXPECT_EQ(Refusal("steps { allocate: 1 } steps { allocate: 1 }"), "function f: step 1: value 1 comes to life twice");
  EXPECT_EQ(Refusal("steps { allocate: 0 }"), "function f: step 0: value 0 has storage INPUT");
  EXPECT_EQ(Refusal("steps { launch { buffers: 1 extent: 0 grain: 1 } }"),
            "function f: step 0: value 1 has no memory here");
  EXPECT_EQ(Refusal("steps { release { values: 0 } } steps { release { values: 0 } }"),
            "function f: step 1: value 0 has no tensor here");
  EXPECT_EQ(Refusal("steps { release { values: 0 values: 0 } }"), "function f: step 0: value 0 has no tensor here");
  EXPECT_EQ(Refusal("steps { release { values: 0 } } steps { copy { to: 0 from: 2 } }"),
            "function f: step 1: value 0 has no memory here");
  EXPECT_EQ(Refusal("outputs { value: 1 }"), "function f: output 0: value 1 has no tensor here");
  EXPECT_EQ(Refusal("outputs { value: 2 }"), "function f: output 0: value 2 has no tensor here");
  EXPECT_EQ(Refusal("steps { release { values: 0 } } outputs { value: 0 }"),
            "function f: output 0: value 0 has no tensor here");
}

TEST(Program, ViewsKeepTheirBasesMemory) {
  const std::string view = "values { storage: VIEW dtype: FLOAT32 base: 0 offset: 1 }";
  EXPECT_EQ(Refusal(view + "steps { view: 3 } steps { release { values: 0 } } outputs { value: 3 }"), "accepted");
  EXPECT_EQ(Refusal(view + "steps { release { values: 0 } } steps { view: 3 }"),
            "function f: step 1: value 0 has no tensor here");
  EXPECT_EQ(Refusal(view + "steps { release { values: 0 } } steps { launch { buffers: 3 extent: 0 grain: 1 } }"),
            "function f: step 1: value 3 has no memory here");
  EXPECT_EQ(Refusal("values { storage: VIEW dtype: FLOAT32 base: 4 } values { storage: VIEW dtype: FLOAT32 base: 3 }"),
            "function f: value 3: views nest too deep");
}

TEST(Program, ViewsComeAfterTheirBases) {
  absl::StatusOr<Program> p = Program::Build(ArtifactOf(std::string(kSyms) + kValues + R"pb(
                                                          values { storage: VIEW dtype: FLOAT32 base: 4 offset: 1 }
                                                          values { storage: VIEW dtype: FLOAT32 base: 0 offset: 1 }
                                                          steps { launch { buffers: 3 extent: 0 grain: 1 } }
                                                        )pb",
                                                        1),
                                             0);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->views, (std::vector<uint32_t>{4, 3}));
  EXPECT_EQ(p->first_view, (std::vector<uint32_t>{0, 2, 2, 2, 2, 2}));
}

TEST(Program, ConstantSizesMustMakeSense) {
  const std::string head = "name: \"f\" syms { exprs { op: CONST value: -1 } exprs { op: CONST value: 8 } } ";
  const auto refused = [&](const std::string& rest) { return Refusal(ArtifactOf(head + rest, 1)); };
  EXPECT_EQ(refused("workspace: 0"), "function f: syms.exprs[0] is -1, want at least 0");
  EXPECT_EQ(refused("workspace: 1 values { storage: TENSOR dtype: BOOL sizes: 0 strides: 1 }"),
            "function f: value 0: syms.exprs[0] is -1, want at least 0");
  EXPECT_EQ(refused("workspace: 1 values { storage: WORKSPACE dtype: FLOAT64 offset: 1 }"),
            "function f: value 0 does not lie inside the workspace of 8 bytes");
  EXPECT_EQ(refused("workspace: 1 steps { launch { extent: 1 grain: 0 } }"),
            "function f: step 0: syms.exprs[0] is -1, want at least 1");
}

TEST(Program, SymbolsComeFromArgumentsElseFromShapes) {
  const std::string tensor = "values { storage: INPUT dtype: FLOAT32 sizes: 0 sizes: 3 strides: 3 strides: 1 }";
  absl::StatusOr<Program> shape = Program::Build(ArtifactOf(std::string(kSyms) + "inputs { type: 0 }" + tensor), 0);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->symbols[0].from, Program::SymbolSource::From::kSize);
  EXPECT_EQ(shape->symbols[0].dim, 1u);
  absl::StatusOr<Program> argument =
      Program::Build(ArtifactOf(std::string(kSyms) + "inputs { type: 0 } inputs { sym: 3 }" + tensor + "values {}"), 0);
  ASSERT_TRUE(argument.ok()) << argument.status();
  EXPECT_EQ(argument->symbols[0].from, Program::SymbolSource::From::kArgument);
  EXPECT_EQ(argument->symbols[0].input, 1u);
  EXPECT_EQ(Refusal("outputs { sym: 4 }"), "function f: output 0: syms.exprs[4] needs a symbol that no input gives");
  EXPECT_EQ(Refusal(ArtifactOf(std::string(kSyms) + "inputs { sym: 0 } values {}")),
            "function f: input 0: `sym` is not a symbol");
}

TEST(Program, ExternalCallsFollowTheirSchema) {
  const auto call = [](const std::string& body) {
    return Refusal(
        "values { storage: EXTERNAL dtype: FLOAT32 sizes: 0 sizes: 0 strides: 0 strides: 1 } steps { external { " +
        body + " } }");
  };
  const std::string mm = "op: \"aten.mm.default\" schema: \"aten::mm(Tensor self, Tensor mat2) -> Tensor\" ";
  EXPECT_EQ(call(mm + "args { value: 0 } args { value: 0 } results: 3"), "accepted");
  EXPECT_EQ(call(mm + "args { value: 0 } args { value: 0 } results: 4294967295"), "accepted");
  EXPECT_EQ(call(mm + "args { value: 0 } results: 3"),
            "function f: step 0: aten.mm.default: the schema has 2 arguments, the call 1");
  EXPECT_EQ(call(mm + "args { value: 0 } args { i: 2 } results: 3"), "accepted");  // Python's business
  EXPECT_EQ(call(mm + "args { value: 0 } args { s: \"2\" } results: 3"),
            "function f: step 0: aten.mm.default: argument mat2: is not a tensor");
  EXPECT_EQ(call(mm + "args { value: 0 } args { none {} } results: 3"), "accepted");  // a tensor without a value
  EXPECT_EQ(call(mm + "args { value: 0 } args { value: 1 } results: 3"),
            "function f: step 0: value 1 has no tensor here");
  EXPECT_EQ(call(mm + "args { value: 0 } args { value: 2 } results: 3"),
            "function f: step 0: value 2 has no tensor here");
  EXPECT_EQ(call(mm + "args { value: 0 } args { value: 0 } results: 3 results: 3"),
            "function f: step 0: aten.mm.default: the schema has 1 results, the call 2");
  EXPECT_EQ(call(mm + "args { value: 0 } args { value: 0 } results: 0"),
            "function f: step 0: value 0 has storage INPUT");
  EXPECT_EQ(call("op: \"aten.bmm.default\" schema: \"aten::mm(Tensor a) -> Tensor\" "),
            "function f: step 0: aten.bmm.default: the schema is that of aten.mm.default");
  EXPECT_EQ(call("op: \"aten.f.x\" schema: \"aten::f.x(Tensor[] a) -> Tensor\" results: 3 "
                 "args { list { items { value: 0 } items { value: 9 } } }"),
            "function f: step 0: no value 9");
  EXPECT_EQ(call("op: \"aten.f.x\" schema: \"aten::f.x(Stream s) -> Tensor\" results: 3 args { i: 1 }"),
            "function f: step 0: aten.f.x: argument s: has a value that its type does not take, or a type that is not "
            "supported");
}

TEST(Program, ArgumentsBecomeWhatTheSchemaWants) {
  absl::StatusOr<Program> p = Program::Build(
      ArtifactOf(std::string(kSyms) + kValues + R"pb(
        steps {
          external {
            op: "aten.f.x"
            schema: "aten::f.x(float a, int[2] b, bool? c, Tensor?[] d, SymInt e, Scalar f, Generator g) -> ()"
            args { i: 2 }
            args { i: 5 }
            args { b: true }
            args {
              list {
                items { none {} }
                items { value: 0 }
              }
            }
            args { sym: 5 }
            args { f: 0.5 }
            args { none {} }
          }
        }
      )pb"),
      0);
  ASSERT_TRUE(p.ok()) << p.status();
  using Kind = CallArg::Kind;
  const ExternalCall& call = p->externals[0];
  EXPECT_EQ(call.args[0].kind, Kind::kFloat);
  EXPECT_EQ(call.args[0].f, 2.0);
  EXPECT_EQ(call.args[1].kind, Kind::kList);
  EXPECT_EQ(call.args[1].i, 2) << "one int for a list of two";
  EXPECT_EQ(call.items[call.args[1].index + 1].i, 5);
  EXPECT_TRUE(call.args[2].boxed);
  EXPECT_EQ(call.items[call.args[3].index].kind, Kind::kNone);
  EXPECT_TRUE(call.items[call.args[3].index + 1].boxed);
  EXPECT_EQ(p->slots[call.args[4].index], 36);
  EXPECT_EQ(call.args[5].kind, Kind::kFloat);
  EXPECT_EQ(call.args[6].kind, Kind::kNone);
}

TEST(Program, WrittenInputsAreKnown) {
  v1::Artifact artifact = ArtifactOf(std::string(kSyms) + kValues + R"pb(
    values { storage: VIEW dtype: FLOAT32 base: 0 offset: 1 }
    steps { copy { to: 3 from: 2 } }
  )pb");
  EXPECT_EQ(Refusal(artifact), "function f: step 0: copy of value 2 to 3: shapes differ");
  *artifact.mutable_functions(0)->mutable_values(3) = artifact.functions(0).values(0);
  artifact.mutable_functions(0)->mutable_values(3)->set_storage(v1::PlanValue::VIEW);
  absl::StatusOr<Program> p = Program::Build(artifact, 0);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_TRUE(p->inputs[0].mutated);
  artifact.mutable_signature()->add_mutated_inputs(3);
  EXPECT_EQ(Refusal(artifact), "function f: signature.mutated_inputs: no input 3");
}

}  // namespace
}  // namespace kiln
