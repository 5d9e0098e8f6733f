#include "compiler/loop/ir.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/loop/mutate.h"

namespace kiln::loop {
namespace {

struct OpInfo {
  std::string_view name;
  int arity;
};

constexpr OpInfo kOps[] = {
#define KILN_LOOP_OP(id, name, arity, rule) {name, arity},
#include "compiler/loop/nodes.def"
#undef KILN_LOOP_OP
};

constexpr auto SortedByName() {
  std::array<uint8_t, std::size(kOps)> order{};
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint8_t>(i);
  std::sort(order.begin(), order.end(), [](uint8_t a, uint8_t b) { return kOps[a].name < kOps[b].name; });
  return order;
}

constexpr auto kOpsByName = SortedByName();

}  // namespace

std::string_view Name(Op op) { return kOps[static_cast<size_t>(op)].name; }

int Arity(Op op) { return kOps[static_cast<size_t>(op)].arity; }

std::optional<Op> OpFromName(std::string_view name) {
  auto it = std::lower_bound(kOpsByName.begin(), kOpsByName.end(), name,
                             [](uint8_t op, std::string_view n) { return kOps[op].name < n; });
  if (it == kOpsByName.end() || kOps[*it].name != name) return std::nullopt;
  return static_cast<Op>(*it);
}

std::string_view Name(AxisKind kind) {
  switch (kind) {
    case AxisKind::kSerial:
      return "serial";
    case AxisKind::kVector:
      return "vector";
    case AxisKind::kParallel:
      return "parallel";
    case AxisKind::kThread:
      return "thread";
  }
  return "";
}

Kernel Clone(const Kernel& kernel) {
  Kernel copy = kernel;
  copy.syms = std::make_shared<SymContext>();
  SymImporter import(*kernel.syms, *copy.syms);
  for (uint32_t i = 0; i < kernel.num_sizes; ++i) import.Variable({VarKind::kSize, i});
  for (Buffer& buffer : copy.buffers) buffer.size = import(buffer.size);
  Walk(copy.body, [&](Stmt& stmt) {
    ForEachSym(stmt, [&](Sym& s) { s = import(s); });
    if (const Axis* axis = AxisOf(stmt)) import.Variable({VarKind::kAxis, axis->id});
  });
  return copy;
}

}  // namespace kiln::loop
