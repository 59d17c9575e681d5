// The samples of a part of a JPEG, and the pixels they make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/jpeg/baseline.hpp"
#include "core/jpeg/mcus.hpp"
#include "headrace/jpeg/window_decoder.hpp"

namespace headrace {

class JpegPlanes {
 public:
  // Room for these MCUs. May throw std::bad_alloc.
  void reset(const BaselineJpeg& jpeg, const McuRange& mcus);

  // Of the first sample of a row of MCUs.
  [[nodiscard]] std::uint8_t* row_of_mcus(std::size_t component, std::size_t row) noexcept;
  [[nodiscard]] std::size_t stride(std::size_t component) const noexcept {
    return planes_[component].stride;
  }

  // All samples that are of the image.
  [[nodiscard]] SampleView view(const BaselineJpeg& jpeg, std::size_t component) noexcept;

  // Bytes that `out` of write_pixels needs.
  [[nodiscard]] static std::size_t size_of(const Window& window) noexcept;
  // When all samples are there. `out` has no gaps between its rows.
  void write_pixels(const BaselineJpeg& jpeg, const Window& window, std::uint8_t* out) noexcept;

 private:
  struct Plane {
    std::vector<std::uint8_t> memory;
    std::size_t stride = 0;
    std::size_t left = 0;  // of the first sample, in the whole component
    std::size_t top = 0;
    std::size_t rows = 0;
    std::size_t mcu_rows = 0;  // rows of samples in one of MCUs

    [[nodiscard]] std::uint8_t* at(std::size_t x, std::size_t y) noexcept;
  };

  void repeat_edges(const BaselineJpeg& jpeg) noexcept;
  const std::uint8_t* upsampled(const BaselineJpeg& jpeg, const Window& window, std::size_t c,
                                std::size_t y) noexcept;

  std::array<Plane, kMaxBaselineComponents> planes_;
  std::array<std::vector<std::uint8_t>, 2> chroma_;  // one row at full width
  McuRange mcus_{};
};

}  // namespace headrace
