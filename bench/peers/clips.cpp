// Runs many prompts through one loaded model, for the judge and for warm timings:
//   clips MODEL DEVICE DTYPE|default GRAPHS(0|1) PROMPTS.txt OUT.rgb [REPEATS [WIDTH HEIGHT FRAMES [SHARE CHOOSER DENSE_STEPS]]] [FIELD=VALUE …]
// The file has one prompt per line, and clip i has seed i. Its frames, uint8 [frames, height, width, 3], are
// appended to OUT.rgb. Prints frames, height and width, then each clip's seconds from the request to the last
// frame. With REPEATS the whole list runs that many times, and only the last round's frames stay. WIDTH 0
// means the model's size. SHARE, CHOOSER and DENSE_STEPS are generate's --sparse-attention and the related
// options (bench/peers/sparse_quality.py). FIELD=VALUE sets a field of the request, such as math=int8.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "api/c_fields.h"
#include "api/tachyscope.h"

namespace {

// Takes the words FIELD=VALUE from the end of the command line.
void set_named(int& argc, char** argv, tachy::VideoRequest& request) {
  for (; argc > 7; --argc) {
    char* equals = std::strchr(argv[argc - 1], '=');
    if (!equals) return;
    *equals = 0;
    const tachyscope_setting setting{argv[argc - 1], equals + 1};
    tachy::set_fields(request, {&setting, 1});
  }
}

std::vector<std::string> lines_of(const char* path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  if (lines.empty()) tachy::fail(tachy::ErrorCode::invalid_argument, "{}: no prompts", path);
  return lines;
}

double generate(tachy::Engine& engine, const tachy::VideoRequest& request, std::FILE* out) {
  tachy::VideoCallbacks callbacks;
  callbacks.frame = [&](const tachy::RgbImage& image, int64_t) {
    if (std::fwrite(image.rgb.data(), 1, image.rgb.size(), out) != image.rgb.size())
      tachy::fail(tachy::ErrorCode::io, "the frames could not be written");
  };
  const auto start = std::chrono::steady_clock::now();
  engine.generate(request, callbacks);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7)
    return std::fputs("clips MODEL DEVICE DTYPE|default GRAPHS PROMPTS.txt OUT.rgb [REPEATS]\n", stderr), 2;
  try {
    tachy::VideoRequest request;
    set_named(argc, argv, request);
    tachy::Engine engine(argv[1],
                         {.keep_loaded = true, .device = argv[2], .graphs = std::strcmp(argv[4], "0") != 0});
    const std::vector<std::string> prompts = lines_of(argv[5]);
    if (std::strcmp(argv[3], "default")) request.dtype = argv[3];
    if (argc > 10 && std::atoi(argv[8]) > 0)
      request.width = std::atoi(argv[8]), request.height = std::atoi(argv[9]),
      request.frames = std::atoi(argv[10]);
    if (argc > 13) {
      request.sparse_attention = std::atof(argv[11]), request.sparse_chooser = argv[12];
      if (std::atoi(argv[13]) >= 0) request.sparse_dense_steps = std::atoi(argv[13]);
    }
    std::vector<double> seconds;
    for (int round = argc > 7 ? std::atoi(argv[7]) : 1; round > 0; --round) {
      std::FILE* out = std::fopen(argv[6], "wb");
      if (!out) tachy::fail(tachy::ErrorCode::io, "{}: cannot be written", argv[6]);
      seconds.clear();
      for (size_t i = 0; i < prompts.size(); ++i) {
        request.prompt = prompts[i];
        request.seed = i;
        seconds.push_back(generate(engine, request, out));
      }
      if (std::fclose(out) != 0) tachy::fail(tachy::ErrorCode::io, "{}: cannot be written", argv[6]);
    }
    const tachy::VideoRequest shape = engine.prepare(request).request();
    std::printf("%d %d %d\n", *shape.frames, *shape.height, *shape.width);
    for (const double s : seconds) std::printf("%.4f\n", s);
    std::sort(seconds.begin(), seconds.end());
    std::fprintf(stderr, "%s: %zu clips, median %.4f s, first to last %.4f to %.4f s\n",
                 engine.device().c_str(), seconds.size(), seconds[seconds.size() / 2], seconds.front(),
                 seconds.back());
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "clips: %s\n", e.what());
    return 1;
  }
}
