// Operators that run as external calls for now: records without a meaning, which say what the partitioner and the
// scheduler must know (traits) and what their results look like. Operators with a Generator argument are random without
// a record (TraitsOf).
#include "absl/strings/str_cat.h"
#include "compiler/ops/op_builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/promote.h"
#include "compiler/ops/shape_rules.h"

namespace kiln {
namespace {

constexpr std::string_view kFrameworks = "a library's kernel: the framework has another one for its gradient";

// Tensors of `rank` dims that multiply as matrices in their last two: [.., n, k] with [.., k, m].
absl::StatusOr<TypeList> MatmulShape(const Call& call, size_t a_arg, size_t b_arg, int rank) {
  const TensorType &a = call.type(a_arg), &b = call.type(b_arg);
  if (a.rank() != rank || b.rank() != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("matrix product of tensors of ", a.rank(), " and ", b.rank(), " dims"));
  }
  const Sym inner = a.sizes[rank - 1], other = b.sizes[rank - 2];
  if (call.syms().ProvablyLess(inner, other) || call.syms().ProvablyLess(other, inner)) {
    return absl::InvalidArgumentError(absl::StrCat("matrix product: inner sizes ", call.syms().ToString(inner), " and ",
                                                   call.syms().ToString(other)));
  }
  std::vector<Sym> sizes = a.sizes;
  sizes[rank - 1] = b.sizes[rank - 1];
  return TypeList{ContiguousType(call.syms(), a.dtype, a.device, std::move(sizes))};
}

// Training, a contiguous input (the mask is laid out as the input is), and some element (else eager draws nothing).
bool DrawsItsMask(const Call& call) {
  const TensorType& input = call.type(0);
  const bool trains = call.is_none(2) || call.Bool(2);
  Sym count = call.syms().Const(1);
  for (const Sym size : input.sizes) count = call.syms().Mul(count, size);
  return trains && IsFloat(input.dtype) && call.syms().RangeOf(count).min >= 1 &&
         input.strides == RowMajorStrides(call.syms(), input.sizes);
}

}  // namespace

// --- products ---

KILN_OP(mm) = {
    .schema = "mm(Tensor self, Tensor mat2) -> Tensor",
    .torch = {"aten.mm.default"},
    .traits = {.compute_heavy = true},
    .shape = [](const Call& call) { return MatmulShape(call, 0, 1, 2); },
    .no_grad = kFrameworks,
};

KILN_OP(bmm) = {
    .schema = "bmm(Tensor self, Tensor mat2) -> Tensor",
    .torch = {"aten.bmm.default"},
    .traits = {.compute_heavy = true},
    .shape = [](const Call& call) { return MatmulShape(call, 0, 1, 3); },
    .no_grad = kFrameworks,
};

KILN_OP(addmm) = {
    .schema = "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    .torch = {"aten.addmm.default"},
    .traits = {.compute_heavy = true},
    .shape = [](const Call& call) { return MatmulShape(call, 1, 2, 2); },
    .no_grad = kFrameworks,
};

KILN_OP(baddbmm) = {
    .schema = "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    .torch = {"aten.baddbmm.default"},
    .traits = {.compute_heavy = true},
    .shape = [](const Call& call) { return MatmulShape(call, 1, 2, 3); },
    .no_grad = kFrameworks,
};

KILN_OP(convolution) = {
    .schema =
        "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, "
        "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    .torch = {"aten.convolution.default"},
    .traits = {.compute_heavy = true, .follows_layout = 1, .prefers_channels_last = true},
    .shape = AsImported,
    .no_grad = kFrameworks,
};

KILN_OP(convolution_backward) = {
    .schema =
        "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, "
        "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
        "SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    .torch = {"aten.convolution_backward.default"},
    .traits = {.compute_heavy = true, .follows_layout = 2, .prefers_channels_last = true},
    .shape = AsImported,
    .no_grad = kFrameworks,
};

// --- attention: also random, where it drops out ---

KILN_OP(flash_attention_cpu) = {
    .schema =
        "flash_attention_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, "
        "*, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
    .torch = {"aten._scaled_dot_product_flash_attention_for_cpu.default"},
    .traits = {.compute_heavy = true},
    .shape = AsImported,
    .no_grad = kFrameworks,
};

