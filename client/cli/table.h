// Aligned columns.
#pragma once

#include <string>
#include <vector>

namespace kiln {

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string name;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }  // one cell a column
  bool empty() const { return rows_.empty(); }

  // Header and rows, a line each, two spaces between columns, none at a line's end. `bold` frames the header with
  // terminal codes. Cells are cut to one line, and to printable characters.
  std::string Text(bool bold) const;

 private:
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `text` with what could confuse a terminal replaced by spaces.
std::string Printable(const std::string& text);

}  // namespace kiln
