#include "compiler/ops/promote.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/ops/registry.h"

namespace kiln {
namespace {

int Kind(DType dtype) {
  if (dtype == DType::kBool) return 0;
  return IsComplex(dtype) ? 3 : IsFloat(dtype) ? 2 : 1;
}

// Widest that holds both, of two integers. Torch has no common type for u16..u64 with others but to refuse; i64 stands
// in.
DType PromoteInts(DType a, DType b) {
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  if (IsSignedInt(a) == IsSignedInt(b)) return ByteSize(a) >= ByteSize(b) ? a : b;
  const DType s = IsSignedInt(a) ? a : b, u = IsSignedInt(a) ? b : a;
  if (ByteSize(s) > ByteSize(u)) return s;
  return u == DType::kUInt8 ? DType::kInt16 : DType::kInt64;
}

DType PromoteFloats(DType a, DType b) {
  if (ByteSize(a) != ByteSize(b)) return ByteSize(a) > ByteSize(b) ? a : b;
  return DType::kFloat32;  // f16 with bf16
}

DType ComplexOf(DType real) {
  if (IsComplex(real)) return real;
  if (real == DType::kFloat64) return DType::kComplex128;
  return real == DType::kFloat16 ? DType::kComplex32 : DType::kComplex64;
}

// One dtype a category of operand.
struct Categories {
  std::optional<DType> dims, zero_dim, number;

  static void Join(std::optional<DType>& slot, DType dtype) { slot = slot ? PromoteTypes(*slot, dtype) : dtype; }

  void Add(const Call& call, const Arg& arg) {
    if (const auto* ref = std::get_if<ValueRef>(&arg.v)) {
      const TensorType& type = *call.graph().type(ref->id);
      Join(type.rank() > 0 ? dims : zero_dim, type.dtype);
    } else if (std::holds_alternative<bool>(arg.v)) {
      Join(number, DType::kBool);
    } else if (std::holds_alternative<Sym>(arg.v)) {
      Join(number, DType::kInt64);
    } else if (std::holds_alternative<double>(arg.v)) {
      Join(number, kDefaultFloat);
    } else if (const ArgList* list = arg.list()) {
      for (const Arg& item : *list) Add(call, item);
    }
  }

  static std::optional<DType> Combine(std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher || !lower) return higher ? higher : lower;
    if (Kind(*higher) >= Kind(*lower)) return higher;
    // A complex number beside real tensors keeps the tensors' width.
    return Kind(*lower) == 3 && Kind(*higher) == 2 ? ComplexOf(*higher) : *lower;
  }

  DType Result() const { return Combine(Combine(dims, zero_dim), number).value_or(kDefaultFloat); }
};

DType CommonOfOperands(const Call& call) {
  Categories categories;
  for (size_t i = 0; i < call.num_args(); ++i) {
    if (IsOperand(*call.node().def, i)) categories.Add(call, call.arg(i));
  }
  return categories.Result();
}

}  // namespace

DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  const int ka = Kind(a), kb = Kind(b);
  if (ka == 3 || kb == 3) {
    const DType ca = ka >= 2 ? ComplexOf(a) : ComplexOf(b), cb = kb >= 2 ? ComplexOf(b) : ca;
    return ByteSize(ca) >= ByteSize(cb) ? ca : cb;
  }
  if (ka != kb && std::max(ka, kb) == 2) return ka > kb ? a : b;
  return std::max(ka, kb) == 2 ? PromoteFloats(a, b) : PromoteInts(a, b);
}

DType CommonDType(const Call& call, std::span<const size_t> args) {
  Categories categories;
  for (size_t i : args) {
    if (i < call.num_args()) categories.Add(call, call.arg(i));
  }
  return categories.Result();
}

DType PromotedDType(const Call& call) {
  switch (call.node().def->promote) {
    case Promote::kDefault:
    case Promote::kCompare:
      return CommonOfOperands(call);
    case Promote::kIntToFloat: {
      const DType common = CommonOfOperands(call);
      return Kind(common) < 2 ? kDefaultFloat : common;
    }
    case Promote::kResult:
    case Promote::kNone:
      break;
  }
  return call.result().dtype;
}

DType ResultDType(const Call& call) {
  switch (call.node().def->promote) {
    case Promote::kDefault:
    case Promote::kIntToFloat:
      return PromotedDType(call);
    case Promote::kCompare:
      return DType::kBool;
    case Promote::kResult:
    case Promote::kNone:
      break;
  }
  return call.is_tensor(0) ? call.type(0).dtype : kDefaultFloat;
}

bool IsOperand(const OpDef& def, size_t i) {
  const Schema& schema = SchemaOf(def);
  if (i >= schema.args.size()) return false;
  return schema.args[i].kind == ArgKind::kTensor || schema.args[i].kind == ArgKind::kTensorOrScalar;
}

}  // namespace kiln
