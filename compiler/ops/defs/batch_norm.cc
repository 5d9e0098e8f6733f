// Batch norm in all its forms, forward and backward.
//
// Statistics are a mean and then a mean of squared differences from it: two reductions of one channel, as in eager. The
// running statistics are results of their own; what updates a buffer in place is the client's copy of them into it.
#include <utility>

#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

constexpr size_t kNoArg = 99;

// Where a forward form's arguments stand; input, weight and bias are its first three.
struct NormArgs {
  size_t running_mean = kNoArg, running_var = kNoArg;
  size_t training = kNoArg;  // kNoArg: `always_training`
  bool always_training = false;
  size_t momentum = kNoArg, eps = kNoArg;
};

constexpr NormArgs kFunctional{.running_mean = 3, .running_var = 4, .training = 5, .momentum = 6, .eps = 7};
constexpr NormArgs kNoStats{.training = 3, .momentum = 4, .eps = 5};
constexpr NormArgs kNoTraining{.running_mean = 3, .running_var = 4, .momentum = 5, .eps = 6};
constexpr NormArgs kWithUpdate{.running_mean = 3, .running_var = 4, .always_training = true, .momentum = 5, .eps = 6};

bool Has(const Call& call, size_t arg) { return arg != kNoArg && call.is_tensor(arg); }
bool IsTraining(const Call& call, const NormArgs& a) {
  return a.training == kNoArg ? a.always_training : call.Bool(a.training);
}

// All dims but the channels'.
std::vector<int64_t> AcrossChannels(const TensorType& input) {
  std::vector<int64_t> dims = {0};
  for (int64_t d = 2; d < input.rank(); ++d) dims.push_back(d);
  return dims;
}
Sym PerChannel(SymContext& syms, const TensorType& input) {
  Sym count = syms.Const(1);
  for (int64_t d : AcrossChannels(input)) count = syms.Mul(count, input.sizes[d]);
  return count;
}

bool IsFloatWithChannels(const Call& call, size_t input) {
  return IsFloat(call.type(input).dtype) && call.type(input).rank() >= 2 && !IsEmpty(call, input);
}

// Without running statistics there is nothing to evaluate with.
bool SupportsForward(const Call& call, const NormArgs& a) {
  if (!IsFloatWithChannels(call, 0)) return false;
  return IsTraining(call, a) || (Has(call, a.running_mean) && Has(call, a.running_var));
}

struct Statistics {
  ValueId mean, var;  // widened, [C]; var is of the population
};

// Far from zero a mean of f32 sums is off by more than the rounding of the mean, which eager's, of f64 sums, is not.
// The mean of what is left corrects it, in the loop that takes the squares.
Statistics OfBatch(OpBuilder& b, ValueId input) {
  const std::vector<int64_t> dims = AcrossChannels(b.type(input));
  const ValueId near = b.mean_dim(input, dims, true);
  const ValueId centered = b.sub(input, near);
  const ValueId rest = b.mean_dim(centered, dims), square = b.mean_dim(b.mul(centered, centered), dims);
  const std::vector<Sym> channels = {b.type(input).sizes[1]};
  return {b.add(b.view(near, channels), rest), b.sub(square, b.mul(rest, rest))};
}

// (input - mean) * (invstd * weight) + bias
ValueId Normalized(OpBuilder& b, const Call& call, ValueId input, ValueId mean, ValueId invstd) {
  const int64_t rank = b.type(input).rank();
  ValueId scale = invstd;
  if (call.is_tensor(1)) scale = b.mul(scale, WidenedArg(b, call, 1));
  ValueId out = b.mul(b.sub(input, AlongDim(b, mean, 1, rank)), AlongDim(b, scale, 1, rank));
  if (call.is_tensor(2)) out = b.add(out, AlongDim(b, WidenedArg(b, call, 2), 1, rank));
  return AsResult(b, call, out);
}

