#include "compiler/mathlib/expand.h"

#include <utility>
#include <vector>

#include "compiler/loop/builder.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/simplify.h"
#include "compiler/mathlib/function.h"

namespace kiln::mathlib {
namespace {

using loop::Block;
using loop::Builder;
using loop::For;
using loop::Let;
using loop::Reduce;
using loop::Stmt;
using loop::ValueId;

class Expander {
 public:
  Expander(loop::Kernel& kernel, const std::function<bool(loop::Op)>& keep)
      : keep_(keep),
        first_value_(kernel.first_value),
        replaced_(kernel.num_values, loop::kNone),
        known_(kernel, scratch_) {}

  absl::Status Run(Block& block) {
    Block out;
    Builder builder(known_, out);
    for (Stmt& stmt : block) {
      loop::ForEachOperand(stmt, [this](ValueId& value) { value = Current(value); });
      const Let* let = std::get_if<Let>(&stmt.node);
      const Function* function = let == nullptr || (keep_ && keep_(let->op)) ? nullptr : FindFunction(let->op);
      if (function != nullptr) {
        const Builder::OriginScope origin(builder, stmt.origin);
        Replace(*let, *function, builder);
        continue;
      }
      for (Block* body : Bodies(stmt)) {
        if (absl::Status status = Run(*body); !status.ok()) return status;
      }
      loop::ForEachYield(stmt, [this](ValueId& value) { value = Current(value); });
      builder.Append(std::move(stmt));
    }
    block = std::move(out);
    return builder.status();
  }

  bool changed() const { return changed_; }

 private:
  static std::vector<Block*> Bodies(Stmt& stmt) {
    if (For* loop = std::get_if<For>(&stmt.node)) return {&loop->body};
    if (Reduce* reduce = std::get_if<Reduce>(&stmt.node)) return {&reduce->body, &reduce->combine};
    return {};
  }

  ValueId Current(ValueId value) const {
    const size_t slot = value - first_value_;
    return slot < replaced_.size() && replaced_[slot] != loop::kNone ? replaced_[slot] : value;
  }

  void Replace(const Let& let, const Function& function, Builder& builder) {
    const Expr x{&builder, let.args[0]}, y{&builder, let.args.back()};
    const Expr result = (let.type == DType::kFloat32 ? function.f32 : function.f64)(x, y);
    replaced_[let.result - first_value_] = result.id;
    changed_ = true;
  }

  const std::function<bool(loop::Op)>& keep_;
  ValueId first_value_;
  std::vector<ValueId> replaced_;  // by value of the kernel as it came
  bool changed_ = false;
  Block scratch_;
  Builder known_;  // holds the types of all values
};

}  // namespace

absl::Status Expand(loop::Kernel& kernel, const std::function<bool(loop::Op)>& keep) {
  Expander expander(kernel, keep);
  if (absl::Status status = expander.Run(kernel.body); !status.ok()) return status;
  if (expander.changed()) loop::Simplify(kernel);
  return absl::OkStatus();
}

}  // namespace kiln::mathlib
