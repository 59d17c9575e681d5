// Runs a fuzz target without libFuzzer:
//   headrace_fuzz_NOUN [--iterations N | --seconds T] [--seed S] [FILE or DIR ...]
// Replays the target's own seeds and all files, then mutates them N times, or for T seconds. The
// same arguments give the same inputs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "fuzz.hpp"

namespace headrace::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::uint8_t kTelling[] = {0x00, 0x01, 0x7F, 0x80, 0xC0, 0xC4,
                                     0xD8, 0xD9, 0xDA, 0xFE, 0xFF};

struct Arguments {
  unsigned long iterations = 10000;
  unsigned long seconds = 0;  // instead, where it is not 0
  std::uint32_t seed = 1;
  std::vector<Input> inputs = seed_inputs();
};

Input read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void add_path(const fs::path& path, std::vector<Input>& inputs) {
  if (!fs::is_directory(path)) {
    inputs.push_back(read_file(path));
    return;
  }
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& file : paths) inputs.push_back(read_file(file));
}

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const bool has_value = i + 1 < count;
    if (has_value && std::strcmp(values[i], "--iterations") == 0) {
      arguments.iterations = std::strtoul(values[++i], nullptr, 10);
    } else if (has_value && std::strcmp(values[i], "--seconds") == 0) {
      arguments.seconds = std::strtoul(values[++i], nullptr, 10);
    } else if (has_value && std::strcmp(values[i], "--seed") == 0) {
      arguments.seed = static_cast<std::uint32_t>(std::strtoul(values[++i], nullptr, 10));
    } else {
      add_path(values[i], arguments.inputs);
    }
  }
  return arguments;
}

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : engine_(seed) {}

  Input mutate(const std::vector<Input>& inputs) {
    Input input = inputs[below(inputs.size())];
    const std::size_t changes = 1 + below(below(4) == 0 ? 30 : 3);
    for (std::size_t i = 0; i < changes; ++i) change(input, inputs);
    return input;
  }

 private:
  std::size_t below(std::size_t n) { return engine_() % n; }

  void change(Input& input, const std::vector<Input>& inputs) {
    if (input.empty()) input.push_back(0);
    const std::size_t at = below(input.size());
    const auto position = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(7)) {
      case 0:
        input[at] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 1:
        input[at] = static_cast<std::uint8_t>(below(256));
        break;
      case 2:
        input[at] = kTelling[below(std::size(kTelling))];
        break;
      case 3:
        input.resize(at);
        break;
      case 4:
        input.erase(position, position + static_cast<std::ptrdiff_t>(
                                             std::min(1 + below(24), input.size() - at)));
        break;
      case 5:
        input.insert(position, 1 + below(24), kTelling[below(std::size(kTelling))]);
        break;
      default:
        splice(input, at, inputs[below(inputs.size())]);
        break;
    }
  }

  // Overwrites from `at` on with a piece of another input.
  void splice(Input& input, std::size_t at, const Input& other) {
    if (other.empty()) return;
    const std::size_t from = below(other.size());
    const std::size_t size = std::min({1 + below(64), other.size() - from, input.size() - at});
    std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(from), size,
                input.begin() + static_cast<std::ptrdiff_t>(at));
  }

  std::mt19937 engine_;
};

void run(const Input& input) {
  // An exact copy: a sanitizer then sees any read behind the end.
  const Input exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace
}  // namespace headrace::fuzz

int main(int count, char** values) {
  using namespace headrace::fuzz;
  const Arguments arguments = parse(count, values);
  for (const Input& input : arguments.inputs) run(input);
  Mutator mutator(arguments.seed);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(arguments.seconds);
  unsigned long done = 0;
  while (arguments.seconds != 0 ? Clock::now() < end : done < arguments.iterations) {
    run(mutator.mutate(arguments.inputs));
    ++done;
  }
  std::printf("%zu inputs and %lu mutations\n", arguments.inputs.size(), done);
  return 0;
}
