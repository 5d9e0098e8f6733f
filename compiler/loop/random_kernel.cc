#include "compiler/loop/random_kernel.h"

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/loop/builder.h"
#include "compiler/loop/scalar.h"

namespace kiln::loop {
namespace {

constexpr DType kTypes[] = {DType::kBool,    DType::kUInt8,        DType::kInt8,          DType::kInt16,
                            DType::kInt32,   DType::kInt64,        DType::kUInt16,        DType::kUInt32,
                            DType::kUInt64,  DType::kFloat16,      DType::kBFloat16,      DType::kFloat32,
                            DType::kFloat64, DType::kFloat8E4M3FN, DType::kFloat8E5M2FNUZ};
constexpr Op kBinary[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kRem, Op::kMin, Op::kMax, Op::kAnd,     Op::kOr,
                          Op::kXor, Op::kShl, Op::kShr, Op::kLt,  Op::kLe,  Op::kEq,  Op::kNe,  Op::kCopysign};
constexpr Op kUnary[] = {Op::kNeg, Op::kAbs, Op::kFloor, Op::kCeil, Op::kTrunc, Op::kRound, Op::kSqrt, Op::kNot};

bool IsArithmetic(DType type) { return IsInt(type) || type == DType::kFloat32 || type == DType::kFloat64; }

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed), b_(out_.kernel, out_.kernel.body) {}

  RandomKernel Make() {
    Kernel& kernel = out_.kernel;
    kernel.num_sizes = 2;
    for (uint32_t i = 0; i < 2; ++i) {
      sizes_.push_back(b_.syms().Size(i, {1, 64}));
      out_.sizes.push_back(1 + Below(6));
    }
    total_ = b_.syms().Mul(b_.syms().Mul(sizes_[0], sizes_[1]), b_.syms().Const(8));
    for (DType type : kTypes) {
      kernel.buffers.push_back({.dtype = type, .size = total_, .access = Access::kRead});
      kernel.buffers.push_back({.dtype = type, .size = total_, .access = Access::kReadWrite});
    }
    axes_ = {b_.BeginFor(AxisKind::kParallel, sizes_[0], 1, b_.syms().Const(Below(3)))};
    Statements(2 + Below(4), 0, false);
    b_.EndFor();
    return std::move(out_);
  }

  absl::Status status() const { return b_.status(); }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  template <typename T, size_t N>
  T Pick(const T (&items)[N]) {
    return items[Below(N)];
  }

  // Statements with bodies see what was visible before; what they define vanishes at their end.
  void Statements(int count, int depth, bool in_vector) {
    const std::vector<ValueId> visible = values_;
    for (int i = 0; i < count; ++i) {
      const uint64_t kind = depth < 3 ? Below(10) : 9;
      if (kind == 0) {
        Loop(depth, in_vector);
      } else if (kind == 1) {
        Reduction(depth, in_vector);
      } else {
        for (int k = 0; k < 3; ++k) Scalar();
        if (Below(2) == 0) Store();
        if (Below(8) == 0) Prefetch();
      }
    }
    values_ = visible;
  }

  Sym AnyExtent() { return Below(2) == 0 ? sizes_[1] : b_.syms().Const(1 + Below(8)); }

  void Loop(int depth, bool in_vector) {
    const bool vector = !in_vector && Below(2) == 0;
    const Sym axis =
        b_.BeginFor(vector ? AxisKind::kVector : AxisKind::kSerial, AnyExtent(), vector ? 1 << Below(5) : 1);
    axes_.push_back(axis);
    Statements(1 + Below(3), depth + 1, in_vector || vector);
    axes_.pop_back();
    b_.EndFor();
  }

  void Reduction(int depth, bool in_vector) {
    const bool vector = !in_vector && Below(2) == 0;
    std::vector<ValueId> init, yields;
    for (uint64_t i = 0, n = 1 + Below(3); i < n; ++i) init.push_back(Value());
    const Sym axis = b_.BeginReduce(vector ? AxisKind::kVector : AxisKind::kSerial, AnyExtent(),
                                    vector ? 1 << Below(5) : 1, 1 + Below(4), init);
    axes_.push_back(axis);
    const std::vector<ValueId> visible = values_;
    for (int k = 0; k < 4; ++k) Scalar();
    if (depth < 2 && Below(3) == 0) Loop(depth + 1, in_vector || vector);
    for (ValueId value : init) yields.push_back(ValueOf(b_.TypeOf(value)));
    axes_.pop_back();
    values_ = visible;
    std::vector<ValueId> results =
        b_.EndReduce(yields, [this](Builder& b, std::span<const ValueId> x, std::span<const ValueId> y) {
          std::vector<ValueId> out;
          for (size_t i = 0; i < x.size(); ++i) {
            const bool arithmetic = IsArithmetic(b.TypeOf(x[i]));
            out.push_back(arithmetic ? b.Apply(Below(2) == 0 ? Op::kAdd : Op::kMax, x[i], y[i]) : y[i]);
          }
          return out;
        });
    values_.insert(values_.end(), results.begin(), results.end());
  }

