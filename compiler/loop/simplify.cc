#include "compiler/loop/simplify.h"

#include <utility>
#include <vector>

#include "compiler/loop/mutate.h"
#include "compiler/loop/rules.h"
#include "compiler/loop/scalar.h"
#include "compiler/loop/sharing.h"

namespace kiln::loop {
namespace {

constexpr int kMaxRulesPerLet = 16;  // each shortens the chain of operations, so this is not met in practice

// One pass forward: operands are canonical before their users are looked at.
class Forward {
 public:
  explicit Forward(Kernel& kernel)
      : kernel_(kernel), same_as_(kernel.num_values, kNone), definitions_(kernel.num_values) {}

  void Run(Block& block) {
    Block out;
    out.reserve(block.size());
    for (Stmt& stmt : block) {
      ForEachOperand(stmt, [this](ValueId& value) { value = Canon(value); });
      if (Let* let = std::get_if<Let>(&stmt.node)) {
        Visit(std::move(*let), stmt.origin, out);
      } else if (Store* store = std::get_if<Store>(&stmt.node)) {
        Visit(*store, stmt.origin, out);
      } else {
        VisitBodies(stmt);
        out.push_back(std::move(stmt));
      }
    }
    block = std::move(out);
  }

 private:
  size_t Slot(ValueId value) const { return value - kernel_.first_value; }
  ValueId Canon(ValueId value) const {
    const ValueId same = same_as_[Slot(value)];
    return same == kNone ? value : same;
  }
  const Let* Definition(ValueId value) const {
    const Let& let = definitions_[Slot(value)];
    return let.result == kNone ? nullptr : &let;
  }

  void Visit(Let let, uint32_t origin, Block& out) {
    const DefinitionFn definition = [this](ValueId value) { return Definition(value); };
    for (int i = 0; i < kMaxRulesPerLet; ++i) {
      std::optional<Replacement> next = ApplyRules(let, definition);
      if (!next) break;
      if (next->value) {
        same_as_[Slot(let.result)] = *next->value;
        return;
      }
      let = *std::move(next->let);
    }
    // A checked index keeps its own name, which Syms use; equal ones are shared by the builder.
    const bool share = IsPure(let, kernel_.buffers) && let.op != Op::kCheckIndex;
    if (share) {
      if (std::optional<ValueId> same = shared_.Find(let)) {
        same_as_[Slot(let.result)] = *same;
        return;
      }
      shared_.Add(let);
    }
    definitions_[Slot(let.result)] = let;
    out.push_back({std::move(let), origin});
  }

  void Visit(Store store, uint32_t origin, Block& out) {
    const Let* mask = store.mask == kNone ? nullptr : Definition(store.mask);
    if (mask != nullptr && mask->op == Op::kConst) {
      if (mask->imm == 0) return;
      store.mask = kNone;
    }
    out.push_back({store, origin});
  }

  void VisitBodies(Stmt& stmt) {
    For* loop = std::get_if<For>(&stmt.node);
    Reduce* reduce = std::get_if<Reduce>(&stmt.node);
    for (Block* block :
         {loop ? &loop->body : nullptr, reduce ? &reduce->body : nullptr, reduce ? &reduce->combine : nullptr}) {
      if (block == nullptr) continue;
      shared_.Open();
      Run(*block);
      shared_.Close();
    }
    ForEachYield(stmt, [this](ValueId& value) { value = Canon(value); });
  }

  Kernel& kernel_;
  std::vector<ValueId> same_as_;  // by value: what stands for it
  std::vector<Let> definitions_;  // by value: its Let, result kNone if there is none
  SharedLets shared_;
};

// One pass backward: keeps what stores, checked indices and live values need.
class Backward {
 public:
  explicit Backward(const Kernel& kernel) : first_value_(kernel.first_value), live_(kernel.num_values) {}

  // Whether anything is left.
  bool Run(Block& block) {
    std::vector<bool> keep(block.size());
    for (size_t i = block.size(); i-- > 0;) {
      keep[i] = Keep(block[i]);
      if (keep[i]) ForEachOperand(std::as_const(block[i]), [this](ValueId value) { MarkLive(value); });
    }
    Block out;
    for (size_t i = 0; i < block.size(); ++i) {
      if (keep[i]) out.push_back(std::move(block[i]));
    }
    block = std::move(out);
    return !block.empty();
  }

 private:
  bool IsLive(ValueId value) const { return live_[value - first_value_]; }
  void MarkLive(ValueId value) { live_[value - first_value_] = true; }

  bool Keep(Stmt& stmt) {
    if (const Let* let = std::get_if<Let>(&stmt.node)) return let->op == Op::kCheckIndex || IsLive(let->result);
    if (For* loop = std::get_if<For>(&stmt.node)) return Run(loop->body);
    if (Reduce* reduce = std::get_if<Reduce>(&stmt.node)) return KeepReduce(*reduce);
    return true;
  }

  bool KeepReduce(Reduce& reduce) {
    bool live = false;
    for (ValueId result : reduce.results) live = live || IsLive(result);
    // Stores and checked indices of a body that nobody's result needs still count.
    if (!live && !HasEffects(reduce.body)) return false;
    for (ValueId value : reduce.combined) MarkLive(value);
    for (ValueId value : reduce.yields) MarkLive(value);
    Run(reduce.combine);
    Run(reduce.body);
    return true;
  }

  static bool HasEffects(const Block& block) {
    bool effects = false;
    Walk(block, [&](const Stmt& stmt) {
      const Let* let = std::get_if<Let>(&stmt.node);
      effects = effects || std::holds_alternative<Store>(stmt.node) || std::holds_alternative<Barrier>(stmt.node) ||
                (let != nullptr && let->op == Op::kCheckIndex);
    });
    return effects;
  }

  ValueId first_value_;
  std::vector<bool> live_;
};

}  // namespace

void Simplify(Kernel& kernel) {
  Forward(kernel).Run(kernel.body);
  Backward backward(kernel);
  // The outermost axis stays, even if nothing is left of it.
  for (Stmt& stmt : kernel.body) {
    if (For* loop = std::get_if<For>(&stmt.node)) backward.Run(loop->body);
  }
}

}  // namespace kiln::loop
