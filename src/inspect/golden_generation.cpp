// Compares a whole generation with a golden folder's: latents after the last step, then each frame.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "inspect/golden_compare.h"
#include "inspect/golden_runs.h"
#include "inspect/golden_set.h"
#include "media/picture/image_reader.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Compares every frame_step-th picture with the same frame in the file `strip`, where the frames lie side by
// side.
void compare_frames(const std::vector<std::vector<uint8_t>>& pictures, const json& run,
                    const fs::path& strip_file, const json& own, const RunPrecision& precision,
                    const std::string& name, std::vector<Check>& checks) {
  const RgbFrame strip = read_image(strip_file);
  const int all = run.at("num_frames").get<int>(), step = run.value("frame_step", 1);
  const int width = run.at("width").get<int>(), height = run.at("height").get<int>();
  check(all > 0 && step > 0 && static_cast<size_t>(all) == pictures.size(), ErrorCode::corrupt,
        "{}: expected {} frames, got {}", name, all, pictures.size());
  const int count = (all + step - 1) / step;
  check(strip.width == width * count && strip.height == height, ErrorCode::corrupt,
        "{}: expected {}x{}, {} frames side by side, got {}x{}", strip_file.string(), width * count, height,
        count, strip.width, strip.height);
  const double most = own.at("max_level").get<double>() + 1;
  const double least =
      precision.step_cache ? kStepCachePsnr : own.at("psnr").get<double>() - precision.decibel();
  const size_t row = static_cast<size_t>(width) * 3, picture = row * static_cast<size_t>(height);
  std::vector<uint8_t> want(picture);
  for (int i = 0; i < count; ++i) {
    for (int y = 0; y < height; ++y)
      std::memcpy(want.data() + static_cast<size_t>(y) * row,
                  strip.rgb.data() +
                      (static_cast<size_t>(y) * static_cast<size_t>(count) + static_cast<size_t>(i)) * row,
                  row);
    const std::vector<uint8_t>& got = pictures[static_cast<size_t>(i * step)];
    check(got.size() == picture, ErrorCode::corrupt, "{}: a frame has {} bytes, expected {}", name,
          got.size(), picture);
    const FrameDistance d = frame_distance(got.data(), want.data(), want.size());
    Check check{.kind = "frame",
                .name = fmt::format("{}: frame {}", name, i * step),
                .max = d.max,
                .mean = d.mean,
                .psnr = d.psnr};
    const bool levels_bind = !precision.bf16 && !precision.step_cache;
    check.bound = levels_bind ? most : 255;
    check.ok = d.psnr >= least && d.max <= check.bound;
    check.detail = fmt::format("at least {:.1f} dB{}", least,
                               levels_bind ? fmt::format(", at most {:g} levels", most) : "");
    checks.push_back(std::move(check));
  }
}

}  // namespace

FrameDistance frame_distance(const uint8_t* a, const uint8_t* b, size_t bytes) {
  FrameDistance d;
  double squares = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const double e = std::abs(static_cast<int>(a[i]) - static_cast<int>(b[i]));
    d.max = std::max(d.max, e), d.mean += e, squares += e * e;
  }
  d.mean /= static_cast<double>(bytes);
  if (squares > 0) d.psnr = 10 * std::log10(255.0 * 255.0 * static_cast<double>(bytes) / squares);
  return d;
}

void compare_generation(const json& whole, const fs::path& folder, const GoldenRun& got,
                        const std::string& name, std::vector<Check>& checks) {
  const json& run = whole.at("run");
  const RunPrecision& precision = got.precision;
  const std::string errors = precision.name_in(whole.at("errors"));
  const json& own = whole.at("errors").at(errors);
  const bool world = run.value("kind", "") == "world";
  const std::string of = world ? fmt::format("all {} blocks", run.at("actions").size())
                               : fmt::format("{} steps", run.at("num_inference_steps").get<int>());
  Check final_latents{.kind = "latents", .name = fmt::format("{}: latents after {}", name, of)};
  compare_values(got.latents, TensorFile(folder / "generation.safetensors").read("latents"),
                 json{{errors, own.at("latents")}}, precision, precision.of_run(), kLeastRunError,
                 final_latents);
  if (precision.step_cache) {  // the latents are only shown; the frames decide
    final_latents.ok = true, final_latents.bound = 0;
    final_latents.detail =
        fmt::format("no bound with the step cache, which reused {} steps", got.steps_reused);
  }
  checks.push_back(std::move(final_latents));
  compare_frames(got.pictures, run, folder / "frames.png", own, precision, name, checks);
}

}  // namespace tachy
