#include "core/jpeg/codes.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>

namespace headrace {
namespace {

using kernels::JpegCodes;

void fill_search(const HuffmanSpec& spec, JpegCodes& out) noexcept {
  std::uint32_t code = 0;
  std::int32_t place = 0;
  out.limits[0] = 0;
  out.offsets[0] = 0;
  for (unsigned length = 1; length <= 16; ++length) {
    const unsigned count = spec.counts[length - 1];
    out.offsets[length] = place - static_cast<std::int32_t>(code);
    code += count;
    place += static_cast<std::int32_t>(count);
    out.limits[length] = code << (16 - length);
    code <<= 1;
  }
  std::copy(spec.symbols.begin(), spec.symbols.end(), out.symbols);
}

// Whatever comes after the last coefficient goes to the row that belongs to none.
constexpr std::array<std::int16_t, std::extent_v<decltype(JpegCodes::places)>> kPlaces = [] {
  std::array<std::int16_t, std::extent_v<decltype(JpegCodes::places)>> places{};
  places.fill(kBlockSide * kernels::kGroupWidth);
  for (std::size_t k = 0; k < kBlockSize; ++k) {
    places[k] = static_cast<std::int16_t>(kZigzagOrder[k] / kBlockSide * kernels::kGroupWidth +
                                          kZigzagOrder[k] % kBlockSide);
  }
  return places;
}();

// Values of `size` bits: the lower half of the numbers stands for negative ones.
std::uint32_t value_of(std::uint32_t bits, unsigned size) noexcept {
  const std::uint32_t value = bits >> (size - 1) != 0 ? bits : bits + 1 - (1U << size);
  return value << 16;
}

std::uint32_t* fill_values(std::uint32_t* out, unsigned length, unsigned run,
                           unsigned size) noexcept {
  const std::uint32_t entry = (length + size) | (run + 1) << 8;
  const std::size_t repeats = std::size_t{1} << (kernels::kAcBits - length - size);
  for (std::uint32_t bits = 0; bits < 1U << size; ++bits) {
    out = std::fill_n(out, repeats, entry | value_of(bits, size));
  }
  return out;
}

std::uint32_t* fill_ac_code(std::uint32_t* out, unsigned length, unsigned symbol) noexcept {
  const unsigned run = symbol >> 4;
  const unsigned size = symbol & 15;
  const std::size_t span = std::size_t{1} << (kernels::kAcBits - length);
  if (size == 0) {
    return std::fill_n(out, span, length | (run == 15 ? 16 : kernels::kEndOfBlock) << 8);
  }
  if (length + size <= kernels::kAcBits) return fill_values(out, length, run, size);
  return std::fill_n(out, span, (run + 1) << 8 | length << 16 | size << 24);
}

// Calls fill(out, length, symbol) for every code of at most `bits` bits, in order; `fill` returns
// the end of what it has filled.
template <typename Fill>
void fill_entries(const HuffmanSpec& spec, int bits, JpegCodes& out, const Fill& fill) noexcept {
  std::uint32_t* entry = out.entries;
  std::size_t place = 0;
  for (unsigned length = 1; length <= static_cast<unsigned>(bits); ++length) {
    for (unsigned i = 0; i < spec.counts[length - 1]; ++i) {
      entry = fill(entry, length, spec.symbols[place++]);
    }
  }
  std::fill(entry, out.entries + (std::size_t{1} << bits), 0U);
}

}  // namespace

void fill_dc_codes(const HuffmanSpec& spec, JpegCodes& out) noexcept {
  fill_search(spec, out);
  fill_entries(spec, kernels::kDcBits, out,
               [](std::uint32_t* entry, unsigned length, unsigned size) noexcept {
                 const std::size_t span = std::size_t{1} << (kernels::kDcBits - length);
                 return std::fill_n(entry, span, (length + size) | length << 8 | size << 16);
               });
}

void fill_ac_codes(const HuffmanSpec& spec, JpegCodes& out) noexcept {
  fill_search(spec, out);
  std::copy(kPlaces.begin(), kPlaces.end(), out.places);
  fill_entries(spec, kernels::kAcBits, out, fill_ac_code);
  std::fill(out.entries + (std::size_t{1} << kernels::kAcBits), std::end(out.entries),
            kernels::kWaitingEntry);
}

void fill_code_tables(const BaselineJpeg& jpeg, JpegCodeTables& out) noexcept {
  unsigned dc_filled = 0;
  unsigned ac_filled = 0;
  for (std::size_t i = 0; i < jpeg.components; ++i) {
    const unsigned dc = jpeg.component[i].dc_table;
    const unsigned ac = jpeg.component[i].ac_table;
    if ((dc_filled >> dc & 1) == 0) fill_dc_codes(jpeg.dc[dc], out.dc[dc]);
    if ((ac_filled >> ac & 1) == 0) fill_ac_codes(jpeg.ac[ac], out.ac[ac]);
    dc_filled |= 1U << dc;
    ac_filled |= 1U << ac;
  }
}

}  // namespace headrace
