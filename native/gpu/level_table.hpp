// What each grey level becomes in the output.
#pragma once

#include <cstddef>
#include <vector>

#include "headrace/images/load.hpp"

namespace headrace::gpu {

// [3][256] values of the output's type, as the CPU writes them; nothing for uint8, which stays as
// it is. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::byte> level_table(const LoadOptions& options);

}  // namespace headrace::gpu
