#include "headrace/checksum.hpp"

#include <algorithm>

#include "headrace/cpu.hpp"
#include "headrace/io/gather.hpp"
#include "kernels/kernels.hpp"

namespace headrace {
namespace {

using Update = std::uint32_t (*)(std::uint32_t, const std::uint8_t*, std::size_t) noexcept;
using Copy = std::uint32_t (*)(std::uint32_t, const std::uint8_t*, std::uint8_t*,
                               std::size_t) noexcept;

struct ChecksumKernels {
  Update update;
  Copy copy;
};

ChecksumKernels kernels_of(ChecksumKind kind) noexcept {
  const bool is_crc32 = kind == ChecksumKind::crc32;
#define HEADRACE_CRC_KERNELS(level)                                                     \
  (is_crc32 ? ChecksumKernels{kernels::level::crc32_update, kernels::level::crc32_copy} \
            : ChecksumKernels{kernels::level::crc32c_update, kernels::level::crc32c_copy})
#ifdef HEADRACE_X86_KERNELS
  switch (simd_level()) {
    case SimdLevel::avx512:
      return HEADRACE_CRC_KERNELS(avx512);
    case SimdLevel::avx2:
    case SimdLevel::sse42:
      return HEADRACE_CRC_KERNELS(sse42);
    case SimdLevel::scalar:
      break;
  }
#endif
  return HEADRACE_CRC_KERNELS(scalar);
#undef HEADRACE_CRC_KERNELS
}

Update update_kernel(ChecksumKind kind) noexcept { return kernels_of(kind).update; }

std::uint32_t update(Update kernel, std::uint32_t state, ByteSpan data) noexcept {
  return kernel(state, reinterpret_cast<const std::uint8_t*>(data.data()), data.size());
}

constexpr std::byte kZeros[4096] = {};

std::uint32_t update_zeros(Update kernel, std::uint32_t state, std::size_t size) noexcept {
  while (size > 0) {
    const std::size_t piece = std::min(size, sizeof kZeros);
    state = update(kernel, state, ByteSpan(kZeros, piece));
    size -= piece;
  }
  return state;
}

std::uint32_t row_checksum(Update kernel, ByteSpan row, std::span<const Hole> holes) noexcept {
  std::uint32_t state = ~std::uint32_t{0};
  std::size_t done = 0;
  for (const Hole& hole : holes) {
    state = update(kernel, state, row.subspan(done, hole.offset - done));
    state = update_zeros(kernel, state, hole.size);
    done = hole.offset + hole.size;
  }
  return ~update(kernel, state, row.subspan(done));
}

Status check_holes(std::span<const Hole> holes, std::size_t row_size) noexcept {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < holes.size(); ++i) {
    const auto [offset, size] = holes[i];
    if (offset < end || !is_inside(offset, size, row_size)) {
      return Status(Code::invalid_argument,
                    Detail("hole ") << i << " (offset " << offset << ", size " << size
                                    << ") is not inside a row of " << row_size
                                    << " bytes or not behind the hole before it",
                    static_cast<std::int64_t>(i));
    }
    end = offset + size;
  }
  return {};
}

Status checksum_spans(ChecksumKind kind, ByteSpan base, SpanList spans,
                      std::span<std::uint32_t> out) noexcept {
  if (Status status = check_spans(spans, base.size()); !status.is_ok()) return status;
  if (out.size() != spans.offsets.size()) {
    return Status(Code::invalid_argument, "as many checksums as spans are needed");
  }
  const Update kernel = update_kernel(kind);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = ~update(kernel, ~std::uint32_t{0}, base.subspan(spans.offsets[i], spans.sizes[i]));
  }
  return {};
}

}  // namespace

std::optional<ChecksumKind> parse_checksum_kind(std::string_view name) noexcept {
  if (name == "crc32c") return ChecksumKind::crc32c;
  if (name == "crc32") return ChecksumKind::crc32;
  return std::nullopt;
}

