// Generated from the records: every pointwise `lower`, run by the loop interpreter, against its fp64 `ref` over its
// samples and all element types that it takes; and every `narrow` against its `lower`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/graph/builder.h"
#include "compiler/graph/interp.h"
#include "compiler/ops/eval.h"
#include "compiler/ops/named_args.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/testing.h"

namespace kiln {
namespace {

constexpr DType kTested[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                             DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

// Significant bits, and the exponent of the smallest subnormal.
struct FloatShape {
  int bits, lowest;
};
FloatShape ShapeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {11, -24};
    case DType::kBFloat16:
      return {8, -133};
    case DType::kFloat32:
      return {24, -149};
    default:
      return {53, -1074};
  }
}

double UlpAt(double magnitude, DType dtype) {
  const FloatShape shape = ShapeOf(dtype);
  int exponent = 0;
  std::frexp(std::fabs(magnitude), &exponent);
  return std::ldexp(1.0, std::max(exponent - shape.bits, shape.lowest));
}

std::vector<double> SpecialValues(DType dtype) {
  if (!IsFloat(dtype)) return {0, 1, 2, 3};
  const double inf = std::numeric_limits<double>::infinity();
  const FloatShape shape = ShapeOf(dtype);
  const double tiny = std::ldexp(1.0, shape.lowest), largest = ToDouble(dtype, FromDouble(dtype, LargestFinite(dtype)));
  return {NAN, inf, -inf, 0.0, -0.0, 1, -1, 0.5, -2, tiny, -tiny, largest, -largest};
}

class RecordTest : public testing::TestWithParam<const OpDef*> {};

// One node of the record, applied to vectors.
class Trial {
 public:
  Trial(const OpDef& def, const Sample& sample, DType dtype)
      : def_(def), sample_(sample), dtype_(dtype), random_(static_cast<uint32_t>(dtype)) {}

  // False if eager or the record does not take these operands.
  bool Prepare() {
    OpBuilder b(graph_);
    const absl::StatusOr<std::vector<Arg>> args = MakeArgs();
    if (!args.ok()) {
      ADD_FAILURE() << args.status();
      return false;
    }
    const std::vector<ValueId> results = b.Add(def_, *args);
    if (results.empty()) return false;
    graph_.AddOutput(results[0]);
    if (def_.narrow != nullptr) {
      const Node node = graph_.graph().nodes()[0];
      const Values same = def_.narrow(graph_, Call(graph_.graph(), node));
      if (!same.empty()) graph_.AddOutput(same[0]);
    }
    built_ = *graph_.Build();
    return HasMeaning(Call(*built_, built_->nodes()[0]));
  }

  void Run() {
    const absl::StatusOr<GraphResult> result = Interpret(*built_, inputs_, EvalRecord);
    ASSERT_TRUE(result.ok()) << result.status();
    const HostArray& got = std::get<HostArray>(result->outputs[0]);
    const Call call(*built_, built_->nodes()[0]);
    for (int64_t k = 0; k < count_; ++k) Compare(call, k, got);
    if (result->outputs.size() == 1) return;
    const HostArray& narrowed = std::get<HostArray>(result->outputs[1]);
    for (int64_t k = 0; k < count_; ++k) {
      const double x = Element(got, k), y = Element(narrowed, k);
      EXPECT_TRUE((x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y)))
          << Describe(RefArgsOf(call, k), x, y, got.dtype) << ", as without .narrow";
    }
  }

 private:
  // Masks are bools whatever the rest is.
  static bool IsMask(const SchemaArg& arg) { return arg.name == "mask" || arg.name == "condition"; }

  absl::StatusOr<std::vector<Arg>> MakeArgs() {
    const Schema& schema = SchemaOf(def_);
    const NamedArgs named(sample_.args);
    std::vector<const SchemaArg*> tensors;
    for (const SchemaArg& arg : schema.args) {
      const bool may_be = arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorOrScalar;
      if (may_be && !named.Find(arg.name) && !arg.default_text) tensors.push_back(&arg);
    }
    std::vector<double> special = SpecialValues(dtype_);
    for (const SchemaArg& arg : schema.args) {
      if (arg.kind != ArgKind::kScalar || !named.Find(arg.name)) continue;
      const absl::StatusOr<Arg> number = named.Make(arg, graph_.syms());
      const double* x = number.ok() ? std::get_if<double>(&number->v) : nullptr;
      if (x != nullptr) special.push_back(ToDouble(dtype_, FromDouble(dtype_, *x)));
    }
    count_ = 64;
    if (sample_.special) count_ = static_cast<int64_t>(std::pow(special.size(), tensors.size()));
    std::vector<Arg> args;
    int64_t stride = 1;
    for (const SchemaArg& arg : schema.args) {
      if (std::ranges::find(tensors, &arg) != tensors.end()) {
        const DType dtype = IsMask(arg) ? DType::kBool : dtype_;
        args.push_back(Arg{ValueRef{AddOperand(dtype, special, stride)}});
        stride *= static_cast<int64_t>(special.size());
        continue;
      }
      absl::StatusOr<Arg> value = named.Make(arg, graph_.syms());
      if (!value.ok()) return value.status();
      args.push_back(*std::move(value));
    }
    return args;
  }

