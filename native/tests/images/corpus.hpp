// The pictures that the fuzz targets begin with.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "tests/support.hpp"

namespace headrace::testing {

inline Bytes corpus_file(const std::string& name) {
  std::ifstream stream(std::string(HEADRACE_PICTURES) + "/" + name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  EXPECT_FALSE(text.empty()) << name;
  const ByteSpan bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

}  // namespace headrace::testing
