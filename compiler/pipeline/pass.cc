#include "compiler/pipeline/pass.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace kiln {

absl::Status PassRun::Begin(std::string_view pass) {
  ++number_;
  if (context_.cancelled && context_.cancelled()) {
    return absl::CancelledError(absl::StrCat("cancelled before ", std::string(pass)));
  }
  begin_nanos_ = absl::GetCurrentTimeNanos();
  return absl::OkStatus();
}

void PassRun::End(std::string_view pass) {
  if (context_.times) context_.times->Add(pass, static_cast<double>(absl::GetCurrentTimeNanos() - begin_nanos_) * 1e-9);
}

void PassRun::Dump(std::string_view pass, std::string_view extension, const std::string& text) {
  const std::string title = absl::StrFormat("%s.%02d-%s", context_.subject.empty() ? "program" : context_.subject,
                                            number_, std::string(pass));
  if (context_.debug.dump_dir.empty()) {
    fprintf(stderr, "# %s\n%s", title.c_str(), text.c_str());
    return;
  }
  // A dump that can't be written is no reason to fail a compile.
  std::ofstream(absl::StrCat(context_.debug.dump_dir, "/", title, ".", std::string(extension))) << text;
}

absl::Status PassRun::Named(std::string_view pass, const absl::Status& status) {
  absl::Status named(status.code(), absl::StrCat(std::string(pass), ": ", std::string(status.message())));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { named.SetPayload(url, payload); });
  return named;
}

}  // namespace kiln
