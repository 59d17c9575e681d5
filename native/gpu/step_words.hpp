// The steps of one picture as the GPU has them (layout.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/images/pixel_steps.hpp"

namespace headrace::gpu {

// Writes the words and returns how many they are; without `out` it only counts them. Only steps
// that check_steps accepts. Steps that leave the picture alone are left out; 0: all of them are.
std::size_t write_step_words(std::span<const PixelStep> steps, std::size_t picture,
                             ImageShape shape, std::uint32_t* out) noexcept;

}  // namespace headrace::gpu
