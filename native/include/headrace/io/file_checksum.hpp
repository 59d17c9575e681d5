// Checksums of parts of a file, each byte read once and thrown away.
#pragma once

#include <cstdint>
#include <span>

#include "headrace/checksum.hpp"
#include "headrace/io/gather.hpp"
#include "headrace/status.hpp"

namespace headrace {

// Through a small buffer, which stays in the cache of the processor: to map a file costs more, when
// its bytes are needed only once. Spans that follow one another are read together. An error's
// offset is the position of the bad span: `truncated` when the file ends before it does, `io_error`
// otherwise.
Status checksum_file(int fd, ChecksumKind kind, SpanList spans,
                     std::span<std::uint32_t> out) noexcept;

}  // namespace headrace
