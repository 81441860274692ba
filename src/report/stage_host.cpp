// The stages around the models, which run on the host: token ids, a sampler's schedule, noise, a fitted
// picture.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/field.h"
#include "catalog/open_tokenizer.h"
#include "media/picture/clip_picture.h"
#include "media/picture/image_reader.h"
#include "report/stage_runners.h"
#include "request/request_fields.h"
#include "request/sampler_config.h"
#include "samplers/sampler.h"
#include "session/parts.h"
#include "session/prompts.h"
#include "stages/denoise_stage.h"
#include "tensor/random.h"
#include "text/tokenizer.h"

namespace tachy {

namespace {

// Opens the tokenizer of a file or a folder, of a model's folder, or of a text encoder's file that contains
// one.
std::unique_ptr<Tokenizer> tokenizer_at(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // opening the file will report errors
  if (fs::is_regular_file(path, ignored) && path.extension() != ".json" && path.extension() != ".model")
    return read_carried_tokenizer(*open_text_encoder(path).source);
  const bool model =
      fs::is_directory(path, ignored) && !is_component_folder(path) &&
      (fs::exists(path / "model_index.json", ignored) || fs::exists(path / "config.json", ignored));
  return Tokenizer::open(model ? open_model(path).tokenizer : path);
}

}  // namespace

void run_tokenize(const StageRequest& request, StageIo& io) {
  const auto tokenizer = tokenizer_at(request.model);
  const TokenIds tokens = prompt_tokens(*tokenizer, "prompt", request.prompt, request.max_text_tokens);
  const auto length = static_cast<int64_t>(tokens.ids.size());
  std::memcpy(io.output("input_ids", DType::i64, {1, length}).data, tokens.ids.data(), tokens.ids.size() * 8);
  std::memcpy(io.output("attention_mask", DType::i64, {1, length}).data, tokens.mask.data(),
              tokens.mask.size() * 8);
}

void run_sampler(const StageRequest& request, StageIo& io) {
  VideoRequest r{};
  r.sampler = request.sampler, r.grid = request.grid, r.steps = request.steps, r.shift = request.shift;
  check_fields(r);
  naming("`grid`", [&] { parse_grid(*r.grid); });
  const Schedule schedule = make_schedule(naming("`sampler`", [&] { return sampler_config(r); }));
  const auto steps = static_cast<int64_t>(schedule.steps());
  std::copy(schedule.sigmas.begin(), schedule.sigmas.end(),
            io.output("sigmas", DType::f32, {steps + 1}).as<float>());
  const bool whole = std::all_of(schedule.timesteps.begin(), schedule.timesteps.end(),
                                 [](double t) { return t == std::floor(t); });
  if (whole)
    std::copy(schedule.timesteps.begin(), schedule.timesteps.end(),
              io.output("timesteps", DType::i64, {steps}).as<int64_t>());
  else
    std::copy(schedule.timesteps.begin(), schedule.timesteps.end(),
              io.output("timesteps", DType::f32, {steps}).as<float>());
}

void run_noise(const StageRequest& request, StageIo& io) {
  require(!request.shape.empty() && request.shape.size() <= kMaxDims,
          "`shape`: expected 1 to {} numbers, got {}", kMaxDims, request.shape.size());
  int64_t count = 1;
  for (int64_t extent : request.shape) {
    require(extent > 0 && extent <= (int64_t{1} << 32) / count,
            "`shape`: a size of {} is too small or too large", shape_string(request.shape));
    count *= extent;
  }
  VideoRequest r;
  r.rng = request.rng, r.rng_multiprocessors = request.rng_multiprocessors;
  check_fields(r);
  const Tensor flat = io.output("noise", DType::f32, {count});
  const auto values = std::span(flat.as<float>(), static_cast<size_t>(count));
  if (request.rng == "cuda")
    torch_cuda_normal(request.seed, values, request.rng_multiprocessors);
  else
    torch_cpu_normal(request.seed, values);
  io.reshape_last(request.shape);
}

void run_fit_image(const StageRequest& request, StageIo& io) {
  require(!request.image.empty(), "stage fit-image: `image` is needed");
  require(request.shape.size() == 2 && *std::min_element(request.shape.begin(), request.shape.end()) > 0 &&
              *std::max_element(request.shape.begin(), request.shape.end()) <= kMaxImageSide,
          "`shape`: expected HEIGHT,WIDTH up to {}, got {}", kMaxImageSide, shape_string(request.shape));
  VideoRequest r;
  r.image_fit = request.image_fit;
  check_fields(r);
  const RgbFrame picture = naming("`image`", [&] { return read_image(request.image); });
  const int64_t height = request.shape[0], width = request.shape[1];
  const auto fit = [&](int w, int h) {
    return request.image_fit == "crop" ? resize_crop(picture.view(), w, h) : resize(picture.view(), w, h);
  };
  const RgbFrame fitted = fit(static_cast<int>(width), static_cast<int>(height));
  std::memcpy(io.output("image", DType::u8, {height, width, 3}).data, fitted.rgb.data(), fitted.rgb.size());
}

void run_image_processor(const StageRequest& request, StageIo& io) {
  require(!request.image.empty(), "stage image-processor: `image` is needed");
  check_choice("clip_preparation", request.clip_preparation, {"processor", "original"});
  ClipPreparation how;
  if (!request.model.empty())
    how = naming("`model`", [&] { return open_image_encoder(request.model).preparation; });
  how.original = request.clip_preparation == "original";
  const std::vector<float> pixels =
      naming("`image`", [&] { return clip_pixels(read_image(request.image).view(), how); });
  std::copy(pixels.begin(), pixels.end(),
            io.output("pixel_values", DType::f32, {1, 3, how.side, how.side}).as<float>());
}

}  // namespace tachy
