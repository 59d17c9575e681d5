// Which instruction set the kernels use. Chosen once from the CPU; tests may lower it.
#pragma once

#include <optional>
#include <string_view>

#include "headrace/status.hpp"

namespace headrace {

// Each level includes the ones before it. `avx512` is what Ice Lake and Zen 4 brought (with
// VPCLMULQDQ); older CPUs with AVX-512 run as `avx2`.
enum class SimdLevel : int { scalar, sse42, avx2, avx512 };

[[nodiscard]] std::string_view simd_level_name(SimdLevel level) noexcept;
[[nodiscard]] std::optional<SimdLevel> parse_simd_level(std::string_view name) noexcept;

// Highest level this CPU (and this build) can run.
[[nodiscard]] SimdLevel hardware_simd_level() noexcept;

// Level in use, by all threads.
[[nodiscard]] SimdLevel simd_level() noexcept;

// Fails with `unsupported` above the hardware's level.
Status set_simd_level(SimdLevel level) noexcept;

}  // namespace headrace
