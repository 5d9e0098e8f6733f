#include "absl/strings/str_cat.h"
#include "client/cpp/kernels.h"

namespace kiln {

absl::Status CpuKernels::Run(const Program& program, std::span<const Program::Launch> launches, char* const* data,
                             const int64_t* slots, LaunchScratch& scratch) const {
  scratch.pointers.clear();
  for (const Program::Launch& launch : launches) {
    const std::span ids = std::span(program.buffers).subspan(launch.first_buffer, launch.num_buffers);
    for (const uint32_t id : ids) scratch.pointers.push_back(data[id]);
  }
  scratch.calls.clear();
  void* const* buffers = scratch.pointers.data();
  for (const Program::Launch& launch : launches) {
    scratch.calls.push_back({.kernel = kernels_[launch.kernel],
                             .buffers = buffers,
                             .sizes = slots + launch.sizes,
                             .extent = slots[launch.extent],
                             .grain = slots[launch.grain]});
    buffers += launch.num_buffers;
  }
  if (absl::Status s = RunCalls(api_, scratch.calls, scratch.claims); !s.ok()) return s;
  for (size_t i = 0; i < launches.size(); ++i) {
    if (scratch.calls[i].error == 0) continue;
    return absl::OutOfRangeError(absl::StrCat("index out of range in self (node ", launches[i].origin, ", kernel ",
                                              names_[launches[i].kernel], ", check ", scratch.calls[i].error - 1, ")"));
  }
  return absl::OkStatus();
}

}  // namespace kiln
