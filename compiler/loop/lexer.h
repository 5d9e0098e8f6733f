// Reads words, numbers and index expressions of the loop IR's text (parse.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kiln::loop {

// The first failure is kept with its place; afterwards every call fails. `text` outlives the lexer.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  // InvalidArgument "line L, column C: …" at the last token. Always false.
  bool Fail(std::string_view what);

  bool AtEnd();
  // Takes `token` (a whole word, or punctuation) if it comes next.
  bool Accept(std::string_view token);
  bool Expect(std::string_view token);
  bool Peek(std::string_view token);
  std::string_view Word();                             // [a-z_][a-z0-9_]*; empty, and a failure, if none comes next
  bool Id(char letter, uint32_t limit, uint32_t& id);  // s0, b1, i2, v3: below `limit`
  bool Unsigned(uint64_t limit, uint64_t& value);      // decimal, at most `limit`
  bool Signed(int64_t& value);
  // A constant: everything to the next space.
  std::string_view Constant();
  // An index expression: to the end of the line or the next keyword, "{", "]". May be empty.
  std::string_view Expression();

 private:
  void SkipSpace();

  std::string_view text_;
  size_t pos_ = 0;
  size_t token_ = 0;  // where the last token began
  absl::Status status_;
};

}  // namespace kiln::loop
