// Where time goes (KILN_TIME=1): seconds by stage.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

// Not thread-safe.
class StageTimes {
 public:
  void Add(std::string_view stage, double seconds);
  // In the order of their first time.
  std::span<const std::pair<std::string, double>> stages() const { return stages_; }
  double total() const;
  // "    1.25 ms   4%  decompose", one line a stage.
  std::string Report() const;

 private:
  std::vector<std::pair<std::string, double>> stages_;
};

// Adds the time from here to its end, unless `times` is null.
class StageTimer {
 public:
  StageTimer(StageTimes* times, std::string_view stage);
  ~StageTimer();
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  StageTimes* times_;
  std::string_view stage_;
  int64_t begin_nanos_;
};

}  // namespace kiln