  // In [0, total): a sum of axes, cut to size, or a checked value.
  Sym Index() {
    SymContext& syms = b_.syms();
    if (Below(4) == 0) return b_.IndexFromValue(b_.Cast(DType::kInt64, Value()), total_);
    Sym sum = syms.Const(Below(4));
    for (Sym axis : axes_) sum = syms.Add(sum, syms.Mul(axis, syms.Const(Below(5))));
    if (Below(3) == 0) sum = syms.FloorDiv(sum, sizes_[1]);
    return syms.Mod(sum, total_);
  }

  ValueId Mask() { return Below(2) == 0 ? kNone : b_.Cast(DType::kBool, Value()); }

  ValueId Fresh() {
    if (Below(3) == 0) {
      const DType type = Pick(kTypes);
      return b_.ConstBits(type, Below(3) == 0 ? random_() : FromConst(type));
    }
    if (Below(6) == 0) return b_.Index(Index());
    return b_.Load(static_cast<BufferId>(Below(out_.kernel.buffers.size())), Index(), Mask());
  }

  uint64_t FromConst(DType type) {
    const double values[] = {0, 1, -1, 0.5, 2, -3};
    return CastBits(DType::kFloat64, type, FromDouble(DType::kFloat64, Pick(values)));
  }

  ValueId Value() {
    if (values_.empty() || Below(4) == 0) values_.push_back(Fresh());
    return values_[Below(values_.size())];
  }
  ValueId ValueOf(DType type) { return b_.Cast(type, Value()); }

  void Scalar() {
    const ValueId a = Value();
    const DType type = b_.TypeOf(a);
    const Op unary = Pick(kUnary), binary = Pick(kBinary);
    ValueId result = kNone;
    switch (Below(4)) {
      case 0:
        result = b_.Cast(Pick(kTypes), a);
        break;
      case 1:
        result = b_.Select(b_.Cast(DType::kBool, Value()), a, ValueOf(type));
        break;
      case 2:
        result = Fits(unary, type) ? b_.Apply(unary, a) : a;
        break;
      default:
        result = Fits(binary, type) ? b_.Apply(binary, a, ValueOf(type)) : a;
        break;
    }
    values_.push_back(result);
  }

  static bool Fits(Op op, DType type) {
    const bool is_float = type == DType::kFloat32 || type == DType::kFloat64;
    switch (op) {
      case Op::kAnd:
      case Op::kOr:
      case Op::kXor:
      case Op::kNot:
        return IsInt(type) || type == DType::kBool;
      case Op::kShl:
      case Op::kShr:
        return IsInt(type);
      case Op::kLt:
      case Op::kLe:
      case Op::kEq:
      case Op::kNe:
        return IsArithmetic(type) || type == DType::kBool;
      case Op::kFloor:
      case Op::kCeil:
      case Op::kTrunc:
      case Op::kRound:
      case Op::kSqrt:
      case Op::kCopysign:
        return is_float;
      default:
        return IsArithmetic(type);
    }
  }

  void Store() {
    const BufferId buffer = static_cast<BufferId>(2 * Below(std::size(kTypes)) + 1);
    const ValueId value = ValueOf(out_.kernel.buffers[buffer].dtype);
    const Sym index = Index();
    const ValueId mask = Mask();
    b_.Store(buffer, index, value, mask, Below(2) == 0);
  }

  void Prefetch() {
    const Sym outside = b_.syms().Mul(total_, b_.syms().Const(static_cast<int64_t>(Below(3)) - 1));
    b_.Prefetch(static_cast<BufferId>(Below(out_.kernel.buffers.size())), b_.syms().Add(Index(), outside));
  }

  std::mt19937_64 random_;
  RandomKernel out_;
  Builder b_;
  std::vector<Sym> sizes_, axes_;
  Sym total_;
  std::vector<ValueId> values_;
};

}  // namespace

RandomKernel MakeRandomKernel(uint64_t seed) { return Maker(seed).Make(); }

RandomMemory MakeRandomMemory(const RandomKernel& kernel, uint64_t seed) {
  std::mt19937_64 random(seed);
  RandomMemory memory;
  const int64_t elements = kernel.sizes[0] * kernel.sizes[1] * 8;
  for (const Buffer& buffer : kernel.kernel.buffers) {
    std::vector<uint8_t>& bytes = memory.bytes.emplace_back(elements * ByteSize(buffer.dtype));
    for (int64_t i = 0; i < elements; ++i) {
      uint64_t bits = random();
      if (random() % 2 == 0) bits = CastBits(DType::kInt64, buffer.dtype, static_cast<uint64_t>(random() % 9) - 4);
      bits = Canonical(buffer.dtype, bits);
      std::memcpy(&bytes[i * ByteSize(buffer.dtype)], &bits, ByteSize(buffer.dtype));
    }
  }
  for (auto& bytes : memory.bytes) memory.args.push_back({bytes.data(), elements});
  return memory;
}

bool SameMemory(const Kernel& kernel, const RandomMemory& a, const RandomMemory& b) {
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const DType type = kernel.buffers[i].dtype;
    const size_t size = ByteSize(type);
    for (size_t at = 0; at < a.bytes[i].size(); at += size) {
      uint64_t x = 0, y = 0;
      std::memcpy(&x, &a.bytes[i][at], size);
      std::memcpy(&y, &b.bytes[i][at], size);
      if (x != y && !(IsFloat(type) && std::isnan(ToDouble(type, x)) && std::isnan(ToDouble(type, y)))) return false;
    }
  }
  return true;
}

}  // namespace kiln::loop
