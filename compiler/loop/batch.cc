#include "compiler/loop/batch.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/scalar_inl.h"

namespace kiln::loop {
namespace {

using internal::Dispatch;
using StepFn = void (*)(const void* const args[3], void* result, size_t count);

template <Op op, typename T>
void RunCompute(const void* const args[3], void* result, size_t count) {
  const T* a = static_cast<const T*>(args[0]);
  const T* b = static_cast<const T*>(args[1]);
  const T* c = static_cast<const T*>(args[2]);
  T* out = static_cast<T*>(result);
  for (size_t i = 0; i < count; ++i) out[i] = internal::Compute<op, T>(a[i], b[i], c[i]);
}

// The same with the instructions that most machines have: fused multiply-add and rounding are library calls without.
#if defined(__x86_64__)
template <Op op, typename T>
__attribute__((target("avx2,fma"))) void RunComputeAvx2(const void* const args[3], void* result, size_t count) {
  const T* a = static_cast<const T*>(args[0]);
  const T* b = static_cast<const T*>(args[1]);
  const T* c = static_cast<const T*>(args[2]);
  T* out = static_cast<T*>(result);
  for (size_t i = 0; i < count; ++i) out[i] = internal::Compute<op, T>(a[i], b[i], c[i]);
}
bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
template <Op op, typename T>
void RunComputeAvx2(const void* const args[3], void* result, size_t count) {
  RunCompute<op, T>(args, result, count);
}
bool HasAvx2() { return false; }
#endif

template <Op op, typename T>
void RunCompare(const void* const args[3], void* result, size_t count) {
  const T* a = static_cast<const T*>(args[0]);
  const T* b = static_cast<const T*>(args[1]);
  bool* out = static_cast<bool*>(result);
  for (size_t i = 0; i < count; ++i) out[i] = internal::Compare<op, T>(a[i], b[i]);
}

template <typename T>
void RunSelect(const void* const args[3], void* result, size_t count) {
  const bool* condition = static_cast<const bool*>(args[0]);
  const T* a = static_cast<const T*>(args[1]);
  const T* b = static_cast<const T*>(args[2]);
  T* out = static_cast<T*>(result);
  for (size_t i = 0; i < count; ++i) out[i] = condition[i] ? a[i] : b[i];
}

template <typename From, typename To>
void RunCast(const void* const args[3], void* result, size_t count) {
  const From* a = static_cast<const From*>(args[0]);
  To* out = static_cast<To*>(result);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<To, bool>) {
      out[i] = a[i] != From{};
    } else if constexpr (internal::kIsFloat<From> && !internal::kIsFloat<To>) {
      out[i] = internal::FloatToInt<To>(a[i]);
    } else {
      out[i] = static_cast<To>(a[i]);
    }
  }
}

template <size_t width>
void RunCopy(const void* const args[3], void* result, size_t count) {
  std::memcpy(result, args[0], width * count);
}

template <Op op, typename T>
StepFn ChooseTyped() {
  if constexpr (op == Op::kSelect) return RunSelect<T>;
  if constexpr (op == Op::kLt || op == Op::kLe || op == Op::kEq || op == Op::kNe) return RunCompare<op, T>;
  if constexpr (op < Op::kAdd || IsFunction(op)) return nullptr;
  static const bool avx2 = HasAvx2();
  return avx2 ? RunComputeAvx2<op, T> : RunCompute<op, T>;
}

StepFn ChooseOp(Op op, DType type) {
  return Dispatch<StepFn>(type, nullptr, [&](auto tag) -> StepFn {
    using T = decltype(tag);
    switch (op) {
#define KILN_LOOP_OP(id, name, arity, rule) \
  case Op::id:                              \
    return ChooseTyped<Op::id, T>();
#include "compiler/loop/nodes.def"
#undef KILN_LOOP_OP
    }
    return nullptr;
  });
}

StepFn ChooseCast(DType from, DType to) {
  return Dispatch<StepFn>(from, nullptr, [&](auto source) {
    return Dispatch<StepFn>(to, nullptr,
                            [](auto target) -> StepFn { return RunCast<decltype(source), decltype(target)>; });
  });
}

StepFn ChooseCopy(size_t width) {
  return width == 8 ? RunCopy<8> : width == 4 ? RunCopy<4> : width == 2 ? RunCopy<2> : RunCopy<1>;
}

}  // namespace

absl::StatusOr<Batch> Batch::Make(const Block& block, std::span<const BatchInput> inputs, ValueId output) {
  Batch batch;
  absl::flat_hash_map<ValueId, uint32_t> column_of;
  std::vector<DType> types;
  auto define = [&](ValueId value, DType type) {
    column_of[value] = static_cast<uint32_t>(types.size());
    types.push_back(type);
    const size_t width = ByteSize(type);
    batch.columns_.push_back({.width = width, .data = std::vector<uint64_t>(kLanes * width / 8 + 1)});
    return static_cast<uint32_t>(types.size() - 1);
  };
  for (const BatchInput& input : inputs) batch.inputs_.push_back(define(input.value, input.type));
  for (const Stmt& stmt : block) {
    const Let* let = std::get_if<Let>(&stmt.node);
    if (let == nullptr) return absl::InvalidArgumentError("a batch holds Lets only");
    std::vector<uint32_t> args;
    for (ValueId arg : let->args) {
      auto it = column_of.find(arg);
      if (it == column_of.end()) return absl::InvalidArgumentError(absl::StrCat("v", arg, " is not defined"));
      args.push_back(it->second);
    }
    Step step;
    step.result = define(let->result, let->type);
    std::copy(args.begin(), args.end(), step.args);
    // Absent operands are read too, as the type of the first.
    if (!args.empty()) std::fill(step.args + args.size(), step.args + 3, args[0]);
    if (let->op == Op::kConst) {
      uint8_t* data = reinterpret_cast<uint8_t*>(batch.columns_[step.result].data.data());
      const size_t width = ByteSize(let->type);
      for (size_t i = 0; i < kLanes; ++i) std::memcpy(data + i * width, &let->imm, width);
      continue;
    }
    const DType type = args.empty() ? let->type : types[args.back()];
    if (let->op == Op::kCast) {
      step.run = ChooseCast(type, let->type);
    } else if (let->op == Op::kBitcast) {
      step.run = ChooseCopy(ByteSize(type));
    } else {
      step.run = ChooseOp(let->op, type);
    }
    if (step.run == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("v", let->result, " is beyond a batch"));
    }
    batch.steps_.push_back(step);
  }
  if (!column_of.contains(output)) return absl::InvalidArgumentError("the output is not defined");
  batch.output_ = column_of[output];
  return batch;
}

void Batch::Run(std::span<const void* const> inputs, void* output, size_t count) {
  for (size_t begin = 0; begin < count; begin += kLanes) {
    const size_t lanes = std::min(kLanes, count - begin);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Column& column = columns_[inputs_[i]];
      std::memcpy(column.data.data(), static_cast<const uint8_t*>(inputs[i]) + begin * column.width,
                  lanes * column.width);
    }
    for (const Step& step : steps_) {
      const void* args[3];
      for (int i = 0; i < 3; ++i) args[i] = columns_[step.args[i]].data.data();
      step.run(args, columns_[step.result].data.data(), lanes);
    }
    const Column& column = columns_[output_];
    std::memcpy(static_cast<uint8_t*>(output) + begin * column.width, column.data.data(), lanes * column.width);
  }
}

}  // namespace kiln::loop
