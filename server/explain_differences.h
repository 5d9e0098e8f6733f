// What a comparison of two entries has found so far.
#pragma once

#include <string>
#include <string_view>

#include "server/explain.h"

namespace kiln {

inline constexpr size_t kShownText = 200;  // bytes of a text that is shown

class Differences {
 public:
  explicit Differences(Comparison* out) : out_(out) {}

  // The texts may be anybody's: they are made fit for a line.
  void Add(const std::string& part, const std::string& what, const std::string& before, const std::string& after,
           std::string_view advice);
  // Nothing where the two are alike.
  void AddFlag(const std::string& what, bool before, bool after, std::string_view advice);

 private:
  Comparison* const out_;
};

}  // namespace kiln
