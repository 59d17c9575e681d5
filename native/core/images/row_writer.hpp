// From a row of interleaved RGB bytes to the type and layout of a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/images/load.hpp"
#include "kernels/kernels.hpp"

namespace headrace {

class RowWriter {
 public:
  explicit RowWriter(const LoadOptions& options) noexcept;

  // True when a row may be written straight to row_at.
  [[nodiscard]] bool is_direct() const noexcept { return is_direct_; }
  [[nodiscard]] std::uint8_t* row_at(std::byte* slot, std::size_t y) const noexcept;
  [[nodiscard]] std::size_t row_size() const noexcept { return width_ * kRgbChannels; }
  // True when rows may only be written by write.
  [[nodiscard]] bool has_table() const noexcept { return table_ != nullptr; }
  // Where a row goes, for kernels that write it themselves.
  [[nodiscard]] kernels::ValueRow values_at(std::byte* slot, std::size_t y) const noexcept;
  void write(const std::uint8_t* row, std::size_t y, std::byte* slot) const noexcept;
  // All rows of a picture at once.
  void write_all(const std::uint8_t* pixels, std::byte* slot) const noexcept;

 private:
  static constexpr std::size_t kPeriod = 48;  // of the kernels' factors

  void split_table() noexcept;
  void write_pixels(const std::uint8_t* pixels, std::size_t count,
                    const kernels::ValueRow& out) const noexcept;
  void scale(const std::uint8_t* values, std::size_t size, std::byte* out) const noexcept;

  OutputType type_;
  bool is_channels_first_;
  bool is_direct_;
  std::size_t width_;
  std::size_t height_;
  float scale_[kPeriod];
  float bias_[kPeriod];
  const std::byte* table_;
  alignas(64) std::uint8_t table_bytes_[kRgbChannels * sizeof(float) * kernels::kLevels];
};

}  // namespace headrace
