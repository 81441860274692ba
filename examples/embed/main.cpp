// Tachyscope inside a C++ program: plans a run, generates a clip and saves its middle frame as a PPM picture.
//   example_embed MODEL_FOLDER "a prompt" picture.ppm

#include <cstdio>

#include "api/tachyscope.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s MODEL_FOLDER PROMPT PICTURE.ppm\n", argv[0]);
    return 2;
  }
  try {
    tachy::Engine engine(argv[1]);
    const tachy::VideoRequest request{.prompt = argv[2], .frames = 17, .steps = 4};
    const tachy::VideoPlan plan = engine.plan(request);
    std::printf("peak memory %.1f MB, about %.1f s\n", static_cast<double>(plan.peak_bytes) / 1e6,
                plan.seconds);

    bool written = false;
    tachy::VideoCallbacks callbacks;
    callbacks.frame = [&](const tachy::RgbImage& image, int64_t index) {
      if (index != 8) return;
      std::FILE* file = std::fopen(argv[3], "wb");
      if (!file) return;
      std::fprintf(file, "P6\n%d %d\n255\n", image.width, image.height);
      written = std::fwrite(image.rgb.data(), 1, image.rgb.size(), file) == image.rgb.size();
      written = std::fclose(file) == 0 && written;
    };
    engine.generate(request, callbacks);
    return written ? 0 : 1;
  } catch (const tachy::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
