// Derivatives against central differences, in f64, through the reference interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "compiler/graph/builder.h"
#include "compiler/graph/interp.h"
#include "compiler/graph/text.h"
#include "compiler/ops/eval.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/testing.h"

namespace kiln {
namespace {

constexpr double kStep = 1e-5, kTolerance = 1e-7;
constexpr int64_t kIndices = 3;

std::vector<double> ElementsOf(const HostArray& array) {
  std::vector<double> elements;
  for (size_t at = 0; at < array.data.size(); at += ByteSize(array.dtype)) {
    elements.push_back(ToDouble(array.dtype, std::string_view(array.data).substr(at)));
  }
  return elements;
}

void SetElement(HostArray& array, size_t i, double x) {
  array.data.replace(i * ByteSize(array.dtype), ByteSize(array.dtype), FromDouble(array.dtype, x));
}

std::vector<HostArray> Results(const Graph& graph, const std::vector<HostValue>& inputs) {
  const absl::StatusOr<GraphResult> result = Interpret(graph, inputs, EvalRecord);
  EXPECT_TRUE(result.ok()) << result.status();
  std::vector<HostArray> arrays;
  if (!result.ok()) return arrays;
  for (const HostValue& value : result->outputs) arrays.push_back(std::get<HostArray>(value));
  return arrays;
}

// A graph of one node, its derivative, and the inputs of both.
class Derivative {
 public:
  explicit Derivative(const std::string& text) : text_(text) {
    absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph("graph inference\n" + text, ResolveOp);
    EXPECT_TRUE(graph.ok()) << graph.status() << "\n" << text;
    if (graph.ok()) graph_ = *std::move(graph);
  }

  void Check() {
    if (graph_ == nullptr) return;
    for (const GraphInput& input : graph_->inputs()) inputs_.push_back(Draw(*graph_->type(input.value)));
    const std::vector<HostArray> values = Results(*graph_, inputs_);
    std::vector<HostValue> all = inputs_;
    for (const HostArray& value : values) {
      HostArray cotangent = value;
      for (size_t i = 0; i < ElementsOf(value).size(); ++i) SetElement(cotangent, i, Uniform(-1, 1));
      cotangents_.push_back(cotangent);
      all.push_back(std::move(cotangent));
    }
    std::vector<size_t> of;  // the input that each output of the derivative is of
    const std::shared_ptr<const Graph> backward = Backward(of);
    if (backward == nullptr) return;
    const std::vector<HostArray> gradients = Results(*backward, all);
    ASSERT_EQ(gradients.size(), of.size());
    for (size_t k = 0; k < of.size(); ++k) Compare(of[k], gradients[k]);
  }

 private:
  double Uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }

  // Floats away from where logarithms, roots and relus are not smooth, inside the samples of a record of one operand;
  // indices; bools.
  HostArray Draw(const TensorType& type) {
    HostArray array{type.dtype, {}, {}};
    int64_t count = 1;
    for (const Sym size : type.sizes) {
      array.sizes.push_back(*graph_->syms().AsConst(size));
      count *= array.sizes.back();
    }
    const OpDef& def = *graph_->nodes()[0].def;
    double low = 0.2, high = 1.8;
    if (graph_->inputs().size() == 1 && !def.samples.empty()) {
      low = std::max(low, def.samples[0].low + 0.1);
      high = std::min(high, def.samples[0].high - 0.1);
    }
    for (int64_t i = 0; i < count; ++i) {
      const double x = IsFloat(type.dtype)          ? Uniform(low, high)
                       : type.dtype == DType::kBool ? static_cast<double>(random_() % 2)
                                                    : static_cast<double>(random_() % kIndices);
      array.data += FromDouble(type.dtype, x);
    }
    return array;
  }

