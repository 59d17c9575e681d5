// What a fuzz target offers beside LLVMFuzzerTestOneInput.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace headrace::fuzz {

using Input = std::vector<std::uint8_t>;

// Valid inputs to start from, so that no binary corpus has to be stored.
std::vector<Input> seed_inputs();

}  // namespace headrace::fuzz
