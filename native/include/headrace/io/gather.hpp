// Copies many spans of one region, typically a memory-mapped file, to where they are wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/bytes.hpp"
#include "headrace/checksum.hpp"
#include "headrace/status.hpp"

namespace headrace {

// Spans to copy; both arrays have one entry per span.
struct SpanList {
  std::span<const std::uint64_t> offsets;
  std::span<const std::uint64_t> sizes;
};

// Fails with `out_of_bounds` and the index of the first span that leaves the region.
Status check_spans(SpanList spans, std::uint64_t region_size) noexcept;

// Copies span i to destinations[i], which has room for sizes[i] bytes. `checksums` is empty, or
// receives the CRC-32C of each span. Nothing is copied unless all spans are in bounds. The
// destinations may not overlap `base`.
Status gather(ByteSpan base, SpanList spans, std::span<std::byte* const> destinations,
              std::span<std::uint32_t> checksums) noexcept;

// The same from several regions, span i of bases[files[i]], with any kind of checksum.
Status gather(std::span<const ByteSpan> bases, std::span<const std::uint32_t> files, SpanList spans,
              std::span<std::byte* const> destinations, std::span<std::uint32_t> checksums,
              ChecksumKind kind) noexcept;

// The same into one output region, span i at out_offsets[i].
Status gather_into(ByteSpan base, SpanList spans, MutableByteSpan out,
                   std::span<const std::uint64_t> out_offsets,
                   std::span<std::uint32_t> checksums) noexcept;

}  // namespace headrace
