#include "client/cpp/runtime.h"

#include <map>
#include <thread>

#include "client/cpp/fake_torch.h"
#include "client/cpp/storage_pool.h"
#include "client/cpp/testing.h"

namespace kiln {
namespace {

// --- kernels ---

// buffers: x, y; sizes: none. y[i] = 2 * x[i]
void Twice(void* const* buffers, const int64_t*, int64_t begin, int64_t end, int64_t*) {
  const auto* x = static_cast<const float*>(buffers[0]);
  auto* y = static_cast<float*>(buffers[1]);
  for (int64_t i = begin; i < end; ++i) y[i] = 2 * x[i];
}

// buffers: index (f32, for brevity), y; sizes: bound. Check 4 fails for an index outside [0, bound).
void Checked(void* const* buffers, const int64_t* sizes, int64_t begin, int64_t end, int64_t* error) {
  const auto* x = static_cast<const float*>(buffers[0]);
  for (int64_t i = begin; i < end; ++i) {
    if (x[i] < 0 || x[i] >= static_cast<float>(sizes[0])) __atomic_store_n(error, 5, __ATOMIC_RELAXED);
  }
}

// --- fixture ---

struct Result {
  absl::Status status;
  std::vector<std::vector<float>> outputs;  // of tensors; empty for what is none
  std::vector<int64_t> sizes;               // of size outputs
};

class RuntimeTest : public testing::Test {
 protected:
  void TearDown() override {
    function_ = nullptr;
    EXPECT_EQ(FakeTensorCount(), 0);
  }

  void Load(const std::string& function, ForeignOps* foreign = nullptr, v1::Artifact artifact = {},
            StoragePool* pool = nullptr) {
    artifact.MergeFrom(ArtifactOf(function, 2));
    absl::StatusOr<Program> program = Program::Build(artifact, 0);
    ASSERT_TRUE(program.ok()) << program.status();
    std::vector<std::string> constants;
    for (const auto& c : artifact.constants()) constants.push_back(c.data());
    absl::StatusOr<std::unique_ptr<Function>> f =
        Function::Create(*std::move(program), &kernels_, constants, &FakeTorch(), foreign, pool);
    ASSERT_TRUE(f.ok()) << f.status();
    function_ = *std::move(f);
  }

  // Calls the function with tensors and integers, in the order of its inputs.
  Result Call(const std::vector<const OwnedTensor*>& tensors, const std::vector<int64_t>& ints = {}) {
    Result result;
    std::unique_ptr<Frame> frame = function_->AcquireFrame();
    size_t t = 0, s = 0;
    for (uint32_t i = 0; i < function_->program().inputs.size(); ++i) {
      const Program::Input& input = function_->program().inputs[i];
      if (input.is_symbol) {
        frame->symbols[input.symbol] = ints[s++];
      } else {
        frame->tensors[i] = tensors[t++]->get();
      }
    }
    result.status = function_->Bind(*frame);
    if (result.status.ok()) result.status = function_->Run(*frame, nullptr);
    for (const Program::Output& out : function_->program().outputs) {
      if (!result.status.ok()) break;
      if (out.kind == Program::Output::Kind::kSize) result.sizes.push_back(frame->slots[out.index]);
      if (out.kind != Program::Output::Kind::kValue) continue;
      if (&function_->program().outputs[out.same_as] != &out) {
        result.outputs.push_back(result.outputs[out.same_as]);
        continue;
      }
      OwnedTensor taken(&FakeTorch(), frame->Take(out.index));
      result.outputs.push_back(FakeValues(taken.get()));
    }
    function_->ReleaseFrame(std::move(frame));
    return result;
  }