// The results past the first three: the running statistics after this batch.
void AddRunning(OpBuilder& b, const Call& call, const NormArgs& a, const Statistics& batch, size_t first, Values* out) {
  SymContext& syms = b.syms();
  const double momentum = call.Number(a.momentum);
  const Sym count = PerChannel(syms, call.type(0));
  const auto blend = [&](ValueId now, size_t running) {
    return b.add(b.mul(now, momentum), b.mul(WidenedArg(b, call, running), 1 - momentum));
  };
  const ValueId unbiased = b.div(b.mul(batch.var, count), syms.Sub(count, syms.Const(1)));
  out->push_back(AsResult(b, call, blend(batch.mean, a.running_mean), first));
  out->push_back(AsResult(b, call, blend(unbiased, a.running_var), first + 1));
}

// A result that carries nothing: of no elements, or bytes that only one framework's backward reads.
ValueId Nothing(OpBuilder& b, const Call& call, size_t i) {
  const TensorType& type = call.result(i);
  return b.zeros(type.sizes, type.dtype, std::nullopt, type.device);
}

// out, save_mean, save_invstd; `reserve` more results that carry nothing, and `running` ones with statistics.
Values Forward(GraphBuilder& graph, const Call& call, const NormArgs& a, size_t reserve, bool running) {
  OpBuilder b(graph);
  const ValueId input = WidenedArg(b, call, 0);
  const bool training = IsTraining(call, a);
  const Statistics s = training ? OfBatch(b, input)
                                : Statistics{WidenedArg(b, call, a.running_mean), WidenedArg(b, call, a.running_var)};
  const ValueId invstd = b.rsqrt(b.add(s.var, call.Number(a.eps)));
  Values out = {Normalized(b, call, input, s.mean, invstd)};
  out.push_back(training ? AsResult(b, call, s.mean, 1) : Nothing(b, call, 1));
  out.push_back(training ? AsResult(b, call, invstd, 2) : Nothing(b, call, 2));
  for (size_t i = 0; i < reserve; ++i) out.push_back(Nothing(b, call, out.size()));
  if (!running) return out;
  if (training) {
    AddRunning(b, call, a, s, out.size(), &out);
  } else {
    // Not the operands themselves: results are tensors of their own.
    out.push_back(b.convert_element_type(call.value(a.running_mean), call.result(out.size()).dtype));
    out.push_back(b.convert_element_type(call.value(a.running_var), call.result(out.size()).dtype));
  }
  return out;
}

// Where a backward form's arguments stand; grad_out, input, weight, running and saved statistics are its first seven.
struct BackwardArgs {
  size_t training, eps, mask;
};
constexpr BackwardArgs kBackward{.training = 7, .eps = 8, .mask = 9};

bool SupportsBackward(const Call& call, const BackwardArgs& a) {
  if (!IsFloatWithChannels(call, 1)) return false;
  return call.Bool(a.training) ? call.is_tensor(5) && call.is_tensor(6) : call.is_tensor(3) && call.is_tensor(4);
}

Values Backward(GraphBuilder& graph, const Call& call, const BackwardArgs& a) {
  OpBuilder b(graph);
  const bool training = call.Bool(a.training);
  const std::vector<int64_t> wanted = call.ConstInts(a.mask);
  const int64_t rank = call.type(1).rank();
  const std::vector<int64_t> dims = AcrossChannels(call.type(1));
  const auto along = [&](ValueId v) { return AlongDim(b, v, 1, rank); };
  const ValueId grad = WidenedArg(b, call, 0);
  const ValueId mean = WidenedArg(b, call, training ? 5 : 3);
  const ValueId invstd = training ? WidenedArg(b, call, 6) : b.rsqrt(b.add(WidenedArg(b, call, 4), call.Number(a.eps)));
  const ValueId centered = b.sub(WidenedArg(b, call, 1), along(mean));
  const ValueId sum = b.sum_dim(grad, dims), product = b.sum_dim(b.mul(centered, grad), dims);
  Values out(3, kNoValue);
  if (wanted[0]) {
    ValueId rest = grad;
    if (training) {
      const Sym count = PerChannel(b.syms(), call.type(1));
      const ValueId slope = b.div(b.mul(b.mul(product, invstd), invstd), count);
      rest = b.sub(b.sub(grad, along(b.div(sum, count))), b.mul(centered, along(slope)));
    }
    const ValueId scale = call.is_tensor(2) ? b.mul(invstd, WidenedArg(b, call, 2)) : invstd;
    out[0] = AsResult(b, call, b.mul(rest, along(scale)), 0);
  }
  if (wanted[1]) out[1] = AsResult(b, call, b.mul(product, invstd), 1);
  if (wanted[2]) out[2] = AsResult(b, call, sum, 2);
  return out;
}

}  // namespace

