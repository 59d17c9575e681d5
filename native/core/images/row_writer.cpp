#include "core/images/row_writer.hpp"

#include "core/dispatch.hpp"

namespace headrace {
namespace {

struct RowKernels {
  decltype(&kernels::scalar::split_row) split_row;
  decltype(&kernels::scalar::scale_row) scale_row;
  decltype(&kernels::scalar::scale_row_half) scale_row_half;
  decltype(&kernels::scalar::look_up_row) look_up_row;
};

#define HEADRACE_PIXEL_KERNELS(level)                                                     \
  RowKernels {                                                                            \
    kernels::level::split_row, kernels::level::scale_row, kernels::level::scale_row_half, \
        kernels::level::look_up_row                                                       \
  }
constexpr KernelTables<RowKernels> kRowKernels = HEADRACE_KERNEL_TABLES(HEADRACE_PIXEL_KERNELS);
#undef HEADRACE_PIXEL_KERNELS

const RowKernels& pixel_kernels() noexcept { return in_use(kRowKernels); }

}  // namespace

RowWriter::RowWriter(const LoadOptions& options) noexcept
    : type_(options.type),
      is_channels_first_(options.is_channels_first),
      is_direct_(options.type == OutputType::uint8 && !options.is_channels_first),
      width_(options.shape.width),
      height_(options.shape.height),
      table_(options.table.empty() ? nullptr : options.table.data()) {
  for (std::size_t i = 0; i < kPeriod; ++i) {
    scale_[i] = options.scale[i % kRgbChannels];
    bias_[i] = options.bias[i % kRgbChannels];
  }
  if (has_table()) split_table();
}

void RowWriter::split_table() noexcept {
  const std::size_t value_size = size_bytes_of(type_);
  std::uint8_t* to = table_bytes_;
  for (std::size_t c = 0; c < kRgbChannels; ++c) {
    const std::byte* entries = table_ + c * kernels::kLevels * value_size;
    for (std::size_t b = 0; b < value_size; ++b) {
      for (std::size_t level = 0; level < kernels::kLevels; ++level) {
        *to++ = static_cast<std::uint8_t>(entries[level * value_size + b]);
      }
    }
  }
}

std::uint8_t* RowWriter::row_at(std::byte* slot, std::size_t y) const noexcept {
  return reinterpret_cast<std::uint8_t*>(slot) + y * width_ * kRgbChannels;
}

kernels::ValueRow RowWriter::values_at(std::byte* slot, std::size_t y) const noexcept {
  const std::size_t value_size = size_bytes_of(type_);
  const std::size_t row_size = width_ * value_size;
  const std::size_t plane = row_size * height_;
  std::byte* first = slot + y * row_size * (is_channels_first_ ? 1 : kRgbChannels);
  return {
      {first, first + plane, first + 2 * plane}, value_size, !is_channels_first_, scale_, bias_};
}

void RowWriter::scale(const std::uint8_t* values, std::size_t size, std::byte* out) const noexcept {
  if (type_ == OutputType::float16) {
    pixel_kernels().scale_row_half(values, size, scale_, bias_,
                                   reinterpret_cast<std::uint16_t*>(out));
  } else {
    pixel_kernels().scale_row(values, size, scale_, bias_, reinterpret_cast<float*>(out));
  }
}

void RowWriter::write(const std::uint8_t* row, std::size_t y, std::byte* slot) const noexcept {
  write_pixels(row, width_, values_at(slot, y));
}

// In both layouts a row follows the one before it without a gap: all of them are one long row.
void RowWriter::write_all(const std::uint8_t* pixels, std::byte* slot) const noexcept {
  write_pixels(pixels, width_ * height_, values_at(slot, 0));
}

void RowWriter::write_pixels(const std::uint8_t* pixels, std::size_t count,
                             const kernels::ValueRow& out) const noexcept {
  if (has_table()) {
    const kernels::LevelTable table{table_, table_bytes_};
    return pixel_kernels().look_up_row(pixels, count, &table, &out);
  }
  if (is_channels_first_) return pixel_kernels().split_row(pixels, count, &out);
  scale(pixels, count * kRgbChannels, static_cast<std::byte*>(out.planes[0]));
}

}  // namespace headrace
