// From a row of interleaved RGB bytes to the type and layout of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/load.hpp"

namespace penstock {

class RowWriter {
 public:
  explicit RowWriter(const LoadOptions& options) noexcept;

  // Bytes of memory that write needs for itself.
  [[nodiscard]] std::size_t scratch_size() const noexcept { return kRgbChannels * width_; }
  // True when a row may be written straight to row_at.
  [[nodiscard]] bool is_direct() const noexcept { return is_direct_; }
  [[nodiscard]] std::uint8_t* row_at(std::byte* slot, std::size_t y) const noexcept;
  void write(const std::uint8_t* row, std::size_t y, std::uint8_t* scratch,
             std::byte* slot) const noexcept;

 private:
  static constexpr std::size_t kPeriod = 48;  // of the kernels' factors

  void scale(const std::uint8_t* values, std::size_t size, std::size_t pattern,
             std::byte* out) const noexcept;
  void write_planes(const std::uint8_t* row, std::size_t y, std::uint8_t* scratch,
                    std::byte* slot) const noexcept;

  OutputType type_;
  bool is_channels_first_;
  bool is_direct_;
  std::size_t width_;
  std::size_t height_;
  // One pattern for interleaved rows, or one for each plane.
  float scale_[kRgbChannels][kPeriod];
  float bias_[kRgbChannels][kPeriod];
};

}  // namespace penstock
