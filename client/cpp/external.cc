#include "client/cpp/external.h"

#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kiln {
namespace {

using Kind = CallArg::Kind;
using Type = SchemaArg::Type;

bool IsFloating(v1::DType dtype) {
  return dtype == v1::FLOAT16 || dtype == v1::BFLOAT16 || dtype == v1::FLOAT32 || dtype == v1::FLOAT64;
}

std::optional<double> ConstantNumber(const CallArg& arg) {
  if (arg.kind == Kind::kFloat) return arg.f;
  if (arg.kind == Kind::kInt) return static_cast<double>(arg.i);
  return std::nullopt;
}

}  // namespace

// The ops with a shim of their own that writes to a given tensor: half the cost of a dispatcher call, and no result to
// compare. Convolution and attention also have shims, but take so long that half a microsecond does not show.
struct BoundExternal::OutShim {
  std::string_view schema_name;
  size_t num_tensors;  // leading arguments; after them beta and alpha, if scaled
  bool scaled;
  bool (*available)(const TorchApi::OutShims& shims);
  OutFn fn;
};

bool BoundExternal::BindOut(const Program& program) {
  static constexpr OutShim kShims[] = {
      {"aten::mm", 2, false, [](const TorchApi::OutShims& shims) { return shims.mm_out != nullptr; },
       [](const BoundExternal& b, const TensorHandle* t, TensorHandle out) {
         const auto& a = b.call_->args;
         return b.shims().mm_out(out, t[a[0].index], t[a[1].index]);
       }},
      {"aten::bmm", 2, false, [](const TorchApi::OutShims& shims) { return shims.bmm_out != nullptr; },
       [](const BoundExternal& b, const TensorHandle* t, TensorHandle out) {
         const auto& a = b.call_->args;
         return b.shims().bmm_out(out, t[a[0].index], t[a[1].index]);
       }},
      {"aten::addmm", 3, true, [](const TorchApi::OutShims& shims) { return shims.addmm_out != nullptr; },
       [](const BoundExternal& b, const TensorHandle* t, TensorHandle out) {
         const auto& a = b.call_->args;
         return b.shims().addmm_out(out, t[a[0].index], t[a[1].index], t[a[2].index], b.beta_, b.alpha_);
       }},
      {"aten::baddbmm", 3, true, [](const TorchApi::OutShims& shims) { return shims.baddbmm_out != nullptr; },
       [](const BoundExternal& b, const TensorHandle* t, TensorHandle out) {
         const auto& a = b.call_->args;
         return b.shims().baddbmm_out(out, t[a[0].index], t[a[1].index], t[a[2].index], b.beta_, b.alpha_);
       }},
  };
  if (!call_->schema.overload.empty() || call_->results.size() != 1) return false;
  const uint32_t result = call_->results[0];
  // For integers a scale that is a double is an error.
  if (result == Program::kNoValue || !IsFloating(program.values[result].dtype)) return false;
  out_shims_ = &api_->out_shims[program.values[result].device];
  for (const OutShim& shim : kShims) {
    if (shim.schema_name != call_->schema.name || !shim.available(*out_shims_)) continue;
    const std::vector<CallArg>& args = call_->args;
    if (args.size() != shim.num_tensors + (shim.scaled ? 2 : 0)) return false;
    for (size_t i = 0; i < shim.num_tensors; ++i) {
      if (args[i].kind != Kind::kTensor) return false;
    }
    if (shim.scaled) {
      const std::optional<double> beta = ConstantNumber(args[shim.num_tensors]);
      const std::optional<double> alpha = ConstantNumber(args[shim.num_tensors + 1]);
      if (!beta || !alpha) return false;
      beta_ = *beta;
      alpha_ = *alpha;
    }
    out_fn_ = shim.fn;
    return true;
  }
  return false;
}

