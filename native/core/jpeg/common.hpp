// What the JPEG decoder and encoder share: libjpeg's errors as values.
//
// libjpeg reports failure by a call that must not return. Ours jumps back to the function that
// entered libjpeg. That function and everything it calls keep no object with a destructor on the
// stack.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs FILE and size_t declared

// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "headrace/status.hpp"

namespace headrace {

// libjpeg takes and returns fewer rows a call than this; more would never be used.
inline constexpr std::size_t kRowsPerCall = 16;

// libjpeg finds this through cinfo->err, its first member.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  Code code;
  char message[JMSG_LENGTH_MAX];
};

// Fills the manager; the result goes to cinfo->err.
jpeg_error_mgr* install_errors(JpegErrors& errors) noexcept;

// Records the failure and jumps. Also for callbacks of ours.
[[noreturn]] void fail(j_common_ptr cinfo, Code code, const char* message);

}  // namespace headrace
