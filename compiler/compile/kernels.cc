#include "compiler/compile/kernels.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/artifact/fingerprint.h"
#include "compiler/loop/mutate.h"
#include "compiler/loop/text.h"

namespace kiln {

uint32_t KernelPool::Add(const loop::Kernel& kernel) {
  std::string text = loop::ToText(kernel);
  const auto [it, added] = index_of_.try_emplace(text, static_cast<uint32_t>(kernels_.size()));
  if (!added) return it->second;
  const std::string key = Fingerprint({{"kernel", text}, {"target", target_}, {"build", build_}});
  v1::KernelSource source;
  source.set_symbol(absl::StrCat("k_", absl::BytesToHexString(key.substr(0, 8))));
  source.set_key(key);
  source.set_text(std::move(text));
  source.set_threads(loop::BlockThreads(kernel));
  kernels_.push_back(std::move(source));
  return it->second;
}

}  // namespace kiln