std::string BoundExternal::WhyNotDispatcher() const {
  const auto needs = [&](const CallArg& arg, const SchemaArg& schema) -> std::string {
    if (schema.type == Type::kScalar && arg.kind != Kind::kNone) return "the dispatcher shim refuses Scalar arguments";
    const bool number =
        arg.kind == Kind::kInt || arg.kind == Kind::kFloat || arg.kind == Kind::kBool || arg.kind == Kind::kSym;
    if (schema.type == Type::kTensor && number) return "a number stands for a tensor";
    if (arg.kind == Kind::kUndefined && api_->new_undefined == nullptr) {
      return "torch has no aoti_torch_new_uninitialized_tensor";
    }
    if (arg.boxed && api_->new_ivalue == nullptr) return "torch has no torch_new_stable_ivalue";
    if (arg.kind == Kind::kList && (api_->new_list == nullptr || api_->list_push_back == nullptr)) {
      return "torch has no torch_new_list_reserve_size";
    }
    if (arg.kind == Kind::kString && api_->new_string == nullptr) return "torch has no torch_new_string_handle";
    if (arg.kind == Kind::kDType && api_->dtype_code[static_cast<size_t>(arg.i)] < 0) return "torch lacks a dtype";
    return "";
  };
  const Schema& schema = call_->schema;
  for (size_t i = 0; i < schema.args.size(); ++i) {
    // Even a None of type Scalar? is refused, and so is an empty Scalar[].
    if (schema.args[i].type == Type::kScalar) return "the dispatcher shim refuses Scalar arguments";
    if (schema.args[i].type == Type::kOther) return "an argument's type is unknown";
    const CallArg& arg = call_->args[i];
    if (std::string why = needs(arg, schema.args[i]); !why.empty()) return why;
    for (int64_t k = 0; arg.kind == Kind::kList && k < arg.i; ++k) {
      const CallArg& item = call_->items[arg.index + static_cast<size_t>(k)];
      if (std::string why = needs(item, schema.args[i]); !why.empty()) return why;
    }
  }
  for (const SchemaArg& result : schema.returns) {
    // (torch 2.11 takes attention's results that are numbers for tensors.)
    if (result.type != Type::kTensor || result.optional || result.optional_item) return "a result is no tensor";
    if (result.list && (api_->list_size == nullptr || api_->list_get == nullptr || api_->delete_list == nullptr)) {
      return "torch has no torch_list_size";
    }
  }
  return "";
}

absl::StatusOr<BoundExternal> BoundExternal::Bind(const ExternalCall& call, const Program& program, const TorchApi& api,
                                                  ForeignOps* foreign) {
  BoundExternal bound(&call, &api);
  std::unique_ptr<ForeignCall> resolved;
  if (foreign != nullptr) {
    absl::StatusOr<std::unique_ptr<ForeignCall>> known = foreign->Resolve(call);
    if (!known.ok()) return absl::UnimplementedError(absl::StrCat(call.op, ": ", known.status().message()));
    resolved = *std::move(known);
  }
  if (bound.BindOut(program)) {
    bound.route_ = Route::kOut;
    return bound;
  }
  const std::string why_not = bound.WhyNotDispatcher();
  if (why_not.empty()) return bound;
  if (resolved == nullptr) return absl::UnimplementedError(absl::StrCat(call.op, ": ", why_not));
  bound.route_ = Route::kForeign;
  bound.foreign_ = std::move(resolved);
  return bound;
}

absl::Status BoundExternal::Error() const {
  return api_->Error(absl::StrCat(call_->op, " (node ", call_->origin, ")"));
}

absl::Status BoundExternal::RunOut(const CallContext& context, TensorHandle out) const {
  return out_fn_(*this, context.tensors, out) == 0 ? absl::OkStatus() : Error();
}

absl::Status BoundExternal::Run(const CallContext& context, std::vector<StableIValue>* stack,
                                std::vector<TensorHandle>* results) const {
  if (route_ == Route::kForeign) return foreign_->Run(*call_, context, results);
  // Arguments are consumed, also by a call that fails; results take their place.
  stack->clear();
  for (const CallArg& arg : call_->args) stack->push_back(Encode(arg, context));
  if (stack->size() < call_->schema.returns.size()) stack->resize(call_->schema.returns.size());
  const char* name = call_->schema.name.c_str();
  const char* overload = call_->schema.overload.c_str();
  const int32_t failed = api_->call_dispatcher != nullptr
                             ? api_->call_dispatcher(name, overload, stack->data(), api_->abi_version())
                             : api_->call_dispatcher_v1(name, overload, stack->data());
  return failed != 0 ? Error() : TakeResults(*stack, results);
}

