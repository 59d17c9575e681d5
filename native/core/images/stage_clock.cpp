#include "core/images/stage_clock.hpp"

#include <chrono>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace headrace {
namespace {

constexpr std::array<std::uint64_t LoadTimes::*, kLoadStages> kTimes = {
    &LoadTimes::check_ns, &LoadTimes::decode_ns, &LoadTimes::resize_ns, &LoadTimes::ops_ns};

std::int64_t steady_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

std::uint64_t clock_ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(steady_ns());
#endif
}

LoadTimes& LoadTimes::operator+=(const LoadTimes& others) noexcept {
  for (const auto member : kTimes) this->*member += others.*member;
  return *this;
}

StageClock::~StageClock() {
  if (is_timed_) finish_stage();
  if (every_ > 1) {
    const std::uint64_t now = clock_ticks();
    std::uint64_t timed = 0;
    for (const std::uint64_t ticks : ticks_) timed += ticks;
    if (timed == 0 || now <= start_) return;
    const double whole = static_cast<double>(now - start_) / static_cast<double>(timed);
    for (std::uint64_t& ticks : ticks_) {
      ticks = static_cast<std::uint64_t>(static_cast<double>(ticks) * whole);
    }
  }
  totals_.add(ticks_);
}

StageTotals::StageTotals() noexcept : start_ticks_(clock_ticks()), start_ns_(steady_ns()) {}

void StageTotals::add(const StageTicks& ticks) noexcept {
  for (std::size_t i = 0; i < kLoadStages; ++i) {
    if (ticks[i] != 0) ticks_[i].fetch_add(ticks[i], std::memory_order_relaxed);
  }
}

void StageTotals::add_to(LoadTimes& times) const noexcept {
  const std::uint64_t now = clock_ticks();
  const auto elapsed_ns = static_cast<double>(steady_ns() - start_ns_);
  if (now <= start_ticks_) return;
  const double ns = elapsed_ns / static_cast<double>(now - start_ticks_);  // of a tick
  for (std::size_t i = 0; i < kLoadStages; ++i) {
    const auto ticks = static_cast<double>(ticks_[i].load(std::memory_order_relaxed));
    times.*kTimes[i] += static_cast<std::uint64_t>(ticks * ns);
  }
}

}  // namespace headrace
