#include "inspect/golden_runs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "inspect/say.h"
#include "media/picture/clip_picture.h"
#include "media/picture/image_reader.h"
#include "media/sound/loudness.h"
#include "media/sound/sound_reader.h"
#include "stages/condition.h"
#include "worlds/world_session.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<float> pixels_for_clip(RgbView picture, const ModelBundle& model, bool original) {
  ClipPreparation how = model.clip_preparation;
  how.original = original;
  return clip_pixels(picture, how);
}

// Prepares a request's photo and speech like api/engine.cpp, but for one speaker only and a photo of the
// video's size.
void prepare_talk(Resolved& r, const ModelBundle& model) {
  const Picture& photo = *r.request.image;
  check(photo.width == *r.request.width && photo.height == *r.request.height, ErrorCode::corrupt,
        "golden run: the photo is {}x{}, expected the video's {}x{}", photo.width, photo.height,
        *r.request.width, *r.request.height);
  if (r.clip_pictures > 0)
    r.clip_pixels = pixels_for_clip({photo.rgb.data(), photo.width, photo.height, int64_t{photo.width} * 3},
                                    model, *r.request.clip_preparation == "original");
  r.speech = r.request.speech->samples;
  normalise_loudness(r.speech, kSpeechRate);
  if (model.audio_standardised) standardise(r.speech);
}

// Returns the frames of a picture in which they lie side by side, [frames, height, width, 3].
std::vector<uint8_t> frames_of(const fs::path& file, const json& run) {
  const RgbFrame strip = read_image(file);
  const auto width = run.at("width").get<size_t>(), height = run.at("height").get<size_t>(),
             frames = run.at("num_frames").get<size_t>(), row = width * 3;
  check(frames > 0 && static_cast<size_t>(strip.width) == width * frames &&
            static_cast<size_t>(strip.height) == height,
        ErrorCode::corrupt, "{}: expected {} frames of {}x{} side by side, got {}x{}", file.string(), frames,
        width, height, strip.width, strip.height);
  std::vector<uint8_t> out;
  out.reserve(strip.rgb.size());
  for (size_t i = 0; i < frames; ++i)
    for (size_t y = 0; y < height; ++y) {
      const auto from = strip.rgb.begin() + static_cast<ptrdiff_t>((y * frames + i) * row);
      out.insert(out.end(), from, from + static_cast<ptrdiff_t>(row));
    }
  return out;
}

// Gives a request what api/footage.cpp reads of its videos and its reference picture, which has the video's size here.
void prepare_footage(Resolved& r, const json& run, const fs::path& folder) {
  auto out = std::make_shared<ClipPixels>();
  if (r.request.control_video) out->control = frames_of(r.request.control_video->path, run);
  if (r.request.mask_video) {
    const std::vector<uint8_t> mask = frames_of(r.request.mask_video->path, run);
    for (size_t i = 0; i < mask.size(); i += 3) out->mask.push_back(mask[i]);
  }
  if (const auto& picture = r.request.reference) {
    check(picture->width == *r.request.width && picture->height == *r.request.height, ErrorCode::corrupt,
          "golden run: the reference in {} is {}x{}, expected the video's {}x{}", folder.string(),
          picture->width, picture->height, *r.request.width, *r.request.height);
    std::vector<float>& values = out->references.emplace_back();
    for (const uint8_t v : picture->rgb) values.push_back(2.0f * (static_cast<float>(v) / 255.0f) - 1.0f);
  }
  r.footage = std::move(out);
}

// Returns the action for one block from its entry: the names of the keys that are held, and the mouse.
WorldSession::Action action_of(const json& entry, const WorldConfig& world) {
  WorldSession::Action out{std::vector<float>(world.keys.size()), std::vector<float>(world.mouse ? 2 : 0)};
  for (const json& key : entry.at("keys")) {
    const auto at = std::ranges::find(world.keys, key.get<std::string>());
    check(at != world.keys.end(), ErrorCode::corrupt, "golden run: the world has no key {}", json_line(key));
    out.keyboard[static_cast<size_t>(at - world.keys.begin())] = 1;
  }
  if (world.mouse) out.mouse = entry.at("mouse").get<std::vector<float>>();
  check(out.mouse.size() == (world.mouse ? 2u : 0u), ErrorCode::corrupt,
        "golden run: expected two values of the mouse, got {}", out.mouse.size());
  return out;
}

// Joins blocks [z, n, h, w] into one tensor [z, T, h, w].
TensorFile::Values joined(const std::vector<std::vector<float>>& blocks, int64_t z, int64_t height,
                          int64_t width) {
  int64_t frames = 0;
  for (const auto& b : blocks) frames += static_cast<int64_t>(b.size()) / (z * height * width);
  TensorFile::Values out{{z, frames, height, width}, {}};
  for (int64_t c = 0; c < z; ++c)
    for (const auto& b : blocks) {
      const auto each = static_cast<ptrdiff_t>(b.size()) / z;
      out.data.insert(out.data.end(), b.begin() + c * each, b.begin() + (c + 1) * each);
    }
  return out;
}

}  // namespace

