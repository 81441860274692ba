// A video: what its container says of its size and how it is turned, then its first frames. The part that is ours, and no codec, is
// looked for: few frames, and small ones.
#include "../fuzz_input.h"
#include "media/metadata.h"
#include "media/video/video_reader.h"

using namespace tachy;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static fuzz::MemoryFile file;
  file.set(fuzz::view(data, size));
  fuzz::expect_error_or_result([] { (void)read_comment(file.path()); });
  fuzz::expect_error_or_result([] {
    const auto reader = VideoReader::open(file.path(), {.max_frames = 3, .max_pixels = 1 << 18});
    const VideoInfo info = reader->info();
    RgbFrame frame;
    while (reader->read(frame)) {
      if (frame.width != info.width || frame.height != info.height) std::abort();
      fuzz::touch(frame.rgb.data(), frame.rgb.size());
    }
  });
  return 0;
}