KILN_OP(batch_norm_functional) = {
    .schema =
        "batch_norm_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
        "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, "
        "Tensor running_var_out)",
    .torch = {"aten._native_batch_norm_legit_functional.default"},
    .supports = [](const Call& call) { return SupportsForward(call, kFunctional); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) { return Forward(graph, call, kFunctional, 0, true); },
};

KILN_OP(batch_norm_no_stats) = {
    .schema =
        "batch_norm_no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> "
        "(Tensor, Tensor, Tensor)",
    .torch = {"aten._native_batch_norm_legit.no_stats"},
    .supports = [](const Call& call) { return SupportsForward(call, kNoStats); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) { return Forward(graph, call, kNoStats, 0, false); },
};

KILN_OP(batch_norm_no_training) = {
    .schema =
        "batch_norm_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
        "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    .torch = {"aten._native_batch_norm_legit_no_training.default"},
    .supports = [](const Call& call) { return SupportsForward(call, kNoTraining); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) { return Forward(graph, call, kNoTraining, 0, false); },
};

// In training it updates the running statistics behind its schema's back, which only the framework's kernel can do.
KILN_OP(native_batch_norm) = {
    .schema =
        "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
        "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    .torch = {"aten.native_batch_norm.default"},
    .supports =
        [](const Call& call) {
          const bool updates = call.Bool(5) && (call.is_tensor(3) || call.is_tensor(4));
          return !updates && SupportsForward(call, kFunctional);
        },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) { return Forward(graph, call, kFunctional, 0, false); },
};

// On the CPU the reserve is empty; elsewhere it belongs to the backward of the same library, and so does this call.
KILN_OP(batch_norm_with_update) = {
    .schema =
        "batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
        "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, "
        "Tensor running_var_out)",
    .torch = {"aten._batch_norm_with_update_functional.default"},
    .supports =
        [](const Call& call) { return call.type(0).device == DeviceType::kCpu && SupportsForward(call, kWithUpdate); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) { return Forward(graph, call, kWithUpdate, 1, true); },
};

KILN_OP(batch_norm_no_update) = {
    .schema =
        "batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
        "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    .torch = {"aten._batch_norm_no_update.default"},
    .supports =
        [](const Call& call) { return call.type(0).device == DeviceType::kCpu && SupportsForward(call, kNoTraining); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) { return Forward(graph, call, kNoTraining, 1, false); },
};

KILN_OP(native_batch_norm_backward) = {
    .schema =
        "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
        "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> "
        "(Tensor, Tensor, Tensor)",
    .torch = {"aten.native_batch_norm_backward.default"},
    .supports = [](const Call& call) { return SupportsBackward(call, kBackward); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) { return Backward(graph, call, kBackward); },
};

KILN_OP(batch_norm_backward) = {
    .schema =
        "batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, Tensor? running_var, "
        "Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] output_mask, Tensor reserve) -> "
        "(Tensor, Tensor, Tensor)",
    .torch = {"aten.batch_norm_backward.default"},
    .supports =
        [](const Call& call) { return call.type(0).device == DeviceType::kCpu && SupportsBackward(call, kBackward); },
    .shape = AsImported,
    .decompose = [](GraphBuilder& graph, const Call& call) { return Backward(graph, call, kBackward); },
};

}  // namespace kiln
