#include "media/picture/jpeg.h"

#include <csetjmp>
#include <cstdio>  // jpeglib.h uses FILE and size_t but does not include them
#include <cstdlib>
// These must be in this order.
#include <jpeglib.h>

#include <string>

#include "base/error.h"

namespace tachy {

// libjpeg reports errors by calling a function that must not return. So no variable that longjmp skips may
// need a destructor.
struct JpegFailure {
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX] = "";
};

namespace {

void on_error(j_common_ptr jpeg) {
  auto* failure = static_cast<JpegFailure*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, failure->text);
  std::longjmp(failure->back, 1);
}

void on_message(j_common_ptr, int) {}

}  // namespace

struct JpegEncoder::State {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  JpegFailure failure;
  unsigned char* buffer = nullptr;  // libjpeg replaces it by a larger one if necessary
  unsigned char* before = nullptr;  // its value before libjpeg began
  unsigned long capacity = 0, used = 0;
  int quality = 0;
  bool made = false;

  ~State() {
    if (made) jpeg_destroy_compress(&jpeg);
    std::free(buffer);
  }
  bool run(RgbView picture);  // returns false and sets failure.text on an error
};

bool JpegEncoder::State::run(RgbView picture) {
  if (setjmp(failure.back)) {
    if (made) jpeg_abort_compress(&jpeg);
    buffer = before;  // libjpeg may already have freed later buffers
    return false;
  }
  if (!made) {
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    jpeg.client_data = &failure;
    jpeg_create_compress(&jpeg);
    made = true;
  }
  used = capacity;
  before = buffer;
  jpeg_mem_dest(&jpeg, &buffer, &used);
  jpeg.image_width = static_cast<JDIMENSION>(picture.width);
  jpeg.image_height = static_cast<JDIMENSION>(picture.height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, quality, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    auto* row = const_cast<JSAMPROW>(picture.row(static_cast<int>(jpeg.next_scanline)));
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  // If a buffer was too small, libjpeg replaces it by a larger one but leaves it to its owner.
  if (before != buffer) std::free(before);
  if (used > capacity) capacity = used;
  return true;
}

JpegEncoder::JpegEncoder(int quality) : state_(std::make_unique<State>()) {
  require(quality >= 1 && quality <= 100, "jpeg: quality {}: expected 1 to 100", quality);
  state_->quality = quality;
}
JpegEncoder::~JpegEncoder() = default;
JpegEncoder::JpegEncoder(JpegEncoder&&) noexcept = default;
JpegEncoder& JpegEncoder::operator=(JpegEncoder&&) noexcept = default;

void JpegEncoder::encode(RgbView picture, std::vector<uint8_t>& out) {
  require(picture.width >= 1 && picture.height >= 1 && picture.width <= kMaxImageSide &&
              picture.height <= kMaxImageSide,
          "jpeg: a picture of {}x{}, expected sides of 1 to {}", picture.width, picture.height,
          kMaxImageSide);
  State& s = *state_;
  check(s.run(picture), ErrorCode::internal, "jpeg: {}", s.failure.text);
  out.insert(out.end(), s.buffer, s.buffer + s.used);
}

}  // namespace tachy
