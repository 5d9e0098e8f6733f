#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"

namespace kiln::loop {
namespace {

// New numbers in the order in which names are first met.
class Numbering {
 public:
  uint32_t operator()(uint32_t old) {
    auto [it, fresh] = new_.try_emplace(old, static_cast<uint32_t>(old_.size()));
    if (fresh) old_.push_back(old);
    return it->second;
  }
  uint32_t Find(uint32_t old) const {
    auto it = new_.find(old);
    return it == new_.end() ? kNone : it->second;
  }
  std::vector<uint32_t> old() && { return std::move(old_); }
  uint32_t size() const { return static_cast<uint32_t>(old_.size()); }

 private:
  absl::flat_hash_map<uint32_t, uint32_t> new_;
  std::vector<uint32_t> old_;
};

}  // namespace

std::vector<uint32_t> Normalize(Kernel& kernel) {
  Numbering sizes, axes, values;
  auto syms = std::make_shared<SymContext>();
  SymImporter import(*kernel.syms, *syms, [&](Var var) -> Var {
    switch (var.kind) {
      case VarKind::kSize:
        return {var.kind, sizes(var.index)};
      case VarKind::kAxis:
        return {var.kind, axes(var.index)};
      case VarKind::kValue:
        return {var.kind, values(var.index)};
    }
    return var;
  });
  for (Buffer& buffer : kernel.buffers) buffer.size = import(buffer.size);
  Walk(kernel.body, [&](Stmt& stmt) {
    ForEachResult(stmt, [&](ValueId& value) { value = values(value); });
    ForEachOperand(stmt, [&](ValueId& value) { value = values.Find(value); });
    ForEachSym(stmt, [&](Sym& s) { s = import(s); });
    if (Axis* axis = AxisOf(stmt)) {
      import.Variable({VarKind::kAxis, axis->id});
      axis->id = axes(axis->id);
    }
  });
  // Yields name what the bodies define, all numbered by now.
  Walk(kernel.body, [&](Stmt& stmt) { ForEachYield(stmt, [&](ValueId& value) { value = values.Find(value); }); });
  kernel.syms = std::move(syms);
  kernel.first_value = kernel.first_axis = 0;
  kernel.num_values = values.size();
  kernel.num_axes = axes.size();
  kernel.num_sizes = sizes.size();
  return std::move(sizes).old();
}

}  // namespace kiln::loop