KILN_OP(flash_attention_cpu_backward) = {
    .schema =
        "flash_attention_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, "
        "Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> "
        "(Tensor grad_query, Tensor grad_key, Tensor grad_value)",
    .torch = {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default"},
    .traits = {.compute_heavy = true},
    .shape = AsImported,
    .no_grad = kFrameworks,
};

KILN_OP(flash_attention) = {
    .schema =
        "flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, "
        "bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, "
        "Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor unused, "
        "Tensor debug_attn_mask)",
    .torch = {"aten._scaled_dot_product_flash_attention.default"},
    .traits = {.random = true, .compute_heavy = true},
    .shape = AsImported,
    .no_grad = kFrameworks,
};

KILN_OP(efficient_attention) = {
    .schema =
        "efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, "
        "float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, Tensor log_sumexp, "
        "Tensor philox_seed, Tensor philox_offset)",
    .torch = {"aten._scaled_dot_product_efficient_attention.default"},
    .traits = {.random = true, .compute_heavy = true},
    .shape = AsImported,
    .no_grad = kFrameworks,
};

KILN_OP(cudnn_attention) = {
    .schema =
        "cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool compute_log_sumexp, "
        "float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> "
        "(Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, "
        "Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)",
    .torch = {"aten._scaled_dot_product_cudnn_attention.default"},
    .traits = {.random = true, .compute_heavy = true},
    .shape = AsImported,
    .no_grad = kFrameworks,
};

// --- random numbers without a Generator argument: drawn by the framework, in graph order ---

KILN_OP(bernoulli_p) = {
    .schema = "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
    .torch = {"aten.bernoulli.p"},
    .traits = {.random = true},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      const TensorType& self = call.type(0);
      return TypeList{ContiguousType(call.syms(), self.dtype, self.device, self.sizes)};
    },
    .no_grad = "does not depend on its operand's values",
};

// The mask is drawn as eager draws it, in bool and memory order; the arithmetic on it is ordinary.
KILN_OP(native_dropout) = {
    .schema = "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    .torch = {"aten.native_dropout.default"},
    .supports = [](const Call& call) { return call.type(0).device == DeviceType::kCpu && DrawsItsMask(call); },
    .traits = {.random = true},
    .shape = [](const Call& call) -> absl::StatusOr<TypeList> {
      absl::StatusOr<TypeList> types = LikeArg<0>(call);
      TensorType mask = (*types)[0];
      mask.dtype = DType::kBool;
      types->push_back(std::move(mask));
      return types;
    },
    .decompose = [](GraphBuilder& graph, const Call& call) -> Values {
      OpBuilder b(graph);
      const double keep = 1.0 - call.Number(1), scale = keep == 0 ? 0.0 : 1.0 / keep;
      const ValueId one = graph.AddConstant(
          {.dtype = DType::kBool, .device = DeviceType::kCpu, .sizes = {}, .strides = {}}, std::string(1, '\0'));
      const ValueId mask = b.bernoulli_p(b.expand(one, call.type(0).sizes), keep);
      return {b.mul(b.mul(call.value(0), mask), scale), mask};
    },
};

KILN_OP(rand) = {
    .schema =
        "rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.rand.default"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no tensor operand",
};

KILN_OP(rand_like) = {
    .schema =
        "rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.rand_like.default"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no element of the operand is read",
};

KILN_OP(randn) = {
    .schema =
        "randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.randn.default"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no tensor operand",
};

KILN_OP(randn_like) = {
    .schema =
        "randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.randn_like.default"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no element of the operand is read",
};

KILN_OP(randint) = {
    .schema =
        "randint(SymInt high, SymInt[] size, *, ScalarType? dtype=i64, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.randint.default"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no tensor operand",
};

KILN_OP(randint_low) = {
    .schema =
        "randint_low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=i64, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None) -> Tensor",
    .torch = {"aten.randint.low"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no tensor operand",
};

KILN_OP(randint_like) = {
    .schema =
        "randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.randint_like.default"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no element of the operand is read",
};

KILN_OP(randint_like_low) = {
    .schema =
        "randint_like_low(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, "
        "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
    .torch = {"aten.randint_like.low_dtype"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no element of the operand is read",
};

KILN_OP(randperm) = {
    .schema =
        "randperm(SymInt n, *, ScalarType? dtype=i64, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None) -> Tensor",
    .torch = {"aten.randperm.default"},
    .traits = {.random = true},
    .shape = AsImported,
    .no_grad = "no tensor operand",
};

}  // namespace kiln
