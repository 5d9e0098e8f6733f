#include "compiler/loop/lexer.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"

namespace kiln::loop {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }
bool IsWordChar(char c) { return IsLetter(c) || IsDigit(c); }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t WordLength(std::string_view text) {
  if (text.empty() || !IsLetter(text[0])) return 0;
  return std::find_if_not(text.begin(), text.end(), IsWordChar) - text.begin();
}

// Words that an index expression may hold; any other ends it.
bool InExpression(std::string_view word) {
  if (word == "min" || word == "max") return true;
  return word.size() > 1 && (word[0] == 's' || word[0] == 'i' || word[0] == 'v') &&
         std::all_of(word.begin() + 1, word.end(), IsDigit);
}

}  // namespace

bool Lexer::Fail(std::string_view what) {
  if (!status_.ok()) return false;
  const std::string_view before = text_.substr(0, token_);
  const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const size_t column = token_ - (start == std::string_view::npos ? 0 : start + 1) + 1;
  status_ = absl::InvalidArgumentError(absl::StrCat("line ", line, ", column ", column, ": ", std::string(what)));
  return false;
}

void Lexer::SkipSpace() {
  while (pos_ < text_.size()) {
    if (text_[pos_] == '#') {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else if (IsSpace(text_[pos_])) {
      ++pos_;
    } else {
      break;
    }
  }
  token_ = pos_;
}

bool Lexer::AtEnd() {
  SkipSpace();
  return pos_ == text_.size();
}

bool Lexer::Peek(std::string_view token) {
  SkipSpace();
  const std::string_view rest = text_.substr(pos_);
  if (!ok() || !rest.starts_with(token)) return false;
  return !IsLetter(token[0]) || WordLength(rest) == token.size();
}

bool Lexer::Accept(std::string_view token) {
  if (!Peek(token)) return false;
  pos_ += token.size();
  return true;
}

bool Lexer::Expect(std::string_view token) {
  return Accept(token) || Fail(absl::StrCat("expected \"", std::string(token), "\""));
}

std::string_view Lexer::Word() {
  SkipSpace();
  const size_t length = ok() ? WordLength(text_.substr(pos_)) : 0;
  if (length == 0) Fail("expected a word");
  pos_ += length;
  return text_.substr(pos_ - length, length);
}

bool Lexer::Id(char letter, uint32_t limit, uint32_t& id) {
  SkipSpace();
  const std::string_view word = text_.substr(pos_, ok() ? WordLength(text_.substr(pos_)) : 0);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data() + !word.empty(), word.data() + word.size(), value);
  if (word.size() < 2 || word[0] != letter || error != std::errc() || end != word.data() + word.size()) {
    return Fail(absl::StrCat("expected ", std::string(1, letter), " and a number"));
  }
  if (value >= limit) return Fail(absl::StrCat("a number of ", limit, " or more"));
  pos_ += word.size();
  id = value;
  return true;
}

bool Lexer::Unsigned(uint64_t limit, uint64_t& value) {
  SkipSpace();
  if (!ok()) return false;
  const char* first = text_.data() + pos_;
  const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
  if (error != std::errc() || value > limit) return Fail(absl::StrCat("expected a number up to ", limit));
  pos_ += end - first;
  return true;
}

bool Lexer::Signed(int64_t& value) {
  SkipSpace();
  if (!ok()) return false;
  const char* first = text_.data() + pos_;
  const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
  if (error != std::errc()) return Fail("expected a number that fits 64 bits");
  pos_ += end - first;
  return true;
}

std::string_view Lexer::Constant() {
  SkipSpace();
  const size_t start = pos_;
  while (ok() && pos_ < text_.size() && !IsSpace(text_[pos_]) && text_[pos_] != '#') ++pos_;
  return text_.substr(start, pos_ - start);
}

std::string_view Lexer::Expression() {
  SkipSpace();
  const size_t start = pos_;
  size_t last = pos_;  // behind the last character that is not a space
  while (ok() && pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == '\n' || c == '{' || c == ']' || c == '#') break;
    if (IsLetter(c)) {
      const size_t length = WordLength(text_.substr(pos_));
      if (!InExpression(text_.substr(pos_, length))) break;
      last = pos_ += length;
      continue;
    }
    ++pos_;
    if (!IsSpace(c)) last = pos_;
  }
  pos_ = last;
  return text_.substr(start, last - start);
}

}  // namespace kiln::loop
