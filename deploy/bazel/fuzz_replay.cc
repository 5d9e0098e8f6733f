// main() of a fuzz target outside --config=fuzz: runs the target on every corpus file named, and on a fixed number of
// deterministic mutations of each, so that the target is compiled and exercised by the ordinary tests.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutationsPerSeed = 200;

void RunOne(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

std::string Mutate(std::string input, std::mt19937& random) {
  const size_t edits = 1 + random() % 4;
  for (size_t i = 0; i < edits; ++i) {
    const size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 4) {
      case 0:
        input.insert(at, 1, static_cast<char>(random()));
        break;
      case 1:
        input.resize(at);
        break;
      case 2:
        if (!input.empty()) input.erase(at, 1 + random() % 8);
        break;
      default:
        if (!input.empty()) input[at] = static_cast<char>(random());
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(1);
  std::vector<std::string> seeds = {""};
  for (int i = 1; i < argc; ++i) {
    std::ifstream in(argv[i], std::ios::binary);
    if (!in) {
      fprintf(stderr, "cannot read %s\n", argv[i]);
      return 1;
    }
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  for (const std::string& seed : seeds) {
    RunOne(seed);
    for (int i = 0; i < kMutationsPerSeed; ++i) RunOne(Mutate(seed, random));
  }
}
