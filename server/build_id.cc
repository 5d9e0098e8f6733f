#include "server/build_id.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/digest.h"

namespace kiln {
namespace {

constexpr size_t kBuildIdDigits = 12;

size_t Align4(size_t n) { return (n + 3) & ~size_t{3}; }

// The build id among the ELF notes of a segment; empty: none.
std::string_view BuildIdNote(std::string_view notes) {
  ElfW(Nhdr) header;
  while (notes.size() >= sizeof header) {
    memcpy(&header, notes.data(), sizeof header);
    notes.remove_prefix(sizeof header);
    const size_t name = Align4(header.n_namesz), body = Align4(header.n_descsz);
    if (name > notes.size() || body > notes.size() - name) return {};
    if (header.n_type == NT_GNU_BUILD_ID && notes.substr(0, header.n_namesz) == std::string_view("GNU", 4)) {
      return notes.substr(name, header.n_descsz);
    }
    notes.remove_prefix(name + body);
  }
  return {};
}

struct Loaded {
  std::string program;            // build id
  std::vector<std::string> llvm;  // build ids, sorted
};

int Visit(dl_phdr_info* info, size_t, void* data) {
  auto* loaded = static_cast<Loaded*>(data);
  const std::string_view name = info->dlpi_name;
  const bool is_program = name.empty();
  const bool is_llvm = name.find("/libLLVM") != std::string_view::npos;
  if (!is_program && !is_llvm) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* start = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    const std::string_view id = BuildIdNote({start, segment.p_memsz});
    if (id.empty()) continue;
    if (is_program) {
      loaded->program = id;
    } else {
      loaded->llvm.emplace_back(id);
    }
    break;
  }
  return 0;
}

absl::StatusOr<std::string> ContentOfProgram() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  Hasher hasher;
  std::vector<char> chunk(1 << 20);
  while (in.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || in.gcount() > 0) {
    hasher.Update({chunk.data(), static_cast<size_t>(in.gcount())});
  }
  if (!in.eof()) return absl::UnavailableError("cannot read /proc/self/exe for the build id");
  return hasher.Finish().Hex();
}

}  // namespace

absl::StatusOr<std::string> ComputeBuildId() {
  Loaded loaded;
  dl_iterate_phdr(Visit, &loaded);
  if (loaded.program.empty()) {
    absl::StatusOr<std::string> content = ContentOfProgram();
    if (!content.ok()) return content.status();
    loaded.program = *std::move(content);
  }
  std::sort(loaded.llvm.begin(), loaded.llvm.end());
  Hasher hasher;
  hasher.Update(absl::StrCat("kiln build 1 ", loaded.program.size(), " "));
  hasher.Update(loaded.program);
  for (const std::string& id : loaded.llvm) {
    hasher.Update(absl::StrCat(" ", id.size(), " "));
    hasher.Update(id);
  }
  return hasher.Finish().Hex().substr(0, kBuildIdDigits);
}

}  // namespace kiln
