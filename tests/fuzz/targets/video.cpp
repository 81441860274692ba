// Fuzzes a video: the size and the turn that its container states, then its first frames. Bugs are sought in
// our own code, not in codecs, so the frames are few and small.
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
