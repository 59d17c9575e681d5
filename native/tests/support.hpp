// Helpers shared by the tests.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/cpu.hpp"
#include "headrace/status.hpp"

namespace headrace::testing {

using Bytes = std::vector<std::byte>;

inline Bytes random_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine() & 0xFF);
  return bytes;
}

inline double level_of(std::byte grey) { return static_cast<double>(grey); }

inline ByteSpan as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// Levels this machine can run, scalar first.
inline std::vector<SimdLevel> available_levels() {
  std::vector<SimdLevel> levels;
  for (int i = 0; i <= static_cast<int>(hardware_simd_level()); ++i) {
    levels.push_back(static_cast<SimdLevel>(i));
  }
  return levels;
}

// Uses a level until the end of the scope.
class LevelGuard {
 public:
  explicit LevelGuard(SimdLevel level) : before_(simd_level()) {
    EXPECT_TRUE(set_simd_level(level).is_ok());
  }
  LevelGuard(const LevelGuard&) = delete;
  LevelGuard& operator=(const LevelGuard&) = delete;
  ~LevelGuard() { EXPECT_TRUE(set_simd_level(before_).is_ok()); }

 private:
  SimdLevel before_;
};

inline void expect_ok(const Status& status) {
  EXPECT_TRUE(status.is_ok()) << code_name(status.code()) << ": " << status.detail();
}

inline void expect_code(const Status& status, Code code) {
  EXPECT_EQ(code_name(status.code()), code_name(code)) << status.detail();
}

}  // namespace headrace::testing