std::uint32_t checksum(ChecksumKind kind, ByteSpan data, std::uint32_t initial) noexcept {
  return ~update(update_kernel(kind), ~initial, data);
}

Status wrong_checksum(std::uint32_t expected, std::uint32_t found, std::int64_t offset) noexcept {
  return Status(Code::wrong_checksum,
                Detail("checksum ") << Hex32{expected} << " expected, found " << Hex32{found},
                offset);
}

std::uint32_t copy_with_checksum(ChecksumKind kind, ByteSpan from, std::byte* to) noexcept {
  return ~kernels_of(kind).copy(~std::uint32_t{0},
                                reinterpret_cast<const std::uint8_t*>(from.data()),
                                reinterpret_cast<std::uint8_t*>(to), from.size());
}

std::uint32_t crc32c(ByteSpan data, std::uint32_t initial) noexcept {
  return checksum(ChecksumKind::crc32c, data, initial);
}

std::uint32_t crc32(ByteSpan data, std::uint32_t initial) noexcept {
  return checksum(ChecksumKind::crc32, data, initial);
}

Status crc32c_spans(ByteSpan base, std::span<const std::uint64_t> offsets,
                    std::span<const std::uint64_t> sizes, std::span<std::uint32_t> out) noexcept {
  return checksum_spans(ChecksumKind::crc32c, base, {offsets, sizes}, out);
}

Status crc32_spans(ByteSpan base, std::span<const std::uint64_t> offsets,
                   std::span<const std::uint64_t> sizes, std::span<std::uint32_t> out) noexcept {
  return checksum_spans(ChecksumKind::crc32, base, {offsets, sizes}, out);
}

Status checksum_buffers(ChecksumKind kind, std::span<const ByteSpan> buffers,
                        std::span<std::uint32_t> out) noexcept {
  if (out.size() != buffers.size()) {
    return Status(Code::invalid_argument, "as many checksums as buffers are needed");
  }
  const Update kernel = update_kernel(kind);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = ~update(kernel, ~std::uint32_t{0}, buffers[i]);
  }
  return {};
}

Status crc32c_rows(ByteSpan rows, std::size_t row_size, std::span<const Hole> holes,
                   std::span<std::uint32_t> out) noexcept {
  std::uint64_t expected = 0;
  if (!checked_multiply(row_size, out.size(), expected) || expected != rows.size()) {
    return Status(Code::invalid_argument, Detail() << rows.size() << " bytes are not " << out.size()
                                                   << " rows of " << row_size << " bytes");
  }
  if (Status status = check_holes(holes, row_size); !status.is_ok()) return status;
  const Update kernel = update_kernel(ChecksumKind::crc32c);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = row_checksum(kernel, rows.subspan(i * row_size, row_size), holes);
  }
  return {};
}

Result<std::ptrdiff_t> find_wrong_row(ByteSpan rows, std::size_t row_size,
                                      std::span<const Hole> holes,
                                      std::span<const std::int64_t> numbers,
                                      std::span<const std::uint32_t> expected,
                                      std::size_t expected_columns) noexcept {
  const std::size_t count = expected_columns == 0 ? 0 : expected.size() / expected_columns;
  std::uint64_t bytes = 0;
  if (!checked_multiply(row_size, count, bytes) || bytes != rows.size()) {
    return Status(Code::invalid_argument, Detail() << rows.size() << " bytes are not " << count
                                                   << " rows of " << row_size << " bytes");
  }
  if (Status status = check_holes(holes, row_size); !status.is_ok()) return status;
  const Update kernel = update_kernel(ChecksumKind::crc32c);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<std::uint64_t>(numbers[i]);
    if (number >= count) return Status(Code::out_of_bounds, "there is no such row", i);
    const ByteSpan row = rows.subspan(number * row_size, row_size);
    if (row_checksum(kernel, row, holes) != expected[number * expected_columns]) {
      return static_cast<std::ptrdiff_t>(i);
    }
  }
  return -1;
}

}  // namespace headrace
