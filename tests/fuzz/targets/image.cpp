// Fuzzes a picture: header, decoder, turning, resizing, and the comment that settings are read from.
#include "../fuzz_input.h"
#include "media/metadata.h"
#include "media/picture/image_reader.h"

using namespace tachy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  file.set(fuzz::view(data, size));
  fuzz::expect_error_or_result([] { (void)read_comment(file.path()); });
  fuzz::expect_error_or_result([] {
    const ImageSize claimed = read_image_size(file.path());
    if (claimed.width < 1 || claimed.height < 1) std::abort();
    if (int64_t{claimed.width} * claimed.height > (1 << 20)) return;  // such a size is allowed, but slow here
    const RgbFrame image = read_image(file.path());
    if (image.width != claimed.width || image.height != claimed.height) std::abort();
    for (const RgbFrame& small : {resize(image.view(), 24, 16), resize_crop(image.view(), 16, 24)})
      fuzz::touch(small.rgb.data(), small.rgb.size());
  });
  return 0;
}
