// The work of one call: starts reads, takes what comes, goes on where it stopped, checks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/io/lane.hpp"
#include "core/io/range_plan.hpp"
#include "headrace/io/range_reader.hpp"

namespace headrace {

class ReadCall::Work {
 public:
  Work(std::span<const OpenFile> files, std::atomic<bool>& is_direct) noexcept
      : files_(files), is_direct_(is_direct) {}

  Status prepare(const ReadRequest& request) noexcept;
  [[nodiscard]] bool advance(Lane& lane, std::chrono::milliseconds time) noexcept;
  // Waits for what is under way and starts nothing more.
  void drain(Lane& lane) noexcept;
  // In a forked child the reads under way are the parent's: what is not there yet has failed.
  void abandon() noexcept;
  [[nodiscard]] bool is_done() const noexcept { return is_done_; }
  [[nodiscard]] std::span<const ReadFailure> failures() const noexcept { return failures_; }

 private:
  void start_reads(Lane& lane) noexcept;
  [[nodiscard]] bool set_up(Slot& slot) noexcept;
  void push(Lane& lane, std::uint32_t tag) noexcept;
  void take_completions(Lane& lane) noexcept;
  // True when the slot is free again.
  [[nodiscard]] bool complete(Slot& slot, std::int32_t result) noexcept;
  void finish(Slot& slot) noexcept;
  void read_one_by_one(const ReadOperation& operation) noexcept;
  void arrive(const Segment& segment) noexcept;
  void fail(std::uint32_t range, Code code, std::uint64_t found,
            std::uint64_t expected = 0) noexcept;
  void end_early(const Segment& segment, std::uint64_t end) noexcept;
  void check_arrived() noexcept;
  void check(const Range& range, std::uint32_t index) noexcept;
  void finish_call() noexcept;

  const std::span<const OpenFile> files_;
  std::atomic<bool>& is_direct_;  // the reader's: false as soon as the file system refuses
  RangePlan plan_;
  std::span<const std::uint32_t> checksums_;
  ChecksumKind checksum_kind_ = ChecksumKind::crc32c;
  std::vector<std::uint32_t> arrived_;  // ranges whose checksum is to be computed
  std::vector<ReadFailure> failures_;   // has room for one of each range
  std::size_t under_way_ = 0;
  bool is_cut_ = false;  // the plan has nothing more
  bool is_done_ = false;
};

}  // namespace headrace
