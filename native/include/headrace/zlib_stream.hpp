// Streams of zlib (RFC 1950), unpacked at once where libdeflate is there: faster than zlib does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "headrace/bytes.hpp"

namespace headrace {

// Unpacks into `out` and gives the number of bytes. Nothing: zlib has to be asked, because the
// stream is damaged or cut short, has more bytes than `out`, or there is no libdeflate. What `out`
// holds then means nothing.
std::optional<std::size_t> inflate_stream(ByteSpan stream, std::span<std::uint8_t> out) noexcept;

}  // namespace headrace
