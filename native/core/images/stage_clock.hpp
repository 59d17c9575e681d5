// How long the stages of making pictures take, at next to no cost: the clock is read where one
// stage follows another, and what a worker has measured is added up once for each of its shares.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "headrace/images/load.hpp"

namespace headrace {

enum class LoadStage : std::uint8_t { check, decode, resize, ops };

inline constexpr std::size_t kLoadStages = 4;

using StageTicks = std::array<std::uint64_t, kLoadStages>;

// Ticks of the processor's own counter where it has one that is cheap to read, else nanoseconds.
[[nodiscard]] std::uint64_t clock_ticks() noexcept;

// Of one call, for many threads at once. What a tick is worth is found over the call itself.
class StageTotals {
 public:
  StageTotals() noexcept;

  void add(const StageTicks& ticks) noexcept;
  // Only when nobody adds any more.
  void add_to(LoadTimes& times) const noexcept;

 private:
  std::uint64_t start_ticks_;
  std::int64_t start_ns_;
  std::array<std::atomic<std::uint64_t>, kLoadStages> ticks_{};
};

// Of one worker, for one share of a call. Of small pictures it times some, and takes the others to
// be like them: reading a clock takes as long as a thousand pixels of a copy.
class StageClock {
 public:
  // Every so many pictures are timed by stage; all of them count.
  StageClock(StageTotals& totals, LoadStage first, std::size_t every = 1) noexcept
      : totals_(totals), stage_(first), every_(every), start_(clock_ticks()), since_(start_) {}
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;
  ~StageClock();

  void begin_picture(std::size_t number) noexcept {
    if (every_ == 1) return;
    if (is_timed_) finish_stage();
    is_timed_ = number % every_ == 0;
    if (is_timed_) since_ = clock_ticks();
  }

  void enter(LoadStage stage) noexcept {
    if (stage == stage_) return;
    if (is_timed_) finish_stage();
    stage_ = stage;
  }

 private:
  void finish_stage() noexcept {
    const std::uint64_t now = clock_ticks();
    // A thread may come to another core whose counter is a little behind.
    if (now > since_) ticks_[static_cast<std::size_t>(stage_)] += now - since_;
    since_ = now;
  }

  StageTotals& totals_;
  LoadStage stage_;
  std::size_t every_;
  bool is_timed_ = true;
  std::uint64_t start_;
  std::uint64_t since_;
  StageTicks ticks_{};
};

}  // namespace headrace