StableIValue BoundExternal::Encode(const CallArg& arg, const CallContext& context) const {
  StableIValue value = 0;
  switch (arg.kind) {
    case Kind::kNone:
      return 0;
    case Kind::kUndefined: {
      TensorHandle handle = nullptr;
      api_->new_undefined(&handle);
      value = reinterpret_cast<StableIValue>(handle);
      break;
    }
    case Kind::kTensor: {
      TensorHandle handle = nullptr;
      api_->new_handle(context.tensors[arg.index], &handle);
      value = reinterpret_cast<StableIValue>(handle);
      break;
    }
    case Kind::kInt:
    case Kind::kBool:
      value = static_cast<StableIValue>(arg.i);
      break;
    case Kind::kFloat:
      value = std::bit_cast<StableIValue>(arg.f);
      break;
    case Kind::kSym:
      value = static_cast<StableIValue>(context.slots[arg.index]);
      break;
    case Kind::kString: {
      StableString handle = nullptr;
      api_->new_string(arg.s.data(), arg.s.size(), &handle);
      value = reinterpret_cast<StableIValue>(handle);
      break;
    }
    case Kind::kDType:
      value = static_cast<StableIValue>(api_->dtype_code[static_cast<size_t>(arg.i)]);
      break;
    case Kind::kLayout:
      value = static_cast<StableIValue>(api_->strided_layout);
      break;
    case Kind::kDevice: {  // type in the upper half, index in the lower; the host's is -1
      const bool on_gpu = arg.i == v1::CUDA;
      const auto type = static_cast<uint32_t>(api_->device_code[on_gpu ? v1::CUDA : v1::CPU]);
      const auto index = static_cast<uint32_t>(on_gpu ? context.device_index : -1);
      value = static_cast<StableIValue>(type) << 32 | index;
      break;
    }
    case Kind::kMemoryFormat:
      value = static_cast<StableIValue>(api_->memory_format_code[static_cast<size_t>(arg.i)]);
      break;
    case Kind::kList:
      value = EncodeList(arg, context);
      break;
  }
  if (!arg.boxed) return value;
  StableIValue* box = nullptr;
  api_->new_ivalue(&box);
  *box = value;
  return reinterpret_cast<StableIValue>(box);
}

StableIValue BoundExternal::EncodeList(const CallArg& arg, const CallContext& context) const {
  StableList list = nullptr;
  api_->new_list(static_cast<size_t>(arg.i), &list);
  for (int64_t i = 0; i < arg.i; ++i) {
    api_->list_push_back(list, Encode(call_->items[arg.index + static_cast<size_t>(i)], context));
  }
  return reinterpret_cast<StableIValue>(list);
}

absl::Status BoundExternal::TakeResults(const std::vector<StableIValue>& stack,
                                        std::vector<TensorHandle>* results) const {
  for (size_t i = 0; i < call_->schema.returns.size(); ++i) {
    const SchemaArg& type = call_->schema.returns[i];
    if (type.list) {
      StableList list = reinterpret_cast<StableList>(stack[i]);
      size_t size = 0;
      if (api_->list_size(list, &size) != 0) return Error();
      for (size_t k = 0; k < size; ++k) {
        StableIValue item = 0;
        if (api_->list_get(list, k, &item) != 0) return Error();
        results->push_back(reinterpret_cast<TensorHandle>(item));
      }
      api_->delete_list(list);
    } else {
      results->push_back(type.type == Type::kTensor ? reinterpret_cast<TensorHandle>(stack[i]) : nullptr);
    }
  }
  return absl::OkStatus();
}

}  // namespace kiln