  const CpuKernels kernels_{&FakeTorch(), {Twice, Checked}, {"k0", "k1"}};
  std::unique_ptr<Function> function_;
};

using Values = std::vector<float>;

// Sizes 0..6: 4, 1, 0, 2, 8, 16, 3; inputs and tensors of 4.
constexpr char kSyms[] = R"pb(
  name: "f"
  syms {
    exprs { op: CONST value: 4 }
    exprs { op: CONST value: 1 }
    exprs { op: CONST value: 0 }
    exprs { op: CONST value: 2 }
    exprs { op: CONST value: 8 }
    exprs { op: CONST value: 16 }
    exprs { op: CONST value: 3 }
  }
  workspace: 5
)pb";
constexpr char kInput[] = "inputs { type: 0 } values { storage: INPUT dtype: FLOAT32 sizes: 0 strides: 1 }";
constexpr char kTensor[] = "values { storage: TENSOR dtype: FLOAT32 sizes: 0 strides: 1 }";

TEST_F(RuntimeTest, LaunchFillsAnOutput) {
  Load(std::string(kSyms) + kInput + kTensor + R"pb(
    steps { allocate: 1 }
    steps { launch { kernel: 0 buffers: 0 buffers: 1 extent: 0 grain: 0 } }
    outputs { value: 1 }
    outputs { none {} }
    outputs { sym: 5 }
    outputs { value: 1 }
  )pb");
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  for (int call = 0; call < 3; ++call) {
    const Result r = Call({&x});
    ASSERT_TRUE(r.status.ok()) << r.status;
    EXPECT_EQ(r.outputs, (std::vector<Values>{{2, 4, 6, 8}, {2, 4, 6, 8}}));
    EXPECT_EQ(r.sizes, (std::vector<int64_t>{16}));
  }
}

TEST_F(RuntimeTest, OutputsAreMadeOverIdleMemory) {
  StoragePool pool(&FakeTorch());
  Load(R"pb(
         name: "inference"
         syms {
           exprs { op: CONST value: 20000 }
           exprs { op: CONST value: 1 }
           exprs { op: CONST }
         }
         workspace: 2
         inputs { type: 0 }
         values { storage: INPUT dtype: FLOAT32 sizes: 0 strides: 1 }
         values { storage: TENSOR dtype: FLOAT32 sizes: 0 strides: 1 }
         steps { allocate: 1 }
         steps { launch { buffers: 0 buffers: 1 extent: 0 grain: 0 } }
         outputs { value: 1 }
       )pb",
       nullptr, {}, &pool);
  for (int call = 1; call <= 3; ++call) {
    const auto value = static_cast<float>(call);
    const OwnedTensor x = FakeTensor({20000}, Values(20000, value));
    EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{Values(20000, 2 * value)}));
  }
  EXPECT_EQ(pool.Read().fresh, 1);
  EXPECT_EQ(pool.Read().reused, 2);
  function_ = nullptr;
}

TEST_F(RuntimeTest, LargeExtentsRunInParallelChunks) {
  Load(R"pb(
    name: "f"
    syms {
      exprs { op: CONST value: 1000 }
      exprs { op: CONST value: 1 }
      exprs { op: CONST value: 10 }
      exprs { op: CONST }
    }
    workspace: 3
    inputs { type: 0 }
    values { storage: INPUT dtype: FLOAT32 sizes: 0 strides: 1 }
    values { storage: TENSOR dtype: FLOAT32 sizes: 0 strides: 1 }
    steps { allocate: 1 }
    steps { launch { buffers: 0 buffers: 1 extent: 0 grain: 2 } }
    outputs { value: 1 }
  )pb");
  Values in(1000), want(1000);
  for (size_t i = 0; i < in.size(); ++i) want[i] = 2 * (in[i] = static_cast<float>(i));
  const OwnedTensor x = FakeTensor({1000}, in);
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{want}));
}

TEST_F(RuntimeTest, FailedCheckIsAnIndexErrorThatNamesTheNode) {
  Load(std::string(kSyms) + kInput + R"pb(
    steps { launch { kernel: 1 buffers: 0 buffers: 0 sizes: 0 extent: 0 grain: 0 origin: 17 } }
  )pb");
  const OwnedTensor good = FakeTensor({4}, {0, 1, 2, 3}), bad = FakeTensor({4}, {0, 1, 4, 3});
  EXPECT_TRUE(Call({&good}).status.ok());
  const absl::Status status = Call({&bad}).status;
  EXPECT_EQ(status, absl::OutOfRangeError("index out of range in self (node 17, kernel k1, check 4)"));
  EXPECT_TRUE(Call({&good}).status.ok()) << "the word is cleared for the next call";
}

TEST_F(RuntimeTest, WorkspaceHoldsTemporaries) {
  Load(std::string(kSyms) + kInput + kTensor + R"pb(
    values { storage: WORKSPACE dtype: FLOAT32 sizes: 0 strides: 1 offset: 2 }
    steps { launch { buffers: 0 buffers: 2 extent: 0 grain: 0 } }
    steps { allocate: 1 }
    steps { launch { buffers: 2 buffers: 1 extent: 0 grain: 0 } }
    outputs { value: 1 }
  )pb");
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{4, 8, 12, 16}}));
}

