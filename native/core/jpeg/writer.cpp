#include "core/jpeg/writer.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/jpeg/markers.hpp"

namespace headrace {
namespace {

constexpr unsigned kMaxCodeLength = 16;

std::uint64_t load_be(const std::uint8_t* from) noexcept {
  return __builtin_bswap64(load_u64_le(reinterpret_cast<const std::byte*>(from)));
}

void store_be(std::uint8_t* to, std::uint64_t value) noexcept {
  for (unsigned i = 0; i < 8; ++i) to[i] = static_cast<std::uint8_t>(value >> (56 - 8 * i));
}

// Codes of 16 bits that begin with no code of the table.
std::uint32_t free_codes(const HuffmanSpec& spec) noexcept {
  std::uint32_t used = 0;
  for (unsigned l = 1; l <= kMaxCodeLength; ++l) {
    used += std::uint32_t{spec.counts[l - 1]} << (kMaxCodeLength - l);
  }
  return (1U << kMaxCodeLength) - used;
}

unsigned longest(const HuffmanSpec& spec) noexcept {
  unsigned length = kMaxCodeLength;
  while (length > 1 && spec.counts[length - 1] == 0) --length;
  return length;
}

// Shortest length, not below any in use, at which `count` more codes leave one free: the code of
// ones alone is not to be used.
unsigned room_for(const HuffmanSpec& spec, std::size_t count) noexcept {
  const std::uint32_t free = free_codes(spec);
  for (unsigned length = longest(spec); length <= kMaxCodeLength; ++length) {
    if ((count << (kMaxCodeLength - length)) < free) return length;
  }
  return 0;
}

void list_codes(const HuffmanSpec& spec, DcCodes& codes) noexcept {
  codes = {};
  std::uint32_t code = 0;
  std::size_t place = 0;
  for (unsigned length = 1; length <= kMaxCodeLength; ++length, code <<= 1) {
    for (unsigned i = 0; i < spec.counts[length - 1]; ++i, ++code) {
      const std::size_t symbol = spec.symbols[place++];
      if (symbol <= kMaxDcSize && codes[symbol].length == 0) codes[symbol] = {code, length};
    }
  }
}

class Segments {
 public:
  explicit Segments(std::vector<std::byte>& out) noexcept : out_(out) {}

  void byte(std::size_t value) { out_.push_back(static_cast<std::byte>(value)); }
  void word(std::size_t value) {
    byte(value >> 8);
    byte(value & 255);
  }
  void start(unsigned code, std::size_t body_size) {
    word(0xFF00 | code);
    word(body_size + 2);
  }
  void text(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
  }

