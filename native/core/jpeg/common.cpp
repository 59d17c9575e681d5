#include "core/jpeg/common.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace headrace {
namespace {

JpegErrors& errors_of(j_common_ptr cinfo) noexcept {
  return *reinterpret_cast<JpegErrors*>(cinfo->err);
}

Code code_of_message(int message) noexcept {
  switch (message) {
#if JPEG_LIB_VERSION < 70
    case JERR_ARITH_NOTIMPL:
#endif
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
      return Code::unsupported;
    case JERR_OUT_OF_MEMORY:
      return Code::out_of_memory;
    case JERR_IMAGE_TOO_BIG:
    case JERR_WIDTH_OVERFLOW:
      return Code::too_large;
    case JERR_INPUT_EMPTY:
    case JERR_INPUT_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_JPEG_EOF:
      return Code::truncated;
    default:
      return Code::corrupt;
  }
}

// Warnings about oddities that leave the pixels as they were meant.
bool is_harmless(int message) noexcept {
  return message == JWRN_EXTRANEOUS_DATA || message == JWRN_JFIF_MAJOR ||
         message == JWRN_ADOBE_XFORM;
}

[[noreturn]] void exit_with_message(j_common_ptr cinfo) {
  JpegErrors& errors = errors_of(cinfo);
  errors.code = code_of_message(errors.manager.msg_code);
  errors.manager.format_message(cinfo, errors.message);
  std::longjmp(errors.jump, 1);
}

// Negative levels are warnings, the others are traces.
void on_message(j_common_ptr cinfo, int level) {
  if (level < 0 && !is_harmless(errors_of(cinfo).manager.msg_code)) exit_with_message(cinfo);
}

void on_output(j_common_ptr) {}

}  // namespace

jpeg_error_mgr* install_errors(JpegErrors& errors) noexcept {
  jpeg_error_mgr* manager = jpeg_std_error(&errors.manager);
  manager->error_exit = exit_with_message;
  manager->emit_message = on_message;
  manager->output_message = on_output;
  errors.code = Code::ok;
  errors.message[0] = '\0';
  return manager;
}

void fail(j_common_ptr cinfo, Code code, const char* message) {
  JpegErrors& errors = errors_of(cinfo);
  const std::size_t size = std::min(std::strlen(message), sizeof errors.message - 1);
  std::memcpy(errors.message, message, size);
  errors.message[size] = '\0';
  errors.code = code;
  std::longjmp(errors.jump, 1);
}

}  // namespace headrace