TEST_F(RuntimeTest, ViewsShareMemory) {
  // 3 views elements 2 and 3 of the tensor, 2 views 3's second element; the kernel writes into both ends.
  Load(std::string(kSyms) + kInput + kTensor + R"pb(
    values { storage: VIEW dtype: FLOAT32 sizes: 1 strides: 1 base: 3 offset: 1 }
    values { storage: VIEW dtype: FLOAT32 sizes: 3 strides: 1 base: 1 offset: 3 }
    steps { allocate: 1 }
    steps { launch { buffers: 0 buffers: 1 extent: 3 grain: 0 } }
    steps { launch { buffers: 0 buffers: 3 extent: 3 grain: 0 } }
    steps { launch { buffers: 0 buffers: 2 extent: 1 grain: 0 } }
    steps { view: 3 }
    steps { view: 2 }
    outputs { value: 1 }
    outputs { value: 2 }
    outputs { value: 3 }
  )pb");
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{2, 4, 2, 2}, {2}, {2, 2}}));
}

TEST_F(RuntimeTest, ViewsOfNoElementsMayBeAnywhere) {
  const std::string view =
      std::string(kSyms) + kInput + "values { storage: VIEW dtype: FLOAT32 sizes: 2 strides: 1 base: 0 offset: 6 }";
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  Load(view + "steps { view: 1 } outputs { value: 1 }");
  EXPECT_TRUE(Call({&x}).status.ok());
  Load(view + "steps { launch { buffers: 1 buffers: 1 extent: 2 grain: 0 } }");
  EXPECT_TRUE(Call({&x}).status.ok());
}

TEST_F(RuntimeTest, ViewsOutsideTheirBaseAreRefused) {
  const std::string view =
      std::string(kSyms) + kInput + "values { storage: VIEW dtype: FLOAT32 sizes: 3 strides: 1 base: 0 offset: 6 }";
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  Load(view + "steps { view: 1 } outputs { value: 1 }");
  EXPECT_EQ(Call({&x}).status.message(), "value 1: the view does not lie inside its base's storage");
  Load(view + "steps { launch { buffers: 1 buffers: 1 extent: 3 grain: 0 } }");
  EXPECT_EQ(Call({&x}).status.message(), "value 1: the view lies outside its base's memory");
}

TEST_F(RuntimeTest, ViewsOfAnotherDtype) {
  Load(std::string(kSyms) + kInput + R"pb(
    values { storage: VIEW dtype: FLOAT64 sizes: 1 strides: 1 base: 0 offset: 1 }
    values { storage: VIEW dtype: FLOAT32 sizes: 3 strides: 1 base: 1 offset: 2 }
    steps { view: 1 }
    steps { view: 2 }
    steps { release { values: 1 values: 0 } }
    outputs { value: 2 }
  )pb");
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{3, 4}}));
}

TEST_F(RuntimeTest, ArgumentsAreChecked) {
  Load(std::string(kSyms) + kInput + R"pb(
    inputs { type: 0 }
    values { storage: INPUT dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }
    outputs { value: 0 }
    outputs { value: 1 }
  )pb");
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4}), matrix = FakeTensor({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&x, &matrix}).outputs, (std::vector<Values>{{1, 2, 3, 4}, {1, 2, 3, 4}}));
  const OwnedTensor wide = FakeTensor({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Call({&x, &wide}).status.message(), "argument 1 has size 3 in dimension 1, the plan wants 2");
  EXPECT_EQ(Call({&matrix, &matrix}).status.message(), "argument 0 has 2 dimensions, the plan wants 1");
}

TEST_F(RuntimeTest, OtherStridesAreCopiedUnlessWritten) {
  // The kernel reads memory in the plan's order; a column-major argument is brought into it.
  const std::string plan = std::string(kSyms) + R"pb(
    inputs { type: 0 }
    values { storage: INPUT dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }
    values { storage: TENSOR dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }
    steps { allocate: 1 }
    steps { launch { buffers: 0 buffers: 1 extent: 0 grain: 0 } }
    outputs { value: 1 }
  )pb";
  const OwnedTensor columns = FakeStrided({2, 2}, {1, 2}, {1, 2, 3, 4});
  Load(plan);
  EXPECT_EQ(Call({&columns}).outputs, (std::vector<Values>{{2, 6, 4, 8}}));
  EXPECT_EQ(FakeValues(columns.get()), (Values{1, 3, 2, 4}));
  v1::Artifact mutated;
  mutated.mutable_signature()->add_mutated_inputs(0);
  Load(plan, nullptr, mutated);
  EXPECT_EQ(Call({&columns}).status.message(), "argument 0 is written in place and has other strides than the plan's");
}

