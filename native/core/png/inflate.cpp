#include "core/png/inflate.hpp"

#ifdef HEADRACE_HAS_DEFLATE

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "core/memory.hpp"
#include "core/png/chunks.hpp"
#include "core/png/filters.hpp"
#include "core/png/levels.hpp"
#include "headrace/checksum.hpp"

namespace headrace {
namespace {

constexpr std::size_t kMaxKeptBytes = 8 << 20;

// What a thread uses again for its next picture.
struct InflateMemory {
  InflateMemory() noexcept : inflater(libdeflate_alloc_decompressor()) {}
  ~InflateMemory() {
    if (inflater != nullptr) libdeflate_free_decompressor(inflater);
  }
  InflateMemory(const InflateMemory&) = delete;
  InflateMemory& operator=(const InflateMemory&) = delete;

  void shrink() noexcept {
    if (stream.size() > kMaxKeptBytes) std::vector<std::byte>().swap(stream);
    if (rows.size() > kMaxKeptBytes) std::vector<std::uint8_t>().swap(rows);
  }

  libdeflate_decompressor* inflater;
  std::vector<std::byte> stream;  // of several chunks
  std::vector<std::uint8_t> rows;
};

struct PngChunk {
  std::uint32_t name = 0;
  ByteSpan content;
};

// The chunk at `at`, which moves behind it; false when it is cut short, or not as its CRC says.
// Of chunks that nobody looks into the CRC does not matter.
bool read_chunk(ByteSpan data, std::size_t& at, PngChunk& chunk) noexcept {
  if (data.size() - at < kPngChunkFrame) return false;
  const std::size_t size = load_u32_be(data.data() + at);
  if (size > data.size() - at - kPngChunkFrame) return false;
  chunk.name = load_u32_be(data.data() + at + 4);
  if (!is_chunk_name(chunk.name)) return false;
  chunk.content = data.subspan(at + 8, size);
  const bool is_critical = is_critical_chunk(chunk.name);
  if (is_critical &&
      crc32(data.subspan(at + 4, size + 4)) != load_u32_be(data.data() + at + 8 + size)) {
    return false;
  }
  at += kPngChunkFrame + size;
  return true;
}

// IHDR says 0 for deflate, 0 for the five filters, 0 for no interlacing.
bool is_usual(ByteSpan header) noexcept {
  return header.size() == 13 && header[10] == std::byte{0} && header[11] == std::byte{0} &&
         header[12] == std::byte{0};
}

bool fill_palette(ByteSpan colours, PngLevels& levels) noexcept {
  if (colours.empty() || colours.size() % 3 != 0 || colours.size() > 3 * levels.size()) {
    return false;
  }
  for (std::size_t i = 0; i < colours.size(); ++i) {
    levels[i / 3][i % 3] = std::to_integer<std::uint8_t>(colours[i]);
  }
  return true;
}

// The palette, and all that was deflated, together. Throws std::bad_alloc.
bool find_stream(ByteSpan data, const PngInfo& info, PngLevels& levels, InflateMemory& memory,
                 ByteSpan& stream) {
  std::size_t at = kPngSignature.size(), parts = 0, size = 0;
  bool has_palette = false;
  for (PngChunk chunk; read_chunk(data, at, chunk);) {
    if (chunk.name == png_chunk("IDAT")) {
      if (parts == 0) stream = chunk.content;
      if (parts == 1) {
        grow(memory.stream, data.size());
        std::copy(stream.begin(), stream.end(), memory.stream.begin());
      }
      if (parts++ > 0) {
        std::copy(chunk.content.begin(), chunk.content.end(),
                  memory.stream.begin() + static_cast<std::ptrdiff_t>(size));
      }
      size += chunk.content.size();
      continue;
    }
    if (parts > 0) {  // pixels are in chunks that follow one another
      if (parts > 1) stream = ByteSpan(memory.stream).first(size);
      return has_palette || info.colour != PngColour::palette;
    }
    const bool is_critical = is_critical_chunk(chunk.name);
    if (chunk.name == png_chunk("IHDR")   ? !is_usual(chunk.content)
        : chunk.name == png_chunk("PLTE") ? has_palette || info.colour != PngColour::palette ||
                                                !fill_palette(chunk.content, levels)
                                          : is_critical) {
      return false;
    }
    has_palette |= chunk.name == png_chunk("PLTE");
  }
  return false;
}

// False when a pixel is transparent.
bool spread_row(const PngInfo& info, const PngLevels& levels, const std::uint8_t* from,
                std::uint8_t* to) noexcept {
  switch (info.channels()) {
    case 1:
      spread_levels(levels, from, info.width, to);
      return true;
    case 2:
      return spread_grey(from, info.width, to);
    case 4:
      return drop_alpha(from, info.width, to);
    default:
      return true;  // where they belong already
  }
}

// Throws std::bad_alloc.
std::optional<Status> inflate_all(ByteSpan data, const PngInfo& info, std::uint8_t* out,
                                  InflateMemory& memory) {
  PngLevels levels{};
  if (info.colour == PngColour::grey) fill_greys(8, levels);
  ByteSpan stream;
  if (!find_stream(data, info, levels, memory, stream)) return std::nullopt;
  const std::size_t channels = info.channels();
  const std::size_t row_size = info.width * channels;
  const std::size_t size = (row_size + 1) * info.height;
  grow(memory.rows, row_size + size + 2 * kRowSlack);  // a row of zeros is above the first
  std::uint8_t* const rows = memory.rows.data() + row_size + kRowSlack;
  const auto result = libdeflate_zlib_decompress(memory.inflater, stream.data(), stream.size(),
                                                 rows, size, nullptr);
  if (result != LIBDEFLATE_SUCCESS) return std::nullopt;
  std::memset(memory.rows.data(), 0, row_size + kRowSlack);
  const std::uint8_t* above = memory.rows.data();
  for (std::size_t y = 0; y < info.height; ++y) {
    std::uint8_t* const from = rows + y * (row_size + 1) + 1;
    std::uint8_t* const target = out + y * info.width * kRgbChannels;
    std::uint8_t* const to = channels == kRgbChannels ? target : from;
    if (!restore_row(from[-1], channels, from, above, row_size, to)) return std::nullopt;
    if (!spread_row(info, levels, to, target)) return is_transparent();
    above = to;
  }
  return Status();
}

}  // namespace

std::optional<Status> inflate_png(ByteSpan data, const PngInfo& info, std::uint8_t* out) noexcept {
  if (info.bit_depth != 8 || info.is_interlaced || !info.is_plain()) return std::nullopt;
  thread_local InflateMemory memory;
  if (memory.inflater == nullptr) return std::nullopt;
  try {
    const auto status = inflate_all(data, info, out, memory);
    memory.shrink();
    return status;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

}  // namespace headrace

#else

namespace headrace {

std::optional<Status> inflate_png(ByteSpan, const PngInfo&, std::uint8_t*) noexcept {
  return std::nullopt;
}

}  // namespace headrace

#endif
