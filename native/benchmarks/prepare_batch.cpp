// What one CPU thread does to prepare batches for a GPU, in microseconds a picture.
// usage: headrace_prepare_batch FOLDER_OF_JPEGS [PICTURES [BATCH [RUNS]]]
//
// Every picture has memory of its own, so that codes come from RAM and not from caches. Windows are
// those of RandomResizedCrop(224), scale 0.08 to 1. Prints a line of JSON for each way: codes
// copied, with the checksums that a dataset keeps, and without any, where the JPEG's own is
// computed for its tile index; and codes left to the GPU, which fetches them from pinned memory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "core/images/stored_pixels.hpp"
#include "gpu/batch.hpp"
#include "headrace/checksum.hpp"
#include "headrace/jpeg/codec.hpp"

namespace headrace::gpu {
namespace {

struct Dataset {
  std::vector<std::byte> base, indices;
  std::vector<std::uint64_t> offsets, sizes, index_offsets, index_sizes;
  std::vector<std::uint8_t> modes, flips;
  std::vector<std::uint32_t> widths, heights, checksums;
  std::vector<std::int32_t> crops;

  [[nodiscard]] LoadBatch batch(std::size_t first, std::size_t count, bool has_checksums) const {
    const auto part = [&](const auto& all) { return std::span(all).subspan(first, count); };
    LoadBatch batch{.offsets = part(offsets),
                    .sizes = part(sizes),
                    .modes = part(modes),
                    .widths = part(widths),
                    .heights = part(heights),
                    .crops = std::span(crops).subspan(4 * first, 4 * count),
                    .flips = part(flips)};
    if (has_checksums) batch.checksums = part(checksums);
    batch.tile_indices = indices;
    batch.tile_index_offsets = part(index_offsets);
    batch.tile_index_sizes = part(index_sizes);
    return batch;
  }
};

void add_crop(Dataset& data, std::mt19937& engine, std::uint32_t width, std::uint32_t height) {
  std::uniform_real_distribution<double> scale(0.08, 1), ratio(std::log(0.75), std::log(4.0 / 3));
  for (int i = 0; i < 10; ++i) {
    const double area = width * double(height) * scale(engine), shape = std::exp(ratio(engine));
    const auto w = static_cast<std::int32_t>(std::lround(std::sqrt(area * shape)));
    const auto h = static_cast<std::int32_t>(std::lround(std::sqrt(area / shape)));
    const std::int32_t x_room = static_cast<std::int32_t>(width) - w,
                       y_room = static_cast<std::int32_t>(height) - h;
    if (x_room < 0 || y_room < 0) continue;
    const auto left = static_cast<std::int32_t>(engine() % static_cast<std::uint32_t>(x_room + 1));
    const auto top = static_cast<std::int32_t>(engine() % static_cast<std::uint32_t>(y_room + 1));
    data.crops.insert(data.crops.end(), {top, left, h, w});
    return;
  }
  data.crops.insert(data.crops.end(),
                    {0, 0, static_cast<std::int32_t>(height), static_cast<std::int32_t>(width)});
}

struct File {
  std::vector<std::byte> bytes, index;
  JpegInfo info;
};

std::vector<File> read_files(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry);
  std::sort(paths.begin(), paths.end());
  std::vector<File> files;
  for (const auto& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
    const auto bytes = std::as_bytes(std::span(text));
    File file{{bytes.begin(), bytes.end()}, {}, {}};
    TileIndex tile_index;
    const auto info = read_jpeg_info(bytes);
    if (!info.is_ok() || !make_tile_index(bytes, kDefaultTile, tile_index).is_ok() ||
        !pack_tile_index(tile_index, file.index).is_ok()) {
      continue;
    }
    file.info = info.value();
    files.push_back(std::move(file));
  }
  return files;
}

Dataset make_dataset(const std::vector<File>& files, std::size_t pictures) {
  Dataset data;
  std::mt19937 engine(1);
  for (std::size_t i = 0; i < pictures; ++i) {
    const File& file = files[i % files.size()];
    data.offsets.push_back(data.base.size());
    data.sizes.push_back(file.bytes.size());
    data.base.insert(data.base.end(), file.bytes.begin(), file.bytes.end());
    data.index_offsets.push_back(data.indices.size());
    data.index_sizes.push_back(file.index.size());
    data.indices.insert(data.indices.end(), file.index.begin(), file.index.end());
    data.modes.push_back(0);
    data.flips.push_back(static_cast<std::uint8_t>(engine() % 2));
    data.widths.push_back(static_cast<std::uint32_t>(file.info.width));
    data.heights.push_back(static_cast<std::uint32_t>(file.info.height));
    data.checksums.push_back(crc32c(file.bytes));
    add_crop(data, engine, data.widths.back(), data.heights.back());
  }
  return data;
}

// Of this thread: others on the machine do not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Outcome {
  double us;  // a picture
  double bytes;
  std::size_t on_gpu = 0;
};

