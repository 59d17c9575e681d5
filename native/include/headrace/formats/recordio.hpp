// The records of a RecordIO file, as dmlc and MXNet write it. A record is one or more parts:
//
//   0      4     u32   magic number
//   4      4     u32   upper 3 bits: 0 a whole record, 1 its first part, 2 a part, 3 its last part;
//                      lower 29 bits: N
//   8      N           data, and zeros up to the next multiple of 4
//
// A record whose data have the magic number at a multiple of 4 is split there: the number itself is
// left out, and put back where the parts are joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::uint32_t kRecordioMagic = 0xCED7230A;
inline constexpr std::size_t kRecordioHeadSize = 8;
inline constexpr std::uint64_t kRecordioMaxPart = (std::uint64_t{1} << 29) - 1;

// One entry for each record.
struct RecordioRecords {
  std::span<std::uint64_t> offsets;  // where its first part begins
  std::span<std::uint64_t> sizes;    // up to the end of the data of its last part
  std::span<std::uint8_t> is_split;
};

struct RecordioScan {
  std::size_t count = 0;
  std::uint64_t next = 0;  // where the next would begin; the end of the file after the last
};

// Finds records from byte `start` on, as many as there is room for. An error's offset is the byte
// where the bad part begins.
Status scan_recordio(ByteSpan file, std::uint64_t start, RecordioRecords records,
                     RecordioScan& out) noexcept;

// The data of a record; `record` is what the scan has found. At most as long as the record.
Status join_recordio(ByteSpan record, std::string& out) noexcept;

// A record as it is stored, split where that is needed, with the zeros after it. `too_large` for a
// part that is larger than 29 bits can say.
Status encode_recordio(ByteSpan data, std::string& out) noexcept;

}  // namespace headrace