  std::shared_ptr<const Graph> Backward(std::vector<size_t>& of) {
    GraphBuilder b(graph_->shared_syms());
    for (const GraphInput& input : graph_->inputs()) b.AddInput(*graph_->type(input.value));
    const Node& node = graph_->nodes()[0];
    std::vector<ValueId> cotangents;
    GraphBuilder::ResultTypes types;
    for (uint32_t r = 0; r < node.num_results; ++r) {
      const TensorType& type = *graph_->type(node.first_result + r);
      cotangents.push_back(b.AddInput(type));
      types.push_back(type);
    }
    b.AddNode(graph_->op_name(node), node.def, node.args, types);
    const Node copy = b.graph().nodes()[0];
    EXPECT_NE(copy.def->vjp, nullptr) << text_;
    if (copy.def->vjp == nullptr) return nullptr;
    const Grads grads = copy.def->vjp(b, Call(b.graph(), copy), cotangents);
    EXPECT_TRUE(b.status().ok()) << b.status() << "\n" << text_;
    size_t k = 0;
    ForEachValue(copy.args, [&](ValueId v) {
      EXPECT_LT(k, grads.size()) << text_;
      if (k < grads.size() && grads[k] != kNoValue) {
        b.AddOutput(grads[k]);
        of.push_back(v);
      }
      ++k;
    });
    EXPECT_EQ(k, grads.size()) << text_;
    absl::StatusOr<std::shared_ptr<const Graph>> built = b.Build();
    EXPECT_TRUE(built.ok()) << built.status();
    return built.ok() ? *built : nullptr;
  }

  // The cotangents' product with the results, input `input`'s element i being x.
  double ProductAt(size_t input, size_t i, double x) {
    std::vector<HostValue> moved = inputs_;
    SetElement(std::get<HostArray>(moved[input]), i, x);
    double sum = 0;
    const std::vector<HostArray> values = Results(*graph_, moved);
    for (size_t o = 0; o < values.size(); ++o) {
      const std::vector<double> y = ElementsOf(values[o]), c = ElementsOf(cotangents_[o]);
      for (size_t e = 0; e < y.size(); ++e) sum += y[e] * c[e];
    }
    return sum;
  }

  void Compare(size_t input, const HostArray& gradient) {
    const HostArray& at = std::get<HostArray>(inputs_[input]);
    ASSERT_TRUE(IsFloat(at.dtype)) << text_;
    const std::vector<double> x = ElementsOf(at), got = ElementsOf(gradient);
    ASSERT_EQ(got.size(), x.size()) << text_;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = (ProductAt(input, i, x[i] + kStep) - ProductAt(input, i, x[i] - kStep)) / (2 * kStep);
      EXPECT_NEAR(got[i], want, kTolerance * std::max(1.0, std::fabs(want)))
          << text_ << "\ninput " << input << ", element " << i << ", which is " << x[i];
    }
  }

  const std::string text_;
  std::shared_ptr<const Graph> graph_;
  std::mt19937 random_{11};
  std::vector<HostValue> inputs_;
  std::vector<HostArray> cotangents_;
};

