// Where the files of a zip are: its list of files, compared with the header of each file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/formats/members.hpp"

namespace headrace {

enum class ZipMethod : std::uint8_t { stored = 0, deflated = 8 };

struct ZipFiles {
  std::vector<std::uint64_t> offsets;     // of the stored bytes
  std::vector<std::uint64_t> sizes;       // of the stored bytes
  std::vector<std::uint64_t> full_sizes;  // of the files
  std::vector<std::uint32_t> checksums;   // CRC-32 of the files
  std::vector<std::uint8_t> methods;
  TextList names;
  std::uint64_t special = 0;  // links and devices, which are left out
  std::string failed;         // the name of the file that a failure is about
};

// No two files share bytes, and all lie before the list. The offset of a failure is a byte.
[[nodiscard]] Status scan_zip(ByteSpan zip, ZipFiles& out) noexcept;

}  // namespace headrace
