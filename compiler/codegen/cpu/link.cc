#include "compiler/codegen/cpu/link.h"

#include <lld/Common/Driver.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/codegen/symbol.h"

LLD_HAS_DRIVER(elf)

namespace kiln {
namespace {

struct Linker {
  std::mutex mutex;
  bool usable = true;  // guarded by mutex
};

Linker& TheLinker() {
  static Linker& linker = *new Linker;  // LLD's state is the process's, and so is this
  return linker;
}

absl::Status NoPlace(std::string_view what, int error) {
  return absl::ResourceExhaustedError(absl::StrCat("link: ", std::string(what), ": ", std::strerror(error)));
}

// LLD writes to a real file only, so all its files are real: as many as there are objects, which descriptors need not
// be. Removed with everything in it.
class PrivateDirectory {
 public:
  static absl::StatusOr<PrivateDirectory> Create() {
    llvm::SmallString<128> path;
    if (const std::error_code error = llvm::sys::fs::createUniqueDirectory("kiln-link", path)) {
      return NoPlace("temporary directory", error.value());
    }
    return PrivateDirectory(path.str().str());
  }
  PrivateDirectory(PrivateDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ~PrivateDirectory() {
    if (!path_.empty()) llvm::sys::fs::remove_directories(path_);
  }
  std::string File(std::string_view name) const { return absl::StrCat(path_, "/", std::string(name)); }

  absl::StatusOr<std::string> Write(std::string_view name, const std::string& content) const {
    std::string path = File(name);
    std::error_code error;
    llvm::raw_fd_ostream stream(path, error);
    if (error) return NoPlace(path, error.value());
    stream << content;
    stream.close();
    if (stream.has_error()) {
      const int code = stream.error().value();
      stream.clear_error();
      return NoPlace(path, code);
    }
    return path;
  }

 private:
  explicit PrivateDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Names, contents and places of all sections and symbols are inside the file.
llvm::Error CheckContents(const llvm::object::ObjectFile& file) {
  for (const llvm::object::SectionRef& section : file.sections()) {
    if (auto name = section.getName(); !name) return name.takeError();
    if (auto contents = section.getContents(); !contents) return contents.takeError();
  }
  for (const llvm::object::SymbolRef& symbol : file.symbols()) {
    if (auto name = symbol.getName(); !name) return name.takeError();
    if (auto section = symbol.getSection(); !section) return section.takeError();
  }
  return llvm::Error::success();
}

// LLD's fatal errors cost the process: most of what would be one is found here.
absl::Status CheckObject(const std::string& object, size_t i) {
  const auto refuse = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("objects[", i, "]: ", why));
  };
  auto parsed = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(object, "object"),
                                                              /*InitContent=*/true);
  if (!parsed) return refuse(llvm::toString(parsed.takeError()));
  const auto* elf = llvm::dyn_cast<llvm::object::ELF64LEObjectFile>(parsed->get());
  if (elf == nullptr) return refuse("not an x86-64 relocatable");
  const auto& header = elf->getELFFile().getHeader();
  if (header.e_machine != llvm::ELF::EM_X86_64 || header.e_type != llvm::ELF::ET_REL) {
    return refuse("not an x86-64 relocatable");
  }
  if (llvm::Error error = CheckContents(*elf)) return refuse(llvm::toString(std::move(error)));
  return absl::OkStatus();
}

absl::StatusOr<std::string> VersionScript(std::span<const std::string> symbols) {
  std::string script = "{ global:";
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (absl::Status status = codegen::CheckSymbol(symbols[i]); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("symbols[", i, "]: not a C identifier"));
    }
    absl::StrAppend(&script, " ", symbols[i], ";");
  }
  absl::StrAppend(&script, " local: *; };");
  return script;
}

absl::Status RunLld(const std::vector<std::string>& inputs, const std::string& script, const std::string& output,
                    const std::string& directory) {
  std::vector<std::string> args = {
      "ld.lld",          "-shared",          "-z",   "defs", "-z",  "now", "-s", "--threads=1", "--hash-style=gnu",
      "--build-id=none", "--version-script", script, "-o",   output};
  args.insert(args.end(), inputs.begin(), inputs.end());
  std::vector<const char*> argv;
  for (const std::string& arg : args) argv.push_back(arg.c_str());

  Linker& linker = TheLinker();
  const std::lock_guard lock(linker.mutex);
  if (!linker.usable) return absl::InternalError("link: LLD cannot run again in this process");
  std::string log;
  llvm::raw_string_ostream stream(log);
  // Without this, LLD's fatal errors end the process; with it they, and crashes, end the call. Its signal handlers are
  // there for this call only.
  llvm::CrashRecoveryContext::Enable();
  const lld::Result result = lld::lldMain(argv, stream, stream, {{lld::Gnu, &lld::elf::link}});
  llvm::CrashRecoveryContext::Disable();
  linker.usable = result.canRunAgain;
  const std::string message = absl::StrReplaceAll(stream.str(), {{directory, ""}});
  if (!result.canRunAgain) return absl::InternalError(absl::StrCat("link: LLD died: ", message));
  if (result.retCode != 0) return absl::InvalidArgumentError(absl::StrCat("link: ", message));
  return absl::OkStatus();
}

}  // namespace

bool LinkerIsUsable() {
  Linker& linker = TheLinker();
  const std::lock_guard lock(linker.mutex);
  return linker.usable;
}

absl::StatusOr<std::string> LinkShared(std::span<const std::string> objects, std::span<const std::string> symbols) {
  if (objects.empty() || symbols.empty()) return absl::InvalidArgumentError("link: nothing to link");
  absl::StatusOr<std::string> script = VersionScript(symbols);
  if (!script.ok()) return script.status();
  absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Create();
  if (!directory.ok()) return directory.status();
  absl::StatusOr<std::string> script_file = directory->Write("exports", *script);
  if (!script_file.ok()) return script_file.status();
  std::vector<std::string> inputs;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (absl::Status status = CheckObject(objects[i], i); !status.ok()) return status;
    absl::StatusOr<std::string> input = directory->Write(absl::StrCat(i, ".o"), objects[i]);
    if (!input.ok()) return input.status();
    inputs.push_back(*std::move(input));
  }
  const std::string output = directory->File("kernels.so");
  if (absl::Status status = RunLld(inputs, *script_file, output, directory->File("")); !status.ok()) return status;
  auto linked = llvm::MemoryBuffer::getFile(output);
  if (!linked) return NoPlace("output", linked.getError().value());
  return (*linked)->getBuffer().str();
}

}  // namespace kiln