const std::vector<std::string> kCases = {
    "%0 = input f64[2, 3]\n%1 = relu(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = tanh(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = sigmoid(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = silu(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = gelu(%0, \"none\") : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = gelu(%0, \"tanh\") : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = softshrink(%0, 0.75) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = neg(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = reciprocal(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = add(%0, %1, 2) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 1]\n%1 = input f64[2, 3]\n%2 = sub(%0, %1, 3) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[]\n%2 = mul(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = mul(%0, 0.5) : f64[2, 3]\nreturn %1",
    "%0 = input f64[3]\n%1 = input f64[2, 3]\n%2 = div(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = rsqrt(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = exp(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = log(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = sqrt(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = sin(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = cos(%0) : f64[2, 3]\nreturn %1",
    "%0 = input bool[2, 3]\n%1 = input f64[3]\n%2 = input f64[2, 1]\n%3 = where(%0, %1, %2) : f64[2, 3]\nreturn %3",
    "%0 = input f64[2, 6]\n%1 = view(%0, [3, 4]) : f64[3, 4]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = t(%0) : f64[3, 2]{1, 3}\nreturn %1",
    "%0 = input f64[2, 3, 4]\n%1 = transpose(%0, 0, -1) : f64[4, 3, 2]{1, 4, 12}\nreturn %1",
    "%0 = input f64[2, 3, 4]\n%1 = permute(%0, [2, 0, 1]) : f64[4, 2, 3]{1, 12, 4}\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = unsqueeze(%0, 1) : f64[2, 1, 3]\nreturn %1",
    "%0 = input f64[2, 1, 3]\n%1 = squeeze_dim(%0, 1) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 1]\n%1 = expand(%0, [4, 2, 3], false) : f64[4, 2, 3]{0, 1, 0}\nreturn %1",
    "%0 = input f64[7, 2]\n%1 = slice(%0, 0, 1, -1, 2) : f64[3, 2]{4, 1}\nreturn %1",
    "%0 = input f64[7, 2]\n%1 = slice(%0, 0, none, none, 3) : f64[3, 2]{6, 1}\nreturn %1",
    "%0 = input f64[3, 4]\n%1 = select(%0, 1, -2) : f64[3]{4}\nreturn %1",
    "%0 = input f64[5, 2]\n%1, %2, %3 = split(%0, 2, 0) : f64[2, 2], f64[2, 2], f64[1, 2]\nreturn %1, %2, %3",
    "%0 = input f64[2, 3]\n%1 = alias(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = clone(%0, none) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = convert_element_type(%0, dtype:f64) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 1]\n%2 = cat([%0, %1], 1) : f64[2, 4]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = constant_pad_nd(%0, [1, 2, 0, 1], 0.5) : f64[3, 6]\nreturn %1",
    "%0 = input f64[3, 3]\n%1 = tril(%0, 1) : f64[3, 3]\nreturn %1",
    "%0 = input f64[3, 3]\n%1 = triu(%0, 0) : f64[3, 3]\nreturn %1",
    "%0 = input f64[3, 2]\n%1 = input i64[4]\n%2 = embedding(%0, %1, -1, false, false) : f64[4, 2]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input i64[2, 4]\n%2 = gather(%0, 1, %1, false) : f64[2, 4]\nreturn %2",
    "%0 = input f64[3, 4, 3]\n%1 = input i64[2]\n%2 = input i64[2]\n"
    "%3 = index(%0, [%1, none, %2]) : f64[2, 4]\nreturn %3",
    "%0 = input f64[3, 4]\n%1 = cumsum(%0, -1, none) : f64[3, 4]\nreturn %1",
    "%0 = input f64[2, 3, 4]\n%1 = sum_dim(%0, [0, 2], false, none) : f64[3]\nreturn %1",
    "%0 = input f64[2, 3, 4]\n%1 = mean_dim(%0, [-1], true, none) : f64[2, 3, 1]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = sum(%0, none) : f64[]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = mean(%0, none) : f64[]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = leaky_relu(%0, 0.1) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = softplus(%0, 2, 20) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = hardtanh(%0, -1, 1) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = hardsigmoid(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = hardswish(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = elu(%0, 1, 2, 1) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = celu(%0, 2.0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = mish(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = threshold(%0, 0.7, 0.0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = sigmoid_backward(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = tanh_backward(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = silu_backward(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = gelu_backward(%0, %1, \"none\") : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = gelu_backward(%0, %1, \"tanh\") : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = threshold_backward(%0, %1, 0.7) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = leaky_relu_backward(%0, %1, 0.1, false) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = hardtanh_backward(%0, %1, -1, 1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = hardsigmoid_backward(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = hardswish_backward(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input bool[2, 3]\n%2 = native_dropout_backward(%0, %1, 2.0) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = abs(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = rsub(%0, %1, 3) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = lerp(%0, %1, 0.3) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = input f64[2, 1]\n%3 = lerp(%0, %1, %2) : f64[2, 3]\nreturn %3",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = input f64[2, 1]\n%3 = addcmul(%0, %1, %2, 2.0) : f64[2, 3]\nreturn "
    "%3",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = input f64[2, 1]\n%3 = addcdiv(%0, %1, %2, 2.0) : f64[2, 3]\nreturn "
    "%3",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = copy(%0, %1, false) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = maximum(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = minimum(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = clamp_min(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = clamp_min(%0, 0.7) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = clamp_max(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = clamp_max(%0, 0.7) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input bool[3]\n%2 = input f64[]\n%3 = masked_fill(%0, %1, %2) : f64[2, 3]\nreturn %3",
    "%0 = input f64[2, 3]\n%1 = erf(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = exp2(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = expm1(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = log1p(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = log2(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = log10(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = pow_scalar(%0, 2.5) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = pow(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = pow(2.0, %0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[3, 2]\n%1 = input i64[4]\n%2 = index_select(%0, 0, %1) : f64[4, 2]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = flip(%0, [0, 1]) : f64[2, 3]\nreturn %1",
    "%0 = input f64[3, 2]\n%1 = slice_backward(%0, [7, 2], 0, 1, 6, 2) : f64[7, 2]\nreturn %1",
    "%0 = input f64[3]\n%1 = select_backward(%0, [3, 4], 1, -2) : f64[3, 4]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[2, 3]\n%2 = stack([%0, %1], 1) : f64[2, 2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = roll(%0, [1, -2], [0, 1]) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[2]\n%2 = select_scatter(%0, %1, 1, -1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[5, 2]\n%1 = input f64[2, 2]\n%2 = slice_scatter(%0, %1, 0, 1, 4, 2) : f64[5, 2]\nreturn %2",
    "%0 = input f64[1, 2, 4, 5]\n%1 = avg_pool2d(%0, [2, 2], [2, 1], [1, 0], false, true, none) : f64[1, 2, 3, "
    "4]\nreturn %1",
    "%0 = input f64[4, 2, 3]\n%1 = pixel_shuffle(%0, 2) : f64[1, 4, 6]\nreturn %1",
    "%0 = input f64[1, 4, 6]\n%1 = pixel_unshuffle(%0, 2) : f64[4, 2, 3]\nreturn %1",
    "%0 = input f64[2, 3, 4]\n%1 = amax(%0, [0, 2], false) : f64[3]\nreturn %1",
    "%0 = input f64[2, 3, 4]\n%1 = amin(%0, [0, 2], false) : f64[3]\nreturn %1",
    "%0 = input f64[4, 2]\n%1 = input i64[4]\n%2 = embedding_dense_backward(%0, %1, 3, 1, false) : f64[3, 2]\nreturn "
    "%2",
    "%0 = input f64[3, 2]\n%1 = input i64[4]\n%2 = input f64[4, 2]\n%3 = index_add(%0, 0, %1, %2, 1) : f64[3, "
    "2]\nreturn %3",
    "%0 = input f64[2, 3]\n%1 = input i64[2, 4]\n%2 = input f64[2, 4]\n%3 = scatter_add(%0, 1, %1, %2) : f64[2, "
    "3]\nreturn %3",
    "%0 = input f64[2, 3]\n%1 = frac(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = erfc(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = erfinv(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = lgamma(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = special_entr(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = logaddexp(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = logaddexp2(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = fmod(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = acos(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = asin(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = acosh(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = asinh(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = atan(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = atanh(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = sinh(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = cosh(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = tan(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = atan2(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 3]\n%1 = input f64[3]\n%2 = hypot(%0, %1) : f64[2, 3]\nreturn %2",
    "%0 = input f64[2, 1, 3]\n%1 = squeeze(%0) : f64[2, 3]\nreturn %1",
    "%0 = input f64[2, 1, 3]\n%1 = squeeze_dims(%0, [1]) : f64[2, 3]\nreturn %1",
    "%0 = input f64[5, 2]\n%1, %2 = split_with_sizes(%0, [2, 3], 0) : f64[2, 2], f64[3, 2]\nreturn %1, %2",
    "%0 = input f64[3, 2]\n%1, %2 = unbind(%0, 1) : f64[3]{2}, f64[3]{2}\nreturn %1, %2",
};

TEST(Vjp, CentralDifferences) {
  for (const std::string& text : kCases) Derivative(text).Check();
}

TEST(Vjp, EveryRuleIsChecked) {
  std::set<std::string> checked;
  for (const std::string& text : kCases) {
    absl::StatusOr<std::shared_ptr<const Graph>> graph = ParseGraph("graph inference\n" + text, ResolveOp);
    ASSERT_TRUE(graph.ok()) << graph.status() << "\n" << text;
    checked.insert(std::string((*graph)->nodes()[0].def->name()));
  }
  checked.insert("to_copy");  // convert_element_type under another name
  for (const OpDef* def : AllOps()) {
    const std::string name(def->name());
    if (def->vjp != nullptr) EXPECT_TRUE(checked.contains(name)) << name << " has a .vjp: add a case to kCases";
    if (checked.contains(name)) EXPECT_NE(def->vjp, nullptr) << name << " has a case in kCases and no .vjp";
  }
}

}  // namespace
}  // namespace kiln
