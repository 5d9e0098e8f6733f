#include "compiler/import/syms.h"

#include <utility>

#include "compiler/import/errors.h"

namespace kiln {
namespace {

absl::Status ImportSymbols(const v1::SymTable& table, const std::string& path, const ImportLimits& limits,
                           GraphBuilder& builder) {
  absl::Status status = CheckLimit(path + ".symbols", table.symbols_size(), limits.max_symbols);
  if (!status.ok()) return status;
  for (int i = 0; i < table.symbols_size(); ++i) {
    const v1::Symbol& symbol = table.symbols(i);
    const std::string at = At(path + ".symbols", i);
    if (symbol.min() > symbol.max()) {
      return Invalid(at, absl::StrCat("the range [", symbol.min(), ", ", symbol.max(), "] is empty"));
    }
    if (symbol.size_class() > 64) return Invalid(at + ".size_class", "more than 64");
    builder.AddSize({symbol.min(), symbol.max()}, symbol.size_class());
  }
  return absl::OkStatus();
}

bool ArityFits(const v1::SymExpr& expr) {
  switch (expr.op()) {
    case v1::SymExpr::CONST:
    case v1::SymExpr::SYMBOL:
      return expr.args_size() == 0;
    case v1::SymExpr::ADD:
    case v1::SymExpr::MUL:
      return expr.args_size() >= 2;
    default:
      return expr.args_size() == 2;
  }
}

absl::StatusOr<Sym> ImportExpr(const v1::SymExpr& expr, const std::string& path, const std::vector<Sym>& earlier,
                               const GraphBuilder& builder, SymContext& syms) {
  if (!ArityFits(expr)) return Invalid(path + ".args", absl::StrCat(expr.args_size(), " are not what its op takes"));
  std::vector<Sym> args;
  for (int i = 0; i < expr.args_size(); ++i) {
    if (expr.args(i) >= earlier.size()) {
      return Invalid(At(path + ".args", i),
                     absl::StrCat("expression ", expr.args(i), " does not come before this one"));
    }
    args.push_back(earlier[expr.args(i)]);
  }
  switch (expr.op()) {
    case v1::SymExpr::CONST:
      return syms.Const(expr.value());
    case v1::SymExpr::SYMBOL:
      if (expr.value() < 0 || expr.value() >= builder.graph().num_sizes()) {
        return Invalid(path + ".value", absl::StrCat("there is no symbol ", expr.value()));
      }
      return syms.Size(static_cast<uint32_t>(expr.value()), {});
    case v1::SymExpr::ADD:
      return syms.Add(args);
    case v1::SymExpr::MUL:
      return syms.Mul(args);
    case v1::SymExpr::FLOOR_DIV:
      return syms.FloorDiv(args[0], args[1]);
    case v1::SymExpr::MOD:
      return syms.Mod(args[0], args[1]);
    case v1::SymExpr::MIN:
      return syms.Min(args[0], args[1]);
    case v1::SymExpr::MAX:
      return syms.Max(args[0], args[1]);
    default:
      return Invalid(path + ".op", absl::StrCat("unknown operation ", static_cast<int>(expr.op())));
  }
}

absl::Status CheckGrowth(Sym s, const std::string& path, const ImportLimits& limits, const SymContext& syms) {
  if (syms.Weight(s) > limits.max_expr_weight) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": more than ", limits.max_expr_weight, " operands"));
  }
  if (syms.Depth(s) > limits.max_expr_depth) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": nested deeper than ", limits.max_expr_depth));
  }
  if (syms.footprint() > limits.max_expr_footprint) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": all expressions together are too large"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Sym>> ImportSyms(const v1::SymTable& table, const std::string& path,
                                            const ImportLimits& limits, GraphBuilder& builder) {
  absl::Status status = ImportSymbols(table, path, limits, builder);
  if (status.ok()) status = CheckLimit(path + ".exprs", table.exprs_size(), limits.max_exprs);
  if (!status.ok()) return status;
  std::vector<Sym> exprs;
  for (int i = 0; i < table.exprs_size(); ++i) {
    const std::string at = At(path + ".exprs", i);
    status = CheckLimit(at + ".args", table.exprs(i).args_size(), static_cast<int64_t>(limits.max_expr_weight));
    if (!status.ok()) return status;
    absl::StatusOr<Sym> s = ImportExpr(table.exprs(i), at, exprs, builder, builder.syms());
    status = s.ok() ? CheckGrowth(*s, at, limits, builder.syms()) : s.status();
    if (!status.ok()) return status;
    exprs.push_back(*s);
  }
  return exprs;
}

namespace {

template <typename List>
absl::StatusOr<std::vector<Sym>> Dims(const List& indices, const std::string& path, const char* what,
                                      const std::vector<Sym>& exprs, const SymContext& syms) {
  std::vector<Sym> out;
  for (int i = 0; i < indices.size(); ++i) {
    if (indices.Get(i) >= exprs.size()) {
      return Invalid(At(path, i), absl::StrCat("there is no expression ", indices.Get(i)));
    }
    const Sym s = exprs[indices.Get(i)];
    if (syms.RangeOf(s).max < 0)
      return Invalid(At(path, i), absl::StrCat("the ", what, " ", syms.ToString(s), " is negative"));
    out.push_back(s);
  }
  return out;
}

// Whether the type is known to have more bytes than can be addressed.
bool IsTooLarge(const TensorType& type, const SymContext& syms) {
  __int128 bytes = ByteSize(type.dtype);
  for (Sym s : type.sizes) {
    if (syms.RangeOf(s).min <= 0) return false;
  }
  for (Sym s : type.sizes) {
    bytes *= syms.RangeOf(s).min;
    if (bytes > (__int128{1} << 62)) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<TensorType> ImportType(const v1::TensorType& type, const std::string& path, const ImportLimits& limits,
                                      const std::vector<Sym>& exprs, const SymContext& syms) {
  if (type.dtype() < 1 || type.dtype() > kMaxDType) {
    return Invalid(path + ".dtype", absl::StrCat("unknown dtype ", static_cast<int>(type.dtype())));
  }
  if (type.device() != v1::CPU && type.device() != v1::CUDA) {
    return Invalid(path + ".device", absl::StrCat("unknown device type ", static_cast<int>(type.device())));
  }
  absl::Status status = CheckLimit(path + ".sizes", type.sizes_size(), limits.max_rank);
  if (!status.ok()) return status;
  if (type.sizes_size() != type.strides_size()) {
    return Invalid(path + ".strides", absl::StrCat(type.strides_size(), " strides for ", type.sizes_size(), " sizes"));
  }
  absl::StatusOr<std::vector<Sym>> sizes = Dims(type.sizes(), path + ".sizes", "size", exprs, syms);
  if (!sizes.ok()) return sizes.status();
  absl::StatusOr<std::vector<Sym>> strides = Dims(type.strides(), path + ".strides", "stride", exprs, syms);
  if (!strides.ok()) return strides.status();
  TensorType out;
  out.dtype = static_cast<DType>(type.dtype());
  out.device = static_cast<DeviceType>(type.device());
  out.sizes = *std::move(sizes);
  out.strides = *std::move(strides);
  if (IsTooLarge(out, syms)) return Invalid(path, "a tensor of more than 2^62 bytes");
  return out;
}

}  // namespace kiln