TEST_F(RuntimeTest, StridesOfSizeOneSayNothing) {
  Load(std::string(kSyms) + R"pb(
    inputs { type: 0 }
    values { storage: INPUT dtype: FLOAT32 sizes: 1 sizes: 3 strides: 3 strides: 1 }
    steps { copy { to: 0 from: 0 } }  # so that it must not be copied
    outputs { value: 0 }
  )pb");
  const OwnedTensor odd = FakeStrided({1, 2}, {99, 1}, {1, 2});
  EXPECT_EQ(Call({&odd}).outputs, (std::vector<Values>{{1, 2}}));
}

TEST_F(RuntimeTest, SymbolicSizes) {
  // y = 2x for x of s0 * 4 elements; s0 is read off the first argument, s1 is given.
  const std::string plan = R"pb(
    name: "f"
    syms {
      symbols { min: 2 max: 100 }
      symbols { min: 0 max: 9 }
      exprs { op: SYMBOL }
      exprs { op: CONST value: 4 }
      exprs { op: MUL args: 0 args: 1 }
      exprs { op: CONST value: 1 }
      exprs { op: SYMBOL value: 1 }
      exprs { op: ADD args: 4 args: 2 }
      exprs { op: CONST value: -20 }
      exprs { op: ADD args: 2 args: 6 }
    }
    workspace: 2
    inputs { type: 0 }
    inputs { sym: 4 }
    values { storage: INPUT dtype: FLOAT32 sizes: 0 sizes: 1 strides: 1 strides: 3 }
    values {}
    values { storage: TENSOR dtype: FLOAT32 sizes: 2 strides: 3 }
    steps { allocate: 2 }
    steps { launch { buffers: 0 buffers: 2 extent: 2 grain: 2 } }
    outputs { value: 2 }
    outputs { sym: 5 }
  )pb";
  Load(plan);
  for (int64_t n : {2, 3, 7}) {
    Values in(static_cast<size_t>(n * 4)), want(in.size());
    for (size_t i = 0; i < in.size(); ++i) want[i] = 2 * (in[i] = static_cast<float>(i + 1));
    const OwnedTensor x = FakeTensor({n, 4}, in);
    const Result r = Call({&x}, {5});
    ASSERT_TRUE(r.status.ok()) << r.status;
    EXPECT_EQ(r.outputs, (std::vector<Values>{want}));
    EXPECT_EQ(r.sizes, (std::vector<int64_t>{n * 4 + 5}));
  }
  const OwnedTensor one = FakeTensor({1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&one}, {5}).status.message(), "symbol s0 is 1; the plan is for [2, 100]");
  Load(plan + "steps { launch { buffers: 0 extent: 7 grain: 2 } }");
  const OwnedTensor two = FakeTensor({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(Call({&two}, {5}).status.message(), "syms.exprs[7] is -12, want at least 0");
}

TEST_F(RuntimeTest, PredicatesGuardTheCall) {
  v1::Artifact artifact;
  v1::Predicate* p = artifact.add_predicates();
  p->set_op(v1::Predicate::EQ);
  p->set_lhs(0);
  p->set_rhs(1);
  Load(R"pb(
         name: "f"
         syms {
           symbols { min: 0 max: 100 }
           exprs { op: SYMBOL }
           exprs { op: CONST value: 8 }
         }
         workspace: 1
         inputs { sym: 0 }
         values {}
         outputs { sym: 0 }
       )pb",
       nullptr, artifact);
  EXPECT_EQ(Call({}, {8}).sizes, (std::vector<int64_t>{8}));
  EXPECT_EQ(Call({}, {9}).status.message(), "the artifact is for other sizes: 9 EQ 8 does not hold");
}

