#include "headrace/images/pixel_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "headrace/cpu.hpp"
#include "kernels/kernels.hpp"

namespace headrace {
namespace {

struct KindFacts {
  std::string_view name;
  std::size_t values;
};

constexpr std::array<KindFacts, 6> kKinds = {{{"brightness", 1},
                                              {"contrast", 1},
                                              {"saturation", 1},
                                              {"flip", 1},
                                              {"cutout", 7},
                                              {"translate", 5}}};

struct ColourKernels {
  decltype(&kernels::scalar::blend_with_level) blend_with_level = kernels::scalar::blend_with_level;
  decltype(&kernels::scalar::blend_with_grey) blend_with_grey = kernels::scalar::blend_with_grey;
  decltype(&kernels::scalar::sum_grey) sum_grey = kernels::scalar::sum_grey;
  decltype(&kernels::scalar::mirror_row) mirror_row = kernels::scalar::mirror_row;
};

ColourKernels colour_kernels() noexcept {
#ifdef HEADRACE_X86_KERNELS
  switch (simd_level()) {
    case SimdLevel::avx512:
      return {kernels::avx512::blend_with_level, kernels::avx512::blend_with_grey,
              kernels::avx512::sum_grey, kernels::avx512::mirror_row};
    case SimdLevel::avx2:
      return {kernels::avx2::blend_with_level, kernels::avx2::blend_with_grey,
              kernels::avx2::sum_grey, kernels::avx2::mirror_row};
    case SimdLevel::sse42:
    case SimdLevel::scalar:
      break;
  }
#endif
  return {};
}

Status wrong_values(StepKind kind, std::size_t picture, std::string_view rule) noexcept {
  return Status(Code::invalid_argument,
                Detail("step ") << step_kind_name(kind) << ", image " << picture << ": " << rule,
                static_cast<std::int64_t>(picture));
}

bool are_finite(std::span<const float> values) noexcept {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

bool is_colour(std::span<const float> values) noexcept {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return value >= 0 && value <= 255; });
}

Status check_values(StepKind kind, std::span<const float> values, std::size_t picture) noexcept {
  switch (kind) {
    case StepKind::brightness:
    case StepKind::contrast:
    case StepKind::saturation:
      if (!std::isinf(values[0])) return {};
      return wrong_values(kind, picture, "the factor is infinite");
    case StepKind::flip:
    case StepKind::cutout:
    case StepKind::translate:
      break;
  }
  if (!are_finite(values)) return wrong_values(kind, picture, "a value is not finite");
  if (kind == StepKind::flip) return {};
  if (!is_colour(values.last(kRgbChannels))) {
    return wrong_values(kind, picture, "a colour has red, green and blue of 0 to 255");
  }
  if (kind == StepKind::cutout && (values[2] < 0 || values[3] < 0)) {
    return wrong_values(kind, picture, "height and width must not be negative");
  }
  return {};
}

// The whole part, kept between the limits; no number is too large for it.
std::ptrdiff_t whole(double value, std::ptrdiff_t low, std::ptrdiff_t high) noexcept {
  if (value <= static_cast<double>(low)) return low;
  return value >= static_cast<double>(high) ? high : static_cast<std::ptrdiff_t>(value);
}

Colour colour_of(std::span<const float> values) noexcept {
  return {static_cast<std::uint8_t>(values[0]), static_cast<std::uint8_t>(values[1]),
          static_cast<std::uint8_t>(values[2])};
}

void flip(ImageShape shape, std::uint8_t* pixels) noexcept {
  const ColourKernels kernels = colour_kernels();
  for (std::size_t y = 0; y < shape.height; ++y) {
    kernels.mirror_row(pixels + y * shape.width * kRgbChannels, shape.width);
  }
}

struct Extent {
  std::size_t begin;
  std::size_t size;
};

// What of `size` pixels from `begin` on lies below the limit.
Extent clip(float begin, float size, std::size_t limit) noexcept {
  const auto most = static_cast<std::ptrdiff_t>(limit);
  const double first = std::trunc(begin);
  const std::ptrdiff_t from = whole(first, 0, most);
  const std::ptrdiff_t to = whole(first + std::trunc(size), from, most);
  return {static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)};
}

void cut_out(std::span<const float> values, ImageShape shape, std::uint8_t* pixels) noexcept {
  const Extent rows = clip(values[0], values[2], shape.height);
  const Extent columns = clip(values[1], values[3], shape.width);
  const Colour colour = colour_of(values.last(kRgbChannels));
  for (std::size_t y = rows.begin; y < rows.begin + rows.size; ++y) {
    fill_pixels(pixels + (y * shape.width + columns.begin) * kRgbChannels, columns.size, colour);
  }
}

