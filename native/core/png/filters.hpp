// Rows of a PNG as they were before they were filtered: each byte was made the difference to a
// prediction from the pixel to the left, the one above, and the one above that to the left.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Readers of a row may look at so many bytes behind it.
inline constexpr std::size_t kRowSlack = 4;

// `above` is the row before, as it was, or null. `to` may be `from`. False for a filter that does
// not exist.
[[nodiscard]] bool restore_row(unsigned filter, std::size_t pixel_size, const std::uint8_t* from,
                               const std::uint8_t* above, std::size_t size,
                               std::uint8_t* to) noexcept;

}  // namespace headrace