TEST_F(RuntimeTest, CopyWritesInPlace) {
  Load(std::string(kSyms) + kInput + R"pb(
    values { storage: WORKSPACE dtype: FLOAT32 sizes: 0 strides: 1 offset: 2 }
    steps { launch { buffers: 0 buffers: 1 extent: 0 grain: 0 } }
    steps { copy { to: 0 from: 1 } }
  )pb");
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  EXPECT_TRUE(Call({&x}).status.ok());
  EXPECT_EQ(FakeValues(x.get()), (Values{2, 4, 6, 8}));
}

TEST_F(RuntimeTest, CopyBetweenStrides) {
  // Rows of the source into columns of the argument.
  Load(std::string(kSyms) + R"pb(
    inputs { type: 0 }
    inputs { type: 0 }
    values { storage: INPUT dtype: FLOAT32 sizes: 3 sizes: 3 strides: 1 strides: 3 }
    values { storage: INPUT dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }
    steps { copy { to: 0 from: 1 } }
  )pb");
  const OwnedTensor to = FakeStrided({2, 2}, {1, 2}, {0, 0, 0, 0}), from = FakeTensor({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(Call({&to, &from}).status.ok());
  EXPECT_EQ(FakeValues(to.get()), (Values{1, 2, 3, 4}));
}

TEST_F(RuntimeTest, ConstantsAreTensors) {
  v1::Artifact artifact;
  const float values[] = {1, 2, 3, 4};
  artifact.add_constants()->set_data(values, sizeof values);
  Load(std::string(kSyms) + R"pb(
         values { storage: CONSTANT dtype: FLOAT32 sizes: 0 strides: 1 base: 0 }
         values { storage: TENSOR dtype: FLOAT32 sizes: 0 strides: 1 }
         steps { allocate: 1 }
         steps { launch { buffers: 0 buffers: 1 extent: 0 grain: 0 } }
         outputs { value: 1 }
         outputs { value: 0 }
       )pb",
       nullptr, artifact);
  for (int call = 0; call < 2; ++call) {
    EXPECT_EQ(Call({}).outputs, (std::vector<Values>{{2, 4, 6, 8}, {1, 2, 3, 4}}));
  }
}

// --- external calls ---

constexpr char kMatrix[] = R"pb(
  inputs { type: 0 }
  values { storage: INPUT dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }
)pb";

std::string ExternalStep(const std::string& op, const std::string& schema, const std::string& rest) {
  return "steps { external { origin: 3 op: \"" + op + "\" schema: \"" + schema + "\" " + rest + " } }";
}

TEST_F(RuntimeTest, MatmulWritesIntoItsResult) {
  const std::string mm = ExternalStep("aten.mm.default", "aten::mm(Tensor self, Tensor mat2) -> Tensor",
                                      "args { value: 0 } args { value: 0 } results: 1");
  const OwnedTensor x = FakeTensor({2, 2}, {1, 2, 3, 4});
  const std::string shape = "dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }";
  Load(std::string(kSyms) + kMatrix + "values { storage: EXTERNAL " + shape + mm + "outputs { value: 1 }");
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{7, 10, 15, 22}}));
  Load(std::string(kSyms) + kMatrix + "values { storage: TENSOR " + shape + "steps { allocate: 1 }" + mm +
       "outputs { value: 1 }");
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{7, 10, 15, 22}}));
}

TEST_F(RuntimeTest, AddmmTakesItsScales) {
  Load(std::string(kSyms) + kMatrix +
       "values { storage: EXTERNAL dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }" +
       ExternalStep("aten.addmm.default",
                    "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                    "args { value: 0 } args { value: 0 } args { value: 0 } args { i: 10 } args { f: 0.5 } results: 1") +
       "outputs { value: 1 }");
  const OwnedTensor x = FakeTensor({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{13.5, 25, 37.5, 51}}));
}

TEST_F(RuntimeTest, DispatcherTakesLists) {
  Load(std::string(kSyms) + kInput + "values { storage: EXTERNAL dtype: FLOAT32 sizes: 4 strides: 1 }" +
       ExternalStep("aten.cat.default", "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
                    "args { list { items { value: 0 } items { value: 0 } } } args { i: 0 } results: 1") +
       "steps { release { values: 0 } } outputs { value: 1 }");
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{1, 2, 3, 4, 1, 2, 3, 4}}));
}