// `from` may be `to`.
void shift_row(const std::uint8_t* from, std::size_t width, std::ptrdiff_t dx, const Colour& colour,
               std::uint8_t* to) noexcept {
  const auto gap = static_cast<std::size_t>(std::abs(dx));
  const std::size_t kept = width - gap;
  const std::size_t skipped = dx > 0 ? gap : 0;
  const std::size_t moved = dx > 0 ? 0 : gap;
  std::memmove(to + moved * kRgbChannels, from + skipped * kRgbChannels, kept * kRgbChannels);
  fill_pixels(to + (dx > 0 ? kept : 0) * kRgbChannels, gap, colour);
}

void translate(std::span<const float> values, ImageShape shape, std::uint8_t* pixels) noexcept {
  const auto height = static_cast<std::ptrdiff_t>(shape.height);
  const auto width = static_cast<std::ptrdiff_t>(shape.width);
  const std::ptrdiff_t dy = whole(values[0], -height, height);
  const std::ptrdiff_t dx = whole(values[1], -width, width);
  const Colour colour = colour_of(values.last(kRgbChannels));
  const std::ptrdiff_t stride = width * static_cast<std::ptrdiff_t>(kRgbChannels);
  for (std::ptrdiff_t i = 0; i < height; ++i) {
    const std::ptrdiff_t y = dy >= 0 ? i : height - 1 - i;  // no row is lost before it is read
    std::uint8_t* row = pixels + y * stride;
    if (y + dy < 0 || y + dy >= height) {
      fill_pixels(row, shape.width, colour);
    } else {
      shift_row(row + dy * stride, shape.width, dx, colour, row);
    }
  }
}

void change_colours(StepKind kind, float factor, ImageShape shape, std::uint8_t* pixels) noexcept {
  if (std::isnan(factor)) return;
  const ColourKernels kernels = colour_kernels();
  const std::size_t count = shape.width * shape.height;
  if (kind == StepKind::saturation) return kernels.blend_with_grey(pixels, count, factor);
  double level = 0;
  if (kind == StepKind::contrast) {
    level = static_cast<double>(kernels.sum_grey(pixels, count)) / static_cast<double>(count);
  }
  kernels.blend_with_level(pixels, count * kRgbChannels, factor, level);
}

void apply_step(StepKind kind, std::span<const float> values, ImageShape shape,
                std::uint8_t* pixels) noexcept {
  switch (kind) {
    case StepKind::brightness:
    case StepKind::contrast:
    case StepKind::saturation:
      return change_colours(kind, values[0], shape, pixels);
    case StepKind::flip:
      if (values[0] != 0) flip(shape, pixels);
      return;
    case StepKind::cutout:
      return cut_out(values, shape, pixels);
    case StepKind::translate:
      return translate(values, shape, pixels);
  }
}

}  // namespace

void fill_pixels(std::uint8_t* pixels, std::size_t count, const Colour& colour) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(pixels + i * kRgbChannels, colour.data(), kRgbChannels);
  }
}

std::optional<StepKind> parse_step_kind(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].name == name) return static_cast<StepKind>(i);
  }
  return std::nullopt;
}

std::string_view step_kind_name(StepKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)].name;
}

std::size_t values_per_picture(StepKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)].values;
}

Status check_steps(std::span<const PixelStep> steps, std::size_t pictures) noexcept {
  for (const PixelStep& step : steps) {
    const std::size_t size = values_per_picture(step.kind);
    if (step.values.size() / size != pictures || step.values.size() % size != 0) {
      return Status(Code::invalid_argument, Detail("step ")
                                                << step_kind_name(step.kind) << " needs " << size
                                                << " values for each image");
    }
    for (std::size_t i = 0; i < pictures; ++i) {
      const Status status = check_values(step.kind, step.values.subspan(i * size, size), i);
      if (!status.is_ok()) return status;
    }
  }
  return {};
}

void apply_steps(std::span<const PixelStep> steps, std::size_t picture, ImageShape shape,
                 std::uint8_t* pixels) noexcept {
  for (const PixelStep& step : steps) {
    const std::size_t size = values_per_picture(step.kind);
    apply_step(step.kind, step.values.subspan(picture * size, size), shape, pixels);
  }
}

}  // namespace headrace
