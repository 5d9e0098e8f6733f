#include "client/cli/table.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(Tables, ColumnsAreAligned) {
  Table t({{"NAME"}, {"COUNT", Table::Align::kRight}, {"WHAT"}});
  t.Add({"a", "1", "x"});
  t.Add({"longer", "12345678", ""});
  EXPECT_EQ(t.Text(false),
            "NAME       COUNT  WHAT\n"
            "a              1  x\n"
            "longer  12345678\n");
}

TEST(Tables, OnlyTheHeaderIsBold) {
  Table t({{"A"}});
  t.Add({"x"});
  EXPECT_EQ(t.Text(true), "\x1b[1mA\x1b[0m\nx\n");
}

TEST(Tables, CellsCannotDriveTheTerminal) {
  Table t({{"A"}});
  t.Add({"x\x1b[2J\ny"});
  EXPECT_EQ(t.Text(false), "A\nx [2J y\n");
}

}  // namespace
}  // namespace kiln
