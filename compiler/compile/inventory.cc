#include "compiler/compile/inventory.h"

#include "compiler/codegen/cpu/machine.h"

namespace kiln {

std::vector<std::string> Targets() {
  std::vector<std::string> names;
  for (const CpuMachine& machine : kCpuMachines) names.emplace_back(machine.name);
  return names;
}

std::vector<OpInfo> Operators() { return ListOps(); }

}  // namespace kiln
