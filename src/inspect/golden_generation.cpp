// A whole generation against a golden folder's: latents after the last step, then frame by frame.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "inspect/golden_compare.h"
#include "inspect/golden_set.h"
#include "inspect/say.h"
#include "media/image_reader.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// pictures, each beside the others in `strip`: frame by frame.
void compare_frames(const std::vector<std::vector<uint8_t>>& pictures, const RgbFrame& strip, int frames,
                    const json& own, const RunPrecision& precision, const std::string& name,
                    std::vector<Check>& checks) {
  const int width = strip.width / frames, height = strip.height;
  const double most = own.at("max_level").get<double>() + 1;
  const double least =
      precision.step_cache ? kStepCachePsnr : own.at("psnr").get<double>() - precision.decibel();
  std::vector<uint8_t> want(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (int i = 0; i < frames; ++i) {
    const size_t row = static_cast<size_t>(width) * 3;
    for (int y = 0; y < height; ++y)
      std::memcpy(want.data() + static_cast<size_t>(y) * row,
                  strip.rgb.data() +
                      (static_cast<size_t>(y) * static_cast<size_t>(frames) + static_cast<size_t>(i)) * row,
                  row);
    const FrameDistance d =
        frame_distance(pictures.at(static_cast<size_t>(i)).data(), want.data(), want.size());
    Check check{.kind = "frame",
                .name = fmt::format("{}: frame {}", name, i),
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

VideoRequest generation_request(const json& run, const ValidateOptions& options) {
  VideoRequest r;
  r.prompt = run.at("prompt").get<std::string>(),
  r.negative_prompt = run.at("negative_prompt").get<std::string>();
  r.width = run.at("width").get<int>(), r.height = run.at("height").get<int>();
  r.frames = run.at("num_frames").get<int>(), r.steps = run.at("num_inference_steps").get<int>();
  r.guidance = run.at("guidance_scale").get<double>(), r.shift = run.at("flow_shift").get<double>();
  r.sampler = run.at("sampler").get<std::string>(), r.grid = run.at("grid").get<std::string>();
  r.seed = run.at("seed").get<uint64_t>(), r.level = options.level;
  if (!options.dtypes.empty()) r.dtype = options.dtypes.front();
  return r;
}

void validate_generation(const json& whole, const fs::path& folder, TextToVideo& pipeline,
                         const std::string& name, const RunPrecision& precision,
                         const ValidateOptions& options, std::vector<Check>& checks) {
  const VideoRequest request = generation_request(whole.at("run"), options);
  const std::string errors = precision.name_in(whole.at("errors"));
  const json& own = whole.at("errors").at(errors);
  const RgbFrame strip = read_image(folder / "frames.png");
  const int width = *request.width, height = *request.height, frames = *request.frames;
  check(strip.width == width * frames && strip.height == height, ErrorCode::corrupt,
        "{}: expected {}x{}, {} frames side by side, got {}x{}", (folder / "frames.png").string(),
        width * frames, height, frames, strip.width, strip.height);
  say(options, name + " generation");
  TensorFile::Values latents;
  std::vector<std::vector<uint8_t>> pictures;
  VideoCallbacks callbacks{.cancel = options.cancel};
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t> shape) {
    latents = {{shape.begin(), shape.end()}, {values.begin(), values.end()}};
  };
  callbacks.frame = [&](const RgbImage& image, int64_t) {
    pictures.emplace_back(image.rgb.begin(), image.rgb.end());
  };
  callbacks.progress = [&](const Progress& p) {
    say(options, fmt::format("{} {} {}/{}", name, p.stage, p.done, p.total));
  };
  const ResolvedRequest done = pipeline.generate(request, callbacks);

  Check final_latents{.kind = "latents",
                      .name = fmt::format("{}: latents after {} steps", name, *request.steps)};
  compare_values(latents, TensorFile(folder / "generation.safetensors").read("latents"),
                 json{{errors, own.at("latents")}}, precision, precision.of_run(), kLeastRunError,
                 final_latents);
  if (precision.step_cache) {  // shown; the frames decide
    final_latents.ok = true, final_latents.bound = 0;
    final_latents.detail =
        fmt::format("no bound with the step cache, which reused {} steps", done.steps_reused);
  }
  checks.push_back(std::move(final_latents));

  compare_frames(pictures, strip, frames, own, precision, name, checks);
}

}  // namespace tachy
