#include "compiler/mathlib/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kiln::mathlib {
namespace {

template <typename T, typename Wide>
double Error(T got, Wide want, double floor) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
  const Wide beyond = std::ldexp(Wide(1), Limits::max_exponent);
  auto finite = [&](Wide value) { return std::clamp(value, -beyond, beyond); };
  const Wide size = std::max(std::fabs(finite(want)), Wide(floor));
  const int exponent = size == 0 ? Limits::min_exponent - 1 : std::max(std::ilogb(size), Limits::min_exponent - 1);
  const Wide unit = std::ldexp(Wide(1), std::min(exponent, Limits::max_exponent - 1) - Limits::digits + 1);
  return static_cast<double>(std::fabs(finite(got) - finite(want)) / unit);
}

}  // namespace

double UlpError(float got, double want, double floor) { return Error<float, double>(got, want, floor); }
double UlpError(double got, long double want, double floor) { return Error<double, long double>(got, want, floor); }

template <typename T>
Evaluator<T>::Evaluator(const Function& function) : binary_(loop::Arity(function.op) == 2) {
  const DType type = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
  // x and y are constants for the builder only: a batch overwrites what it calls its inputs.
  loop::Kernel kernel;
  loop::Block inputs, body;
  loop::Builder in(kernel, inputs);
  const Expr x{&in, in.Const(type, 0.25)}, y{&in, in.Const(type, 0.75)};
  loop::Builder b(in, body);
  const Expr result = (sizeof(T) == 4 ? function.f32 : function.f64)({&b, x.id}, {&b, y.id});
  status_ = b.status();
  if (!status_.ok()) return;
  for (const loop::Stmt& stmt : body) num_operations_ += std::get<loop::Let>(stmt.node).op != loop::Op::kConst;
  const loop::BatchInput batch_inputs[] = {{x.id, type}, {y.id, type}};
  absl::StatusOr<loop::Batch> batch = loop::Batch::Make(body, std::span(batch_inputs, binary_ ? 2 : 1), result.id);
  status_ = batch.status();
  if (batch.ok()) batch_ = *std::move(batch);
}

template <typename T>
void Evaluator<T>::Run(const T* x, const T* y, T* result, size_t count) {
  const void* inputs[] = {x, y};
  batch_.Run(std::span(inputs, binary_ ? 2 : 1), result, count);
}

template class Evaluator<float>;
template class Evaluator<double>;

}  // namespace kiln::mathlib