struct Way {
  const char* name;
  bool has_checksums, is_fetched;
};

Outcome run(const Dataset& data, std::size_t batch_size, const Way& way, std::span<Tile> memory) {
  const LoadOptions options{.shape = {224, 224}, .type = OutputType::float16};
  Batch prepared;
  BatchScratch scratch;
  Outcome outcome{};
  const double begin = cpu_seconds();
  for (std::size_t first = 0; first < data.offsets.size(); first += batch_size) {
    const std::size_t count = std::min(batch_size, data.offsets.size() - first);
    const LoadBatch batch = data.batch(first, count, way.has_checksums);
    prepared.start(std::as_writable_bytes(memory), count, options,
                   way.is_fetched ? data.base.size() : 0);
    for (std::size_t i = 0; i < count; ++i) {
      prefetch_image(data.base, batch, i + 2);  // as the loader does
      Status failure;
      const Verdict verdict = prepared.add(data.base, batch, i, i, scratch, failure);
      outcome.on_gpu += verdict == Verdict::on_gpu ? 1 : 0;
    }
    outcome.bytes += static_cast<double>(prepared.finish().blob_bytes);
  }
  const auto pictures = static_cast<double>(data.offsets.size());
  outcome.us = (cpu_seconds() - begin) * 1e6 / pictures;
  outcome.bytes /= pictures;
  return outcome;
}

int main_of(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: headrace_prepare_batch FOLDER_OF_JPEGS [PICTURES [BATCH [RUNS]]]\n", stderr);
    return 2;
  }
  const std::size_t pictures = argc > 2 ? std::stoul(argv[2]) : 2048;
  const std::size_t batch_size = argc > 3 ? std::stoul(argv[3]) : 256;
  const std::size_t run_count = argc > 4 ? std::stoul(argv[4]) : 7;
  const std::vector<File> files = read_files(argv[1]);
  if (files.empty()) {
    std::fputs("no baseline JPEGs there\n", stderr);
    return 1;
  }
  const Dataset data = make_dataset(files, pictures);
  std::vector<Tile> all(batch_size * (256 << 10) / sizeof(Tile) + 4);
  std::span<Tile> memory(
      reinterpret_cast<Tile*>((reinterpret_cast<std::uintptr_t>(all.data()) + 63) / 64 * 64),
      all.size() - 4);
  for (const Way& way : {Way{"copied", true, false}, Way{"copied, no checksums", false, false},
                         Way{"fetched", true, true}}) {
    std::vector<Outcome> runs;
    for (std::size_t i = 0; i < run_count; ++i) runs.push_back(run(data, batch_size, way, memory));
    std::sort(runs.begin(), runs.end(),
              [](const Outcome& a, const Outcome& b) { return a.us < b.us; });
    std::printf(
        "{\"codes\": \"%s\", \"pictures\": %zu, \"on_gpu\": %zu, \"us_per_picture\": %.2f, "
        "\"least_us\": %.2f, \"stored_bytes\": %.0f, \"copied_bytes\": %.0f}\n",
        way.name, pictures, runs[0].on_gpu, runs[runs.size() / 2].us, runs[0].us,
        static_cast<double>(data.base.size()) / static_cast<double>(pictures), runs[0].bytes);
  }
  return 0;
}

}  // namespace
}  // namespace headrace::gpu

int main(int argc, char** argv) { return headrace::gpu::main_of(argc, argv); }
