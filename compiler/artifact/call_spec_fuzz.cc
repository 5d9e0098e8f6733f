// Any bytes at all, taken for a variant: its predicates and its CallSpec are refused or read.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/artifact/call_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kiln::v1::Variant variant;
  if (!variant.ParseFromArray(data, static_cast<int>(size))) return 0;
  const std::vector<int64_t> values(static_cast<size_t>(variant.syms().symbols_size()), 3);
  kiln::PredicatesHold(variant, values).status().IgnoreError();
  const kiln::v1::CallSpec& spec = variant.spec();
  const uint32_t outputs =
      static_cast<uint32_t>(spec.outputs_size()) + static_cast<uint32_t>(spec.mutations_size()) + spec.num_bases();
  const uint32_t saved = static_cast<uint32_t>(spec.saved_size());
  kiln::CheckCallSpec(spec,
                      {.inputs = spec.num_inputs(),
                       .outputs = outputs,
                       .saved = saved,
                       .saved_syms = spec.num_saved_syms(),
                       .training = spec.training(),
                       .backward_inputs = saved + spec.num_saved_syms() + static_cast<uint32_t>(spec.tangents_size())})
      .IgnoreError();
  return 0;
}