TEST_F(RuntimeTest, ResultsGetThePlansStrides) {
  // The kernel would see the elements in the wrong order if the result kept the strides that it came with.
  Load(std::string(kSyms) + kMatrix + R"pb(
         values { storage: EXTERNAL dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }
         values { storage: TENSOR dtype: FLOAT32 sizes: 3 sizes: 3 strides: 3 strides: 1 }
       )pb" +
       ExternalStep("test.transposed.default", "test::transposed(Tensor self) -> Tensor",
                    "args { value: 0 } results: 1") +
       R"pb(
         steps { allocate: 2 }
         steps { launch { buffers: 1 buffers: 2 extent: 0 grain: 0 } }
         outputs { value: 2 }
       )pb");
  const OwnedTensor x = FakeTensor({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{2, 4, 6, 8}}));
}

TEST_F(RuntimeTest, NoneResults) {
  const std::string schema = "test::none(int i) -> (Tensor, Tensor)";
  Load(std::string(kSyms) +
       ExternalStep("test.none.default", schema, "args { i: 1 } results: 4294967295 results: 4294967295"));
  EXPECT_TRUE(Call({}).status.ok());
  Load(std::string(kSyms) + "values { storage: EXTERNAL dtype: FLOAT32 }" +
       ExternalStep("test.none.default", schema, "args { i: 1 } results: 4294967295 results: 0"));
  EXPECT_EQ(Call({}).status.message(), "test.none.default (node 3), result 1 is None, the plan wants a tensor");
}

TEST_F(RuntimeTest, ErrorsNameOpAndNode) {
  Load(std::string(kSyms) + ExternalStep("test.fails.default", "test::fails() -> ()", ""));
  EXPECT_EQ(Call({}).status,
            absl::OutOfRangeError("test.fails.default (node 3): index 9 is out of bounds for dimension 0 with size 3"));
  Load(std::string(kSyms) + ExternalStep("test.missing.default", "test::missing() -> ()", ""));
  EXPECT_EQ(Call({}).status, absl::InternalError("test.missing.default (node 3): no such op: test::missing"));
}

// Adds a Scalar: test.add(Tensor self, Scalar other).
class ForeignAdd : public ForeignOps {
 public:
  class Add : public ForeignCall {
    absl::Status Run(const ExternalCall& call, const CallContext& context,
                     std::vector<TensorHandle>* results) override {
      Values values = FakeValues(context.tensors[call.args[0].index]);
      for (float& v : values) v += static_cast<float>(call.args[1].f);
      results->push_back(FakeTensor({4}, values).release());
      return absl::OkStatus();
    }
  };
  absl::StatusOr<std::unique_ptr<ForeignCall>> Resolve(const ExternalCall& call) override {
    if (call.op != "test.add.default") return absl::NotFoundError("nothing but test.add");
    return std::make_unique<Add>();
  }
};

TEST_F(RuntimeTest, ScalarArgumentsGoToTheHost) {
  const std::string add = std::string(kSyms) + kInput +
                          "values { storage: EXTERNAL dtype: FLOAT32 sizes: 0 strides: 1 }" +
                          ExternalStep("test.add.default", "test::add(Tensor self, Scalar other) -> Tensor",
                                       "args { value: 0 } args { f: 0.5 } results: 1") +
                          "outputs { value: 1 }";
  ForeignAdd foreign;
  Load(add, &foreign);
  const OwnedTensor x = FakeTensor({4}, {1, 2, 3, 4});
  EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{1.5, 2.5, 3.5, 4.5}}));
  function_ = nullptr;
  const Program program = *Program::Build(ArtifactOf(add), 0);
  EXPECT_EQ(BoundExternal::Bind(program.externals[0], program, FakeTorch(), nullptr).status().message(),
            "test.add.default: the dispatcher shim refuses Scalar arguments");
}

TEST_F(RuntimeTest, ThreadsCallOneFunction) {
  Load(std::string(kSyms) + kInput + kTensor + R"pb(
    values { storage: WORKSPACE dtype: FLOAT32 sizes: 0 strides: 1 offset: 2 }
    steps { launch { buffers: 0 buffers: 2 extent: 0 grain: 1 } }
    steps { allocate: 1 }
    steps { launch { buffers: 2 buffers: 1 extent: 0 grain: 1 } }
    outputs { value: 1 }
  )pb");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const float v = static_cast<float>(t);
      const OwnedTensor x = FakeTensor({4}, {v, v + 1, v + 2, v + 3});
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(Call({&x}).outputs, (std::vector<Values>{{4 * v, 4 * v + 4, 4 * v + 8, 4 * v + 12}}));
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace kiln
