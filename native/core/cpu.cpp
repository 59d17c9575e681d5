#include "headrace/cpu.hpp"

#include <array>
#include <atomic>
#include <cstddef>

namespace headrace {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"scalar", "sse42", "avx2", "avx512"};

SimdLevel detect() noexcept {
#ifdef HEADRACE_X86_KERNELS
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul")) {
    return SimdLevel::scalar;
  }
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c") ||
      !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2")) {
    return SimdLevel::sse42;
  }
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512vbmi") || !__builtin_cpu_supports("avx512vnni") ||
      !__builtin_cpu_supports("vpclmulqdq")) {
    return SimdLevel::avx2;
  }
  return SimdLevel::avx512;
#else
  return SimdLevel::scalar;
#endif
}

constexpr int kUndetected = -1;
constinit std::atomic<int> current_level{kUndetected};

}  // namespace

std::string_view simd_level_name(SimdLevel level) noexcept {
  return kNames[static_cast<std::size_t>(level)];
}

std::optional<SimdLevel> parse_simd_level(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<SimdLevel>(i);
  }
  return std::nullopt;
}

SimdLevel hardware_simd_level() noexcept {
  static const SimdLevel level = detect();
  return level;
}

SimdLevel simd_level() noexcept {
  int level = current_level.load(std::memory_order_relaxed);
  if (level == kUndetected) {
    // Threads that race here store the same value, unless one of them sets a level: that one wins.
    const int detected = static_cast<int>(hardware_simd_level());
    if (current_level.compare_exchange_strong(level, detected)) level = detected;
  }
  return static_cast<SimdLevel>(level);
}

Status set_simd_level(SimdLevel level) noexcept {
  if (level > hardware_simd_level()) {
    return Status(Code::unsupported, Detail("this CPU runs at most SIMD level ")
                                         << simd_level_name(hardware_simd_level()) << ", not "
                                         << simd_level_name(level));
  }
  current_level.store(static_cast<int>(level), std::memory_order_relaxed);
  return {};
}

}  // namespace headrace
