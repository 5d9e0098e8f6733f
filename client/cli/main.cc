#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "client/cli/cli.h"

int main(int argc, char** argv) {
  const bool plain = std::getenv("NO_COLOR") != nullptr;
  return kiln::RunKilnctl(argc, argv, std::cout, std::cerr, !plain && isatty(STDOUT_FILENO) != 0);
}
