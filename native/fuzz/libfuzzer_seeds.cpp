// With libFuzzer: HEADRACE_WRITE_SEEDS=DIR headrace_fuzz_NOUN stores the target's own seeds in DIR,
// which must exist, and ends. libFuzzer itself starts from files only.
#include <cstdlib>
#include <fstream>
#include <string>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*values*/) {
  const char* folder = std::getenv("HEADRACE_WRITE_SEEDS");
  if (folder == nullptr) return 0;
  int number = 0;
  for (const headrace::fuzz::Input& input : headrace::fuzz::seed_inputs()) {
    std::ofstream file(std::string(folder) + "/seed_" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
  }
  std::exit(0);
}
