// Types that the values of a batch may have.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

enum class OutputType : std::uint8_t { uint8, float16, float32 };

[[nodiscard]] constexpr std::size_t size_bytes_of(OutputType type) noexcept {
  switch (type) {
    case OutputType::uint8:
      return 1;
    case OutputType::float16:
      return 2;
    case OutputType::float32:
      break;
  }
  return 4;
}

}  // namespace headrace
