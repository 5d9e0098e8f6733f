#include "compiler/loop/mutate.h"

#include <utility>

namespace kiln::loop {
namespace {

template <typename AnyStmt, typename F>
void WalkBlock(AnyStmt& block, F f) {
  for (auto& stmt : block) {
    f(stmt);
    if (auto* loop = std::get_if<For>(&stmt.node)) {
      WalkBlock(loop->body, f);
    } else if (auto* reduce = std::get_if<Reduce>(&stmt.node)) {
      WalkBlock(reduce->body, f);
      WalkBlock(reduce->combine, f);
    }
  }
}

template <typename AnyStmt, typename F>
void VisitOperands(AnyStmt& stmt, F f) {
  auto visit = [&](auto& value) {
    if (value != kNone) f(value);
  };
  if (auto* let = std::get_if<Let>(&stmt.node)) {
    for (auto& arg : let->args) visit(arg);
    visit(let->mask);
    visit(let->other);
  } else if (auto* store = std::get_if<Store>(&stmt.node)) {
    visit(store->value);
    visit(store->mask);
  } else if (auto* reduce = std::get_if<Reduce>(&stmt.node)) {
    for (auto& value : reduce->init) visit(value);
  }
}

template <typename AnyStmt, typename F>
void VisitSyms(AnyStmt& stmt, F f) {
  if (auto* let = std::get_if<Let>(&stmt.node)) {
    if (UsesIndex(let->op)) f(let->index);
  } else if (auto* store = std::get_if<Store>(&stmt.node)) {
    f(store->index);
  } else if (auto* prefetch = std::get_if<Prefetch>(&stmt.node)) {
    f(prefetch->index);
  } else if (auto* axis = AxisOf(stmt)) {
    f(axis->extent);
    if (axis->kind == AxisKind::kParallel) f(axis->grain);
  }
}

}  // namespace

uint32_t BlockThreads(const Kernel& kernel) {
  uint32_t threads = 1;
  Walk(kernel.body, [&](const Stmt& stmt) {
    const Axis* axis = AxisOf(stmt);
    if (axis != nullptr && axis->kind == AxisKind::kThread) threads = axis->width / axis->lanes;
  });
  return threads;
}

void Walk(const Block& block, absl::FunctionRef<void(const Stmt&)> f) { WalkBlock(block, f); }
void Walk(Block& block, absl::FunctionRef<void(Stmt&)> f) { WalkBlock(block, f); }

void ForEachOperand(const Stmt& stmt, absl::FunctionRef<void(ValueId)> f) { VisitOperands(stmt, f); }
void ForEachOperand(Stmt& stmt, absl::FunctionRef<void(ValueId&)> f) { VisitOperands(stmt, f); }

void ForEachYield(Stmt& stmt, absl::FunctionRef<void(ValueId&)> f) {
  auto* reduce = std::get_if<Reduce>(&stmt.node);
  if (reduce == nullptr) return;
  for (ValueId& value : reduce->yields) f(value);
  for (ValueId& value : reduce->combined) f(value);
}

void ForEachResult(Stmt& stmt, absl::FunctionRef<void(ValueId&)> f) {
  if (auto* let = std::get_if<Let>(&stmt.node)) {
    f(let->result);
  } else if (auto* reduce = std::get_if<Reduce>(&stmt.node)) {
    for (auto* list : {&reduce->results, &reduce->a, &reduce->b}) {
      for (ValueId& value : *list) f(value);
    }
  }
}

bool UsesIndex(Op op) { return op == Op::kIndex || op == Op::kLoad || op == Op::kCheckIndex; }

void ForEachSym(const Stmt& stmt, absl::FunctionRef<void(Sym)> f) { VisitSyms(stmt, f); }
void ForEachSym(Stmt& stmt, absl::FunctionRef<void(Sym&)> f) { VisitSyms(stmt, f); }

Axis* AxisOf(Stmt& stmt) { return const_cast<Axis*>(AxisOf(std::as_const(stmt))); }
const Axis* AxisOf(const Stmt& stmt) {
  if (auto* loop = std::get_if<For>(&stmt.node)) return &loop->axis;
  if (auto* reduce = std::get_if<Reduce>(&stmt.node)) return &reduce->axis;
  return nullptr;
}

void Mutate(Block& block, absl::FunctionRef<void(Stmt stmt, Block& out)> f) {
  Block out;
  out.reserve(block.size());
  for (Stmt& stmt : block) {
    if (auto* loop = std::get_if<For>(&stmt.node)) {
      Mutate(loop->body, f);
    } else if (auto* reduce = std::get_if<Reduce>(&stmt.node)) {
      Mutate(reduce->body, f);
      Mutate(reduce->combine, f);
    }
    f(std::move(stmt), out);
  }
  block = std::move(out);
}

SymImporter::SymImporter(const SymContext& from, SymContext& to, std::function<Var(Var)> rename)
    : from_(from), to_(to), rename_(std::move(rename)) {}

Sym SymImporter::operator()(Sym s) {
  if (auto it = done_.find(s); it != done_.end()) return it->second;
  Sym result = to_.Import(from_, s, [this](Var var) { return Variable(var); });
  done_[s] = result;
  return result;
}

Sym SymImporter::Variable(Var var) {
  if (auto it = variables_.find(var); it != variables_.end()) return it->second;
  Var renamed = rename_ ? rename_(var) : var;
  Sym result;
  if (var.kind == VarKind::kSize) {
    result = to_.Size(renamed.index, from_.Range(var));
  } else {
    std::optional<Sym> extent = from_.Extent(var);
    Sym imported = extent ? (*this)(*extent) : to_.Const(kSymUnbounded);
    result = var.kind == VarKind::kAxis ? to_.Axis(renamed.index, imported) : to_.Value(renamed.index, imported);
  }
  variables_[var] = result;
  return result;
}

}  // namespace kiln::loop