VideoRequest golden_request(const json& run, const fs::path& folder, const ValidateOptions& options) {
  const auto picture = [&](const char* key) {
    RgbFrame p = read_image(folder / run.at(key).get<std::string>());
    return std::make_shared<const Picture>(Picture{p.width, p.height, std::move(p.rgb)});
  };
  const auto video = [&](const char* key) {
    return std::make_shared<const Footage>(Footage{(folder / run.at(key).get<std::string>()).string(),
                                                   run.at("width").get<int>(), run.at("height").get<int>(), 0,
                                                   run.at("num_frames").get<int64_t>()});
  };
  VideoRequest r;
  r.prompt = run.at("prompt").get<std::string>(), r.negative_prompt = run.value("negative_prompt", "");
  r.width = run.at("width").get<int>(), r.height = run.at("height").get<int>();
  r.frames = run.at("num_frames").get<int>(), r.steps = run.at("num_inference_steps").get<int>();
  r.guidance = run.at("guidance_scale").get<double>(), r.shift = run.at("flow_shift").get<double>();
  r.seed = run.at("seed").get<uint64_t>(), r.level = options.level;
  if (!options.dtypes.empty()) r.dtype = options.dtypes.front();
  if (run.value("kind", "clip") == "talk") {
    r.image = picture("photo");
    r.speech =
        std::make_shared<const Speech>(Speech{read_speech(folder / run.at("speech").get<std::string>())});
    r.window_frames = run.at("window_frames").get<int>(),
    r.motion_frames = run.at("motion_frames").get<int>();
    r.audio_guidance = run.at("audio_guidance_scale").get<double>();
    r.color_correction = run.at("color_correction").get<double>();
  } else {
    r.sampler = run.at("sampler").get<std::string>(), r.grid = run.at("grid").get<std::string>();
    if (run.contains("control_video")) r.control_video = video("control_video");
    if (run.contains("mask_video")) r.mask_video = video("mask_video");
    if (run.contains("reference")) r.reference = picture("reference");
  }
  return r;
}

RunPrecision precision_of(TextToVideo& pipeline, const VideoRequest& request) {
  const Resolved r = pipeline.resolved(request);
  const bool low = *r.request.dtype != "f32";
  return {.bf16 = low,
          .step_cache = *r.request.step_cache > 0,
          .low_residual = low && pipeline.gpu() && *r.request.residual != "f32",
          .fp8 = r.request.math == "fp8"};
}

GoldenRun run_clip(TextToVideo& pipeline, const json& run, const fs::path& folder, const std::string& name,
                   const ValidateOptions& options) {
  const VideoRequest request = golden_request(run, folder, options);
  GoldenRun out{.precision = precision_of(pipeline, request)};
  VideoCallbacks callbacks{.cancel = options.cancel};
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t> shape) {
    out.latents = {{shape.begin(), shape.end()}, {values.begin(), values.end()}};
  };
  callbacks.frame = [&](const RgbImage& image, int64_t) {
    out.pictures.emplace_back(image.rgb.begin(), image.rgb.end());
  };
  callbacks.progress = [&](const Progress& p) {
    say(options, fmt::format("{} {} {}/{}", name, p.stage, p.done, p.total));
  };
  Resolved resolved = pipeline.resolved(request);
  if (request.speech) prepare_talk(resolved, pipeline.model());
  if (resolved.control.follows) prepare_footage(resolved, run, folder);
  out.steps_reused = pipeline.generate(pipeline.prepare(std::move(resolved)), callbacks).steps_reused;
  return out;
}

GoldenRun run_world(ModelBundle model, const json& run, const fs::path& folder, const std::string& name,
                    const ValidateOptions& options) {
  std::vector<std::vector<float>> blocks;
  const ModelOptions on{.threads = options.threads, .device = options.device};
  WorldSession session(
      std::make_shared<Model>(std::move(model), on),
      {.level = options.level,
       .dtype = options.dtypes.empty() ? "" : options.dtypes.front(),
       .cancel = options.cancel,
       .latents = [&](std::span<const float> v) { blocks.emplace_back(v.begin(), v.end()); }});
  const WorldConfig& world = session.config();
  const ModelBundle& m = session.model();
  const RgbFrame picture = read_image(folder / run.at("image").get<std::string>());
  check(picture.width == world.width && picture.height == world.height, ErrorCode::corrupt,
        "golden run: the picture is {}x{}, expected the world's {}x{}", picture.width, picture.height,
        world.width, world.height);
  const Precision& p = session.precision();
  const bool low = session.gpu() ? p.activation != DType::f32 : p.compute == Compute::bf16;
  GoldenRun out{.precision = {.bf16 = low, .low_residual = low && session.gpu() && p.residual != DType::f32}};
  WorldInput input;
  input.picture = pixels_of(Picture{picture.width, picture.height, picture.rgb});
  // The pixels are made from the fitted picture, as in the original program.
  input.clip_pixels = pixels_for_clip(picture.view(), m, true);
  session.start(input, run.at("seed").get<uint64_t>());
  const json& actions = run.at("actions");
  for (const json& entry : actions) {
    say(options, fmt::format("{} block {}/{}", name, blocks.size() + 1, actions.size()));
    session.next([&] { return action_of(entry, world); },
                 [&](const RgbImage& image, int64_t) {
                   out.pictures.emplace_back(image.rgb.begin(), image.rgb.end());
                 });
  }
  const int64_t stride = m.vae_config.spatial_stride();
  out.latents = joined(blocks, m.vae_config.z_dim, world.height / stride, world.width / stride);
  return out;
}

}  // namespace tachy
