#include "compiler/debug/times.h"

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace kiln {

void StageTimes::Add(std::string_view stage, double seconds) {
  for (auto& [name, sum] : stages_) {
    if (name == stage) {
      sum += seconds;
      return;
    }
  }
  stages_.emplace_back(stage, seconds);
}

double StageTimes::total() const {
  double sum = 0;
  for (const auto& [name, seconds] : stages_) sum += seconds;
  return sum;
}

std::string StageTimes::Report() const {
  std::string report;
  const double all = total();
  for (const auto& [name, seconds] : stages_) {
    absl::StrAppendFormat(&report, "%9.2f ms %3.0f%%  %s\n", seconds * 1e3, all > 0 ? seconds / all * 100 : 0, name);
  }
  return report;
}

StageTimer::StageTimer(StageTimes* times, std::string_view stage)
    : times_(times), stage_(stage), begin_nanos_(times != nullptr ? absl::GetCurrentTimeNanos() : 0) {}

StageTimer::~StageTimer() {
  if (times_ != nullptr) times_->Add(stage_, static_cast<double>(absl::GetCurrentTimeNanos() - begin_nanos_) * 1e-9);
}

}  // namespace kiln