  ValueId AddOperand(DType dtype, const std::vector<double>& special, int64_t stride) {
    std::uniform_real_distribution<double> uniform(sample_.low, sample_.high);
    HostArray array{dtype, {count_}, {}};
    for (int64_t k = 0; k < count_; ++k) {
      double value = sample_.special ? special[static_cast<size_t>(k / stride) % special.size()] : uniform(random_);
      if (dtype == DType::kBool) value = value > 0;
      if (IsUnsignedInt(dtype)) value = std::fabs(value);
      array.data += FromDouble(dtype, value);
    }
    inputs_.push_back(array);
    SymContext& syms = graph_.syms();
    return graph_.AddInput({.dtype = dtype, .sizes = {syms.Const(count_)}, .strides = {syms.Const(1)}});
  }

  // Argument i of element k as `ref` gets it.
  double RefArg(const Call& call, size_t i, int64_t k) const {
    const Promote promote = def_.promote;
    double value = call.Number(i);
    if (call.is_tensor(i)) {
      const HostArray& array = std::get<HostArray>(inputs_[call.value(i)]);
      value = ToDouble(array.dtype, array.data.substr(static_cast<size_t>(k) * ByteSize(array.dtype)));
      if (IsMask(SchemaOf(def_).args[i])) return value;
    }
    // A parameter comes in the compute dtype.
    const bool parameter = SchemaOf(def_).args[i].kind == ArgKind::kScalar && IsFloat(dtype_);
    if (parameter && !call.is_none(i)) return ToDouble(ComputeDType(dtype_), FromDouble(ComputeDType(dtype_), value));
    if (promote == Promote::kNone || !IsOperand(def_, i) || call.is_none(i)) return value;
    const DType promoted = PromotedDType(call);
    return ToDouble(promoted, FromDouble(promoted, value));
  }

  std::vector<double> RefArgsOf(const Call& call, int64_t k) const {
    std::vector<double> x;
    for (size_t i = 0; i < call.num_args(); ++i) x.push_back(RefArg(call, i, k));
    return x;
  }

  static double Element(const HostArray& array, int64_t k) {
    return ToDouble(array.dtype, array.data.substr(static_cast<size_t>(k) * ByteSize(array.dtype)));
  }

  void Compare(const Call& call, int64_t k, const HostArray& got_array) const {
    const std::vector<double> x = RefArgsOf(call, k);
    const double exact = def_.ref({call, x});
    const DType dtype = got_array.dtype;
    const double got = Element(got_array, k);
    const double rounded = ToDouble(dtype, FromDouble(dtype, exact));
    if (got == rounded || (std::isnan(got) && std::isnan(rounded))) return;
    double tolerance = 0;
    if (IsFloat(dtype) && std::isfinite(exact)) {
      const DType compute = ComputeDType(dtype);
      // The fp64 answer has an error of its own.
      const double budget = def_.budget.ulp + (compute == DType::kFloat64 ? 2 : 0);
      tolerance = budget * UlpAt(std::max(std::fabs(exact), def_.budget.floor), compute);
      if (compute != dtype) tolerance += def_.budget.result_ulp * UlpAt(exact, dtype);
    }
    EXPECT_LE(std::fabs(got - exact), tolerance) << Describe(x, exact, got, dtype);
  }

  std::string Describe(const std::vector<double>& x, double exact, double got, DType dtype) const {
    std::string text = absl::StrCat(std::string(def_.name()), "[", std::string(Name(dtype_)), "](");
    for (double v : x) absl::StrAppend(&text, " ", v);
    const std::string args = sample_.args.empty() ? "" : absl::StrCat(" with ", std::string(sample_.args));
    return absl::StrCat(text, " )", args, " = ", got, " as ", std::string(Name(dtype)), ", should be ", exact);
  }

  const OpDef& def_;
  const Sample& sample_;
  const DType dtype_;
  std::mt19937 random_;
  GraphBuilder graph_{std::make_shared<SymContext>()};
  std::shared_ptr<const Graph> built_;
  std::vector<HostValue> inputs_;
  int64_t count_ = 0;
};

TEST_P(RecordTest, LowerAgreesWithRef) {
  int trials = 0;
  for (const Sample& sample : GetParam()->samples) {
    for (DType dtype : kTested) {
      Trial trial(*GetParam(), sample, dtype);
      if (!trial.Prepare()) continue;
      ++trials;
      trial.Run();
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(trials, static_cast<int>(GetParam()->samples.size()));
}

std::vector<const OpDef*> WithRef() {
  std::vector<const OpDef*> defs;
  for (const OpDef* def : AllOps()) {
    if (def->ref != nullptr) defs.push_back(def);
  }
  return defs;
}

INSTANTIATE_TEST_SUITE_P(AllRecords, RecordTest, testing::ValuesIn(WithRef()),
                         [](const auto& info) { return std::string(info.param->name()); });

}  // namespace
}  // namespace kiln