 private:
  std::vector<std::byte>& out_;
};

// Says how the components are to be understood, as libjpeg reads it.
void append_color_space(const BaselineJpeg& jpeg, Segments& out) {
  using namespace std::string_view_literals;
  if (jpeg.color_space == JpegColorSpace::rgb) {
    out.start(marker::kApp14, 12);
    out.text("Adobe\0\x64\0\0\0\0\0"sv);
  } else {
    out.start(marker::kApp0, 14);
    out.text("JFIF\0\1\1\0\0\1\0\1\0\0"sv);
  }
}

void append_quantiser(const Quantiser& quantiser, std::size_t slot, Segments& out) {
  const bool is_wide =
      std::any_of(quantiser.begin(), quantiser.end(), [](std::uint16_t q) { return q > 255; });
  out.start(marker::kDqt, 1 + kBlockSize * (is_wide ? 2 : 1));
  out.byte((is_wide ? 16U : 0U) | slot);
  for (const std::uint8_t place : kZigzagOrder) {
    if (is_wide) {
      out.word(quantiser[place]);
    } else {
      out.byte(quantiser[place]);
    }
  }
}

void append_codes(const HuffmanSpec& spec, std::size_t id, Segments& out) {
  out.start(marker::kDht, 17 + spec.size);
  out.byte(id);
  for (const std::uint8_t count : spec.counts) out.byte(count);
  for (std::size_t i = 0; i < spec.size; ++i) out.byte(spec.symbols[i]);
}

void append_frame(const BaselineJpeg& jpeg, ImageShape shape, Segments& out) {
  out.start(0xC1, 6 + 3 * jpeg.components);  // extended: baseline knows two Huffman tables only
  out.byte(8);
  out.word(shape.height);
  out.word(shape.width);
  out.byte(jpeg.components);
  for (std::size_t i = 0; i < jpeg.components; ++i) {
    out.byte(jpeg.component[i].id);
    out.byte(i == 0 ? jpeg.h << 4 | jpeg.v : 0x11);
    out.byte(jpeg.component[i].quantiser);
  }
}

void append_scan_header(const BaselineJpeg& jpeg, Segments& out) {
  out.start(marker::kSos, 4 + 2 * jpeg.components);
  out.byte(jpeg.components);
  for (std::size_t i = 0; i < jpeg.components; ++i) {
    out.byte(jpeg.component[i].id);
    out.byte(jpeg.component[i].dc_table << 4 | jpeg.component[i].ac_table);
  }
  out.byte(0);
  out.byte(63);
  out.byte(0);
}

}  // namespace

Status complete_dc_codes(HuffmanSpec& spec, DcCodes& codes) noexcept {
  list_codes(spec, codes);
  const auto missing = static_cast<std::size_t>(std::count_if(
      codes.begin(), codes.end(), [](const DcCode& code) { return code.length == 0; }));
  if (missing == 0) return {};
  const unsigned length = room_for(spec, missing);
  if (length == 0 || spec.size + missing > spec.symbols.size()) {
    return Status(Code::unsupported, "JPEG: no room for more codes in a DC table");
  }
  for (std::size_t size = 0; size < codes.size(); ++size) {
    if (codes[size].length == 0) spec.symbols[spec.size++] = static_cast<std::uint8_t>(size);
  }
  spec.counts[length - 1] = static_cast<std::uint8_t>(spec.counts[length - 1] + missing);
  list_codes(spec, codes);
  return {};
}

void ScanWriter::reserve(std::size_t bits) {
  const std::size_t needed = size_ + bits / 8 + 32;
  if (memory_.size() < needed) memory_.resize(needed + needed / 2);
}

void ScanWriter::put(std::uint32_t bits, unsigned count) noexcept {
  if (count == 0) return;
  bits_ |= std::uint64_t{bits} << (64 - count) >> count_;
  count_ += count;
  store_be(memory_.data() + size_, bits_);
  const unsigned whole = count_ / 8;
  size_ += whole;
  bits_ <<= 8 * whole;
  count_ %= 8;
}

void ScanWriter::copy(const std::uint8_t* bytes, std::size_t first, std::size_t count) noexcept {
  const std::uint8_t* from = bytes + first / 8;
  const unsigned shift = first % 8;
  const unsigned kept = count_;
  std::uint8_t* to = memory_.data() + size_;
  std::size_t left = count;
  for (; left >= 64; left -= 64, from += 8, to += 8) {
    const std::uint64_t word = load_be(from) << shift | std::uint64_t{from[8]} >> (8 - shift);
    store_be(to, bits_ | word >> kept);
    bits_ = kept == 0 ? 0 : word << (64 - kept);
  }
  size_ = static_cast<std::size_t>(to - memory_.data());
  for (std::size_t at = 0; at < left; at += 32) {
    const auto n = static_cast<unsigned>(std::min<std::size_t>(left - at, 32));
    const std::uint64_t word = load_be(from + at / 8) << shift;
    put(static_cast<std::uint32_t>(word >> (64 - n)), n);
  }
}

ByteSpan ScanWriter::finish() noexcept {
  if (count_ > 0) put(255, 8 - count_);
  return std::as_bytes(std::span(memory_.data(), size_));
}

void append_header(const BaselineJpeg& jpeg, ImageShape shape, std::vector<std::byte>& out) {
  Segments segments(out);
  segments.word(0xFF00 | marker::kSoi);
  append_color_space(jpeg, segments);
  unsigned quantisers = 0;
  unsigned dc = 0;
  unsigned ac = 0;
  for (std::size_t i = 0; i < jpeg.components; ++i) {
    quantisers |= 1U << jpeg.component[i].quantiser;
    dc |= 1U << jpeg.component[i].dc_table;
    ac |= 1U << jpeg.component[i].ac_table;
  }
  for (std::size_t slot = 0; slot < kJpegTableSlots; ++slot) {
    if ((quantisers >> slot & 1) != 0) append_quantiser(jpeg.quantisers[slot], slot, segments);
    if ((dc >> slot & 1) != 0) append_codes(jpeg.dc[slot], slot, segments);
    if ((ac >> slot & 1) != 0) append_codes(jpeg.ac[slot], 16 | slot, segments);
  }
  append_frame(jpeg, shape, segments);
  append_scan_header(jpeg, segments);
}

void append_scan(ByteSpan scan, std::vector<std::byte>& out) {
  out.reserve(out.size() + scan.size() + scan.size() / 64 + 64);
  while (!scan.empty()) {
    const auto* found = static_cast<const std::byte*>(std::memchr(scan.data(), 0xFF, scan.size()));
    const std::size_t size =
        found == nullptr ? scan.size() : static_cast<std::size_t>(found - scan.data()) + 1;
    out.insert(out.end(), scan.begin(), scan.begin() + static_cast<std::ptrdiff_t>(size));
    if (found != nullptr) out.push_back(std::byte{0});
    scan = scan.subspan(size);
  }
  out.push_back(std::byte{0xFF});
  out.push_back(static_cast<std::byte>(marker::kEoi));
}

}  // namespace headrace
