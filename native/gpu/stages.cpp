#include "gpu/stages.hpp"

#include "core/resample/filter_plan.hpp"
#include "gpu/destuff.hpp"
#include "gpu/fetch.hpp"
#include "gpu/order.hpp"
#include "gpu/resample_floats.hpp"
#include "gpu/steps.hpp"
#include "gpu/sums.hpp"
#include "gpu/tiles.hpp"

namespace headrace::gpu {
namespace {

// What kernels may read behind the last value.
constexpr std::size_t kSlackBytes = 256;
constexpr std::uint32_t kDestuffLayers = 4;

template <typename T>
T* at(DevicePointer pointer) noexcept {
  return reinterpret_cast<T*>(pointer);
}

template <typename... Arguments>
Status launch(Launcher& launcher, const Launch& how, Arguments... arguments) noexcept {
  void* addresses[] = {&arguments...};
  return launcher.launch(how, addresses);
}

Output output_of(const StageMemory& memory, const LoadOptions& options) noexcept {
  const Colour fill = options.fill.value_or(Colour{});
  return {at<std::uint8_t>(memory.values),
          at<const std::uint8_t>(memory.table),
          options.shape.width * options.shape.height * kRgbChannels,
          static_cast<std::uint32_t>(options.shape.width),
          static_cast<std::uint32_t>(options.shape.height),
          static_cast<std::uint32_t>(size_bytes_of(options.type)),
          options.is_channels_first ? 1U : 0U,
          fill[0] | std::uint32_t{fill[1]} << 8 | std::uint32_t{fill[2]} << 16};
}

// Where steps follow: pictures as they are.
Output pictures_of(const StageMemory& memory, std::size_t picture_bytes,
                   const Output& output) noexcept {
  Output pictures = output;
  pictures.values = at<std::uint8_t>(memory.pictures);
  pictures.table = nullptr;
  pictures.value_size = 1;
  pictures.is_channels_first = 0;
  pictures.picture_values = picture_bytes;
  return pictures;
}

}  // namespace

StageBytes bytes_of(const BatchSizes& sizes, std::size_t pictures) noexcept {
  const std::size_t outputs = pictures * 2 * sizes.axis_size;
  return {sizes.blob_bytes + sizes.fetched_bytes + kSlackBytes,
          sizes.sample_blocks * 64 + kSlackBytes,
          pictures * sizeof(std::uint32_t),
          outputs * sizeof(AxisSpan),
          sizes.words * sizeof(std::uint32_t),
          pictures * sizes.picture_bytes,
          pictures * sizes.picture_bytes};
}

Status launch_fetch(Launcher& launcher, DevicePointer blob, std::size_t pictures) noexcept {
  const auto count = static_cast<std::uint32_t>(pictures);
  const std::uint32_t blocks = lesser(count, kFetchBlocks);
  return launch(launcher, {"fetch_pictures", blocks, 1, kFetchThreads, 0}, at<std::uint8_t>(blob),
                count, blocks);
}

Status launch_stages(Launcher& launcher, const StageMemory& memory, const BatchSizes& sizes,
                     std::size_t pictures, const LoadOptions& options) noexcept {
  const auto count = static_cast<std::uint32_t>(pictures);
  const auto* blob = at<const std::uint8_t>(memory.blob);
  auto* codes = at<std::uint8_t>(memory.codes);
  auto* samples = at<std::uint8_t>(memory.samples);
  auto* status = at<std::uint32_t>(memory.status);
  Status result;
  if (sizes.fetched_bytes != 0) {
    result = launch(launcher, {"sum_pictures", count, 1, kSumThreads, sizeof(SumMemory)}, blob,
                    at<const SumTables>(memory.sums), status);
    if (!result.is_ok()) return result;
  }
  if (sizes.has_jpegs) {
    result = launch(launcher, {"destuff_pictures", count, kDestuffLayers, kDestuffThreads, 0}, blob,
                    codes, status);
    if (!result.is_ok()) return result;
    auto* words = at<std::uint32_t>(memory.words);
    result = launch(launcher, {"order_tiles", count, 1, kOrderThreads, sizeof(OrderMemory)}, blob,
                    words);
    if (!result.is_ok()) return result;
    const auto* units = at<const Unit>(memory.blob + sizes.units_at);
    result = launch(launcher,
                    {"decode_tiles", static_cast<std::uint32_t>(sizes.units), 1, kUnitTiles,
                     sizeof(TileMemory), true},
                    blob, units, static_cast<const std::uint32_t*>(words),
                    static_cast<const std::uint8_t*>(codes), samples, status);
    if (!result.is_ok()) return result;
  }
  const AxisKind kind = axis_kind_of(options.filter, false);
  const AxisPlans plans{at<AxisSpan>(memory.spans), at<std::uint32_t>(memory.words),
                        sizes.axis_size};
  result = launch(launcher, {"plan_axes", count, 2, kAxisThreads, 0}, blob,
                  static_cast<std::uint32_t>(kind), at<const double>(memory.lanczos), plans);
  if (!result.is_ok()) return result;
  const bool has_steps = sizes.picture_bytes != 0;
  const Output last = output_of(memory, options);
  const Output output = has_steps ? pictures_of(memory, sizes.picture_bytes, last) : last;
  if (sizes.has_fill) {
    result = launch(launcher, {"fill_around", count, 1, kFillThreads, 0}, blob, output);
    if (!result.is_ok()) return result;
  }
  ResampleCall call{blob,
                    samples,
                    nullptr,
                    plans,
                    static_cast<std::uint32_t>(support_of(options.filter)),
                    is_sharp(kind) ? 1U : 0U,
                    output};
  const auto resample = [&](const char* kernel, const PartSizes& parts) {
    if (parts.count == 0) return Status();
    call.parts = at<const Part>(memory.blob + parts.at);
    return launch(
        launcher,
        {kernel, static_cast<std::uint32_t>(parts.count), 1, kResampleThreads, parts.shared_bytes},
        call);
  };
  result = resample(is_sharp(kind) ? "resample_sharp" : "resample_smooth", sizes.parts);
  if (result.is_ok()) result = resample("resample_floats", sizes.float_parts);
  if (!result.is_ok() || !has_steps) return result;
  return launch(launcher, {"apply_steps", count, 1, kStepThreads, sizeof(StepMemory)},
                StepCall{blob, at<std::uint8_t>(memory.pictures), at<std::uint8_t>(memory.copies),
                         sizes.picture_bytes, last});
}

}  // namespace headrace::gpu
