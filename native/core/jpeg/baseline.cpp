#include "core/jpeg/baseline.hpp"

#include <algorithm>

#include "core/jpeg/markers.hpp"

namespace headrace {
namespace {

// Above it, products with coefficients leave the 16 bits in which all decoders agree.
constexpr unsigned kMaxQuantiser = 16383;

struct Sampling {
  unsigned h, v;
};

// What is known before the scan.
struct BaselineHeader {
  BaselineJpeg& jpeg;
  std::array<Sampling, kMaxBaselineComponents> sampling{};
  std::array<bool, kJpegTableSlots> has_quantiser{};
  bool has_frame = false;
};

Status unsupported(std::string_view what, std::size_t at) noexcept {
  return damaged_header(Code::unsupported, what, at);
}

Status corrupt(std::string_view what, std::size_t at) noexcept {
  return damaged_header(Code::corrupt, what, at);
}

Status read_frame(unsigned code, ByteSpan body, std::size_t at, BaselineHeader& header) noexcept {
  BaselineJpeg& jpeg = header.jpeg;
  if (code > 0xC1) return unsupported("not baseline", at);
  if (byte_at(body, 0) != 8) return unsupported("not 8 bits a channel", at);
  for (std::size_t i = 0; i < jpeg.components; ++i) {
    const std::size_t from = 6 + 3 * i;
    jpeg.component[i].id = byte_at(body, from);
    header.sampling[i] = {byte_at(body, from + 1) >> 4, byte_at(body, from + 1) & 15};
    jpeg.component[i].quantiser = byte_at(body, from + 2);
    if (jpeg.component[i].quantiser >= kJpegTableSlots) return corrupt("no such quantiser", at);
  }
  header.has_frame = true;
  return {};
}

Status read_quantisers(ByteSpan body, std::size_t at, BaselineHeader& header) noexcept {
  while (!body.empty()) {
    const unsigned slot = byte_at(body, 0) & 15;
    const std::size_t value_size = byte_at(body, 0) >> 4 == 0 ? 1 : 2;
    if (slot >= kJpegTableSlots || byte_at(body, 0) >> 4 > 1 ||
        body.size() < 1 + kBlockSize * value_size) {
      return corrupt("broken quantiser", at);
    }
    for (std::size_t k = 0; k < kBlockSize; ++k) {
      const std::byte* from = body.data() + 1 + k * value_size;
      const unsigned value = value_size == 1 ? std::to_integer<unsigned>(*from) : load_u16_be(from);
      if (value == 0 || value > kMaxQuantiser) return unsupported("unusual quantiser", at);
      header.jpeg.quantisers[slot][kZigzagOrder[k]] = static_cast<std::uint16_t>(value);
    }
    header.has_quantiser[slot] = true;
    body = body.subspan(1 + kBlockSize * value_size);
  }
  return {};
}

// False when there are more codes of a length than bits can tell apart, or one that is all ones,
// which the standard forbids and libjpeg refuses.
bool is_code(const HuffmanSpec& spec) noexcept {
  std::uint32_t code = 0;
  for (std::size_t length = 1; length <= spec.counts.size(); ++length) {
    code += spec.counts[length - 1];
    if (code >= 1U << length) return false;
    code <<= 1;
  }
  return true;
}

Status read_codes(ByteSpan body, std::size_t at, BaselineJpeg& jpeg) noexcept {
  while (!body.empty()) {
    const unsigned kind = byte_at(body, 0) >> 4;
    const unsigned slot = byte_at(body, 0) & 15;
    if (kind > 1 || slot >= kJpegTableSlots || body.size() < 17) {
      return corrupt("broken Huffman table", at);
    }
    HuffmanSpec spec;
    for (std::size_t i = 0; i < 16; ++i) {
      spec.counts[i] = std::to_integer<std::uint8_t>(body[1 + i]);
      spec.size += spec.counts[i];
    }
    if (spec.size > spec.symbols.size() || body.size() - 17 < spec.size || !is_code(spec)) {
      return corrupt("broken Huffman table", at);
    }
    for (std::size_t i = 0; i < spec.size; ++i) {
      spec.symbols[i] = std::to_integer<std::uint8_t>(body[17 + i]);
      if (kind == 0 && spec.symbols[i] > 15) return corrupt("broken Huffman table", at);
    }
    spec.is_defined = true;
    (kind == 0 ? jpeg.dc : jpeg.ac)[slot] = spec;
    body = body.subspan(17 + spec.size);
  }
  return {};
}

// Segments that libjpeg passes over whatever is in them: application data, comments, and the number
// of lines. Of others it looks at the contents, or refuses them.
bool is_passed_over(unsigned code) noexcept {
  return (code >= marker::kApp0 && code <= marker::kApp15) || code == marker::kCom ||
         code == marker::kDnl;
}

Status read_segment(unsigned code, ByteSpan body, std::size_t at, BaselineHeader& header) noexcept {
  if (is_frame_marker(code)) return read_frame(code, body, at, header);
  if (code == marker::kDqt) return read_quantisers(body, at, header);
  if (code == marker::kDht) return read_codes(body, at, header.jpeg);
  if (code == marker::kDri) {
    if (body.size() != 2) return corrupt("broken restart interval", at);
    header.jpeg.restart_interval = load_u16_be(body.data());
    return {};
  }
  return is_passed_over(code) ? Status() : unsupported("an unusual segment", at);
}

Status read_scan(ByteSpan body, std::size_t at, BaselineJpeg& jpeg) noexcept {
  const std::size_t count = body.empty() ? 0 : byte_at(body, 0);
  if (body.size() != 4 + 2 * count) return corrupt("broken scan header", at);
  if (count != jpeg.components) return unsupported("more than one scan", at);
  for (std::size_t i = 0; i < count; ++i) {
    BaselineComponent& component = jpeg.component[i];
    if (byte_at(body, 1 + 2 * i) != component.id) return unsupported("components reordered", at);
    component.dc_table = byte_at(body, 2 + 2 * i) >> 4;
    component.ac_table = byte_at(body, 2 + 2 * i) & 15;
    if (component.dc_table >= kJpegTableSlots || component.ac_table >= kJpegTableSlots ||
        !jpeg.dc[component.dc_table].is_defined || !jpeg.ac[component.ac_table].is_defined) {
      return corrupt("the scan has no Huffman table", at);
    }
  }
  if (byte_at(body, 1 + 2 * count) != 0 || byte_at(body, 2 + 2 * count) != 63 ||
      byte_at(body, 3 + 2 * count) != 0) {
    return unsupported("the scan is not sequential", at);
  }
  return {};
}

Status set_sampling(const BaselineHeader& header, std::size_t at) noexcept {
  BaselineJpeg& jpeg = header.jpeg;
  const Sampling& luma = header.sampling[0];
  if (jpeg.components == 3) {
    const bool is_plain = std::all_of(header.sampling.begin() + 1, header.sampling.end(),
                                      [](Sampling s) { return s.h == 1 && s.v == 1; });
    if (!is_plain || luma.h < 1 || luma.h > 2 || luma.v < 1 || luma.v > 2) {
      return unsupported("unusual sampling", at);
    }
    jpeg.h = luma.h;
    jpeg.v = luma.v;
  } else if (luma.h < 1 || luma.h > 4 || luma.v < 1 || luma.v > 4) {
    return corrupt("broken sampling", at);  // else of no meaning: a scan of one component
  }
  if (jpeg.color_space == JpegColorSpace::rgb && jpeg.h * jpeg.v != 1) {
    return unsupported("RGB that is not sampled evenly", at);
  }
  jpeg.component[0].blocks = jpeg.h * jpeg.v;
  jpeg.mcu_columns = (jpeg.shape.width + jpeg.mcu_width() - 1) / jpeg.mcu_width();
  jpeg.mcu_rows = (jpeg.shape.height + jpeg.mcu_height() - 1) / jpeg.mcu_height();
  return {};
}

Status finish(const BaselineHeader& header, ByteSpan scan, std::size_t at) noexcept {
  BaselineJpeg& jpeg = header.jpeg;
  if (Status status = read_scan(scan, at, jpeg); !status.is_ok()) return status;
  if (Status status = set_sampling(header, at); !status.is_ok()) return status;
  for (std::size_t i = 0; i < jpeg.components; ++i) {
    if (!header.has_quantiser[jpeg.component[i].quantiser]) return corrupt("no quantiser", at);
  }
  jpeg.scan_begin = at + 4 + scan.size();
  return {};
}

}  // namespace

Status read_baseline(ByteSpan data, BaselineJpeg& out) noexcept {
  const auto info = read_jpeg_info(data);  // also checks all segments
  if (!info.is_ok()) return info.status();
  out = {};
  out.shape = {info.value().width, info.value().height};
  out.color_space = info.value().color_space;
  out.components = static_cast<std::size_t>(info.value().components);
  if (info.value().is_progressive) return unsupported("progressive", 0);
  if (info.value().is_arithmetic) return unsupported("arithmetic coding", 0);
  if (out.components != 1 && out.components != kMaxBaselineComponents) {
    return unsupported("neither one nor three components", 0);
  }
  BaselineHeader header{out};
  std::size_t at = 2;
  while (true) {
    const auto code = next_marker(data, at);
    if (!code.is_ok()) return code.status();
    if (code.value() == marker::kEoi) return corrupt("no scan", at - 2);
    if (is_bare_marker(code.value())) continue;
    const auto body = segment_body(data, at);
    if (!body.is_ok()) return body.status();
    if (code.value() == marker::kSos) return finish(header, body.value(), at - 2);
    const Status status = read_segment(code.value(), body.value(), at - 2, header);
    if (!status.is_ok()) return status;
    at += 2 + body.value().size();
  }
}

}  // namespace headrace
