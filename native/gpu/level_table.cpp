#include "gpu/level_table.hpp"

#include <array>

#include "core/images/row_writer.hpp"

namespace headrace::gpu {

std::vector<std::byte> level_table(const LoadOptions& options) {
  if (options.type == OutputType::uint8) return {};
  constexpr std::size_t kLevels = kernels::kLevels;
  LoadOptions one_row = options;
  one_row.shape = {kLevels, 1};
  one_row.is_channels_first = true;  // one channel after the other
  std::array<std::uint8_t, kLevels * kRgbChannels> row{};
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<std::uint8_t>(i / kRgbChannels);
  std::vector<std::byte> table(row.size() * size_bytes_of(options.type));
  const RowWriter writer(one_row);
  writer.write(row.data(), 0, table.data());
  return table;
}

}  // namespace headrace::gpu
