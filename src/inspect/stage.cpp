#include "inspect/stage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "cuda/open_device.h"
#include "media/image_reader.h"
#include "ops/elementwise/elementwise.h"
#include "pipelines/denoise_stage.h"
#include "pipelines/gpu_mode.h"
#include "pipelines/parts.h"
#include "samplers/sampler.h"
#include "tensor/random.h"
#include "tensor/transfer.h"
#include "text/clean_prompt.h"
#include "text/tokenizer.h"
#include "weights/rename.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

// A run's inputs and outputs by name; owns the copies.
class StageIo {
 public:
  explicit StageIo(const StageRequest& request) : request_(request) {
    if (!request.input.empty()) source_ = naming("--in", [&] { return open_weights(request.input); });
  }

  bool has(std::string_view name) const { return source_ && source_->has(name); }

  // A float input widened to float32, or an integer one as i64.
  Tensor input(const std::string& name, int rank_min, int rank_max) {
    const TensorSource::Entry* entry = source_ ? source_->find(name) : nullptr;
    check(entry != nullptr, ErrorCode::not_found, "stage {}: --in {} has no tensor '{}'", request_.name,
          request_.input.empty() ? "(not given)" : request_.input.string(), name);
    const int rank = static_cast<int>(entry->dims.size());
    require(rank >= rank_min && rank <= rank_max, "stage {}: '{}' has shape {}: expected {} dims",
            request_.name, name, shape_string(entry->dims),
            rank_min == rank_max ? fmt::format("{}", rank_min) : fmt::format("{} to {}", rank_min, rank_max));
    for (int64_t extent : entry->dims)
      require(extent > 0, "stage {}: '{}' is empty: {}", request_.name, name, shape_string(entry->dims));
    const Scope scope(source_);
    const Tensor raw = scope.tensor(name, std::span<const int64_t>(entry->dims));
    keep_.push_back(scope.keep());
    return is_float(entry->dtype) ? to_f32(raw) : to_i64(raw, name);
  }

  Tensor allocate(DType dtype, std::span<const int64_t> dims) {
    Tensor shape(nullptr, dtype, dims);
    return buffers_.emplace_back(static_cast<size_t>(shape.bytes())).tensor(dtype, dims);
  }
  Tensor output(const std::string& name, DType dtype, std::initializer_list<int64_t> dims) {
    const Tensor t = allocate(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
    outputs_.push_back({name, t});
    return t;
  }

  // Gives the output made last another shape of the same size.
  void reshape_last(std::span<const int64_t> dims) {
    Tensor& t = outputs_.back().tensor;
    t = Tensor(t.data, t.dtype, dims);
  }

  void write() {
    for (const NamedTensor& out : outputs_)
      if (out.tensor.dtype == DType::f32) {
        const float* values = out.tensor.as<float>();
        check(std::all_of(values, values + out.tensor.numel(), [](float v) { return std::isfinite(v); }),
              ErrorCode::numerical, "stage {}: '{}' holds NaN or Inf", request_.name, out.name);
      }
    naming("--out", [&] { write_safetensors(request_.output, outputs_, {{"stage", request_.name}}); });
  }

 private:
  Tensor to_f32(const Tensor& raw) {
    const Tensor out = allocate(DType::f32, raw.shape());
    auto* y = out.as<float>();
    if (raw.dtype == DType::f64) {
      for (int64_t i = 0; i < raw.numel(); ++i) y[i] = static_cast<float>(raw.as<double>()[i]);
      return out;
    }
    ThreadPool pool(1);
    Arena arena(1 << 16);
    Stream stream{.arena = &arena, .pool = &pool};
    ops::widen(raw, out, stream);
    return out;
  }
  Tensor to_i64(const Tensor& raw, const std::string& name) {
    const Tensor out = allocate(DType::i64, raw.shape());
    auto* y = out.as<int64_t>();
    for (int64_t i = 0; i < raw.numel(); ++i) {
      switch (raw.dtype) {
        case DType::i64:
          y[i] = raw.as<int64_t>()[i];
          break;
        case DType::i32:
          y[i] = raw.as<int32_t>()[i];
          break;
        case DType::boolean:
        case DType::u8:
          y[i] = static_cast<const uint8_t*>(raw.data)[i];
          break;
        default:
          fail(ErrorCode::invalid_argument, "stage {}: '{}' has dtype {}", request_.name, name,
               dtype_name(raw.dtype));
      }
    }
    return out;
  }

  const StageRequest& request_;
  std::shared_ptr<TensorSource> source_;
  std::vector<std::shared_ptr<const void>> keep_;
  std::vector<Buffer> buffers_;
  std::vector<NamedTensor> outputs_;
};

// body(stream, plan_only) runs twice: measured, then for real in an arena of the measured size.
void run_planned(const StageRequest& request, const std::function<void(Stream&, bool)>& body) {
  const std::unique_ptr<cuda::Gpu> gpu = cuda::open_device(request.device);
  ThreadPool pool(request.threads > 0 ? request.threads : available_processors());
  Arena measure;
  const Level& level = find_level(request.level);
  Stream stream{.arena = &measure, .pool = &pool, .hooks = {.cancel = request.cancel}};
  if (gpu) {
    stream.gpu = gpu.get(), stream.memory = gpu.get();
    const GpuMode mode = gpu_mode(request.level, request.dtype, gpu->info().capability());
    stream.precision = {.activation = mode.activation, .residual = mode.residual};
  } else {
    stream.precision.compute = request.dtype.empty() ? level.mode.compute : parse_compute(request.dtype);
    stream.precision.definitions = level.mode.reference;
  }
  body(stream, true);
  Arena arena(std::max<size_t>(measure.peak(), 1), gpu.get());
  stream.arena = &arena;
  body(stream, false);
}

// A host tensor where the stream computes.
Tensor where_it_computes(const Tensor& host, nn::ParamStore& store) {
  if (!store.on_gpu() || !host.defined()) return host;
  const Tensor t = store.allocate(host.dtype, host.shape());
  upload(host.data, t, store.stream());
  return t;
}

// A result made where the stream computes, for the host tensor that is written to the file.
class Result {
 public:
  Result(const Tensor& host, nn::ParamStore& store)
      : host_(host), made_(store.on_gpu() ? store.allocate(host.dtype, host.shape()) : host) {}
  const Tensor& tensor() const { return made_; }
  void fetch(const Stream& stream) const {
    if (stream.gpu) download(made_, host_.data, stream);
  }

 private:
  Tensor host_, made_;
};

void run_text_encoder(const StageRequest& request, StageIo& io) {
  const TextEncoderFiles files = naming("--model", [&] { return open_text_encoder(request.model); });
  const Tensor ids = io.input("input_ids", 2, 2);
  expect_dtype("stage text-encoder", "input_ids", ids, DType::i64);
  const Tensor mask = io.has("attention_mask") ? io.input("attention_mask", 2, 2) : Tensor();
  if (mask.defined()) {
    expect_shape("stage text-encoder", "attention_mask", mask, {ids.dim(0), ids.dim(1)});
    expect_dtype("stage text-encoder", "attention_mask", mask, DType::i64);
  }
  const Tensor out =
      io.output("last_hidden_state", DType::f32, {ids.dim(0), ids.dim(1), files.config.d_model});
  run_planned(request, [&](Stream& stream, bool plan_only) {
    nn::ParamStore store({.plan_only = plan_only, .pack_weights = request.pack_weights}, stream);
    const auto model = load_component(
        files.source, "text encoder", {"encoder.embed_tokens."},
        [&](const Scope& scope) { return std::make_unique<Umt5Encoder>(scope, files.config, store); });
    const Result result(out, store);
    model->forward(ids, mask, result.tensor(), stream);
    result.fetch(stream);
  });
}

// Rows at the end that are all zero: what diffusers pads the text with. They collapse to one key.
int64_t real_rows(const Tensor& text) {
  const int64_t width = text.dim(1);
  int64_t rows = text.dim(0);
  const float* data = text.as<float>();
  while (rows > 0 &&
         std::all_of(data + (rows - 1) * width, data + rows * width, [](float v) { return v == 0; }))
    --rows;
  // A single padding row has nothing to collapse with; the context needs a row even for an all-zero text.
  return std::max<int64_t>(text.dim(0) - rows > 1 ? rows : text.dim(0), 1);
}

void run_transformer(const StageRequest& request, StageIo& io) {
  TransformerFiles files = naming("--model", [&] { return open_transformer(request.model); });
  if (request.sinusoid) files.config.sinusoid = parse_sinusoid(*request.sinusoid);
  const WanConfig& c = files.config;
  const Tensor x = io.input("hidden_states", 5, 5);
  const int64_t batch = x.dim(0);
  Tensor time = io.input("timestep", 1, 2);
  const Tensor text = io.input("encoder_hidden_states", 3, 3);
  expect_shape("stage transformer", "encoder_hidden_states", text, {batch, -1, c.text_dim});
  Tensor image;
  if (io.has("encoder_hidden_states_image")) {
    require(c.image_branch(),
            "stage transformer: encoder_hidden_states_image given, but the model has no image branch");
    image = io.input("encoder_hidden_states_image", 3, 3);
    expect_shape("stage transformer", "encoder_hidden_states_image", image, {-1, -1, c.image_dim});
    require(image.dim(0) % batch == 0, "stage transformer: {} encoder_hidden_states_image for a batch of {}",
            image.dim(0), batch);
    image = image.view({batch, -1, c.image_dim});  // first-last-frame models give both images as batch items
  }
  expect_shape("stage transformer", "hidden_states", x, {batch, c.in_channels, -1, -1, -1});
  const int64_t tokens = x.dim(2) / c.patch_t * (x.dim(3) / c.patch_h) * (x.dim(4) / c.patch_w);
  const bool per_token = time.rank == 2;
  if (per_token)
    expect_shape("stage transformer", "timestep", time, {batch, tokens});
  else
    expect_shape("stage transformer", "timestep", time, {batch});

  // Distinct timesteps become rows, tokens point at theirs.
  std::map<double, int32_t> index;
  std::vector<double> timesteps;
  const Tensor row = io.allocate(DType::i32, std::array{batch * tokens});
  for (int64_t i = 0; i < batch * tokens; ++i) {
    const int64_t at = per_token ? i : i / tokens;
    const double t =
        time.dtype == DType::i64 ? static_cast<double>(time.as<int64_t>()[at]) : time.as<float>()[at];
    const auto [it, added] = index.try_emplace(t, static_cast<int32_t>(timesteps.size()));
    if (added) timesteps.push_back(t);
    row.as<int32_t>()[i] = it->second;
  }

  const Tensor out = io.output("sample", DType::f32, {batch, c.out_channels, x.dim(2), x.dim(3), x.dim(4)});
  run_planned(request, [&](Stream& stream, bool plan_only) {
    nn::ParamStore store({.plan_only = plan_only, .pack_weights = request.pack_weights}, stream);
    const auto model = load_component(files.source, "transformer", {}, [&](const Scope& scope) {
      return std::make_unique<WanDit>(scope, c, store);
    });
    const WanGrid grid = model->make_grid(x.dim(2), x.dim(3), x.dim(4), store);
    std::vector<WanContext> contexts;
    for (int64_t b = 0; b < batch; ++b) {
      const Tensor rows = text.select(0, b);
      const Tensor given = where_it_computes(rows.slice(0, 0, real_rows(rows)), store);
      contexts.push_back(
          model->make_context(given, rows.dim(0), image.defined() ? image.select(0, b) : Tensor(), store));
    }
    WanInput in{.latents = where_it_computes(x, store),
                .grid = &grid,
                .times = model->make_times(timesteps, store),
                .row = where_it_computes(row, store)};
    for (const WanContext& context : contexts) in.contexts.push_back(&context);
    const Result result(out, store);
    model->forward(in, result.tensor(), stream);
    result.fetch(stream);
  });
}

void run_vae_encode(const StageRequest& request, StageIo& io) {
  const VaeFiles files = naming("--model", [&] { return open_vae(request.model); });
  const VaeConfig& c = files.config;
  const Tensor video = io.input("video", 5, 5);
  expect_shape("stage vae-encode", "video", video, {-1, c.image_channels(), -1, -1, -1});
  const int64_t batch = video.dim(0), frames = c.latent_frames(video.dim(2)), s = c.spatial_stride();
  require(video.dim(3) % s == 0 && video.dim(4) % s == 0,
          "stage vae-encode: {}x{} pixels are not a multiple of {}", video.dim(4), video.dim(3), s);
  const int64_t h = video.dim(3) / s, w = video.dim(4) / s;
  const Tensor mean = io.output("mean", DType::f32, {batch, c.z_dim, frames, h, w});
  const Tensor logvar = io.output("logvar", DType::f32, {batch, c.z_dim, frames, h, w});
  run_planned(request, [&](Stream& stream, bool plan_only) {
    const auto model =
        load_component(files.source, "vae", {"decoder.", "post_quant_conv."}, [&](const Scope& scope) {
          return std::make_unique<VaeEncoder>(scope, c, VaeEncoderOptions{.plan_only = plan_only}, stream);
        });
    nn::ParamStore store({.plan_only = plan_only}, stream);
    const Tensor frames_in = where_it_computes(video, store);
    const Result means(mean, store), logvars(logvar, store);
    for (int64_t b = 0; b < batch; ++b)
      model->encode(channels_last_view(frames_in.select(0, b)), means.tensor().select(0, b),
                    logvars.tensor().select(0, b), stream);
    means.fetch(stream), logvars.fetch(stream);
  });
}

void run_vae_decode(const StageRequest& request, StageIo& io) {
  const VaeFiles files = naming("--model", [&] { return open_vae(request.model); });
  const VaeConfig& c = files.config;
  const Tensor latents = io.input("latents", 5, 5);
  expect_shape("stage vae-decode", "latents", latents, {-1, c.z_dim, -1, -1, -1});
  const int64_t batch = latents.dim(0), frames = c.pixel_frames(latents.dim(2)), s = c.spatial_stride();
  const Tensor decoded = io.output(
      "decoded", DType::f32, {batch, c.image_channels(), frames, latents.dim(3) * s, latents.dim(4) * s});
  run_planned(request, [&](Stream& stream, bool plan_only) {
    const auto model =
        load_component(files.source, "vae", {"encoder.", "quant_conv."}, [&](const Scope& scope) {
          return std::make_unique<VaeDecoder>(
              scope, c, VaeDecoderOptions{.normalised = false, .plan_only = plan_only}, stream);
        });
    nn::ParamStore store({.plan_only = plan_only}, stream);
    const Tensor z = where_it_computes(latents, store);
    const Result result(decoded, store);
    for (int64_t b = 0; b < batch; ++b) {
      const Tensor target = channels_last_view(result.tensor().select(0, b));
      model->decode(
          z.select(0, b),
          [&](const Tensor& part, int64_t first) {
            ops::copy({.x = part, .y = target.slice(0, first, first + part.dim(0))}, stream);
          },
          stream);
    }
    result.fetch(stream);
  });
}

void run_tokenize(const StageRequest& request, StageIo& io) {
  const auto path = is_component_folder(request.model) || !std::filesystem::is_directory(request.model) ||
                            !(std::filesystem::exists(request.model / "model_index.json") ||
                              std::filesystem::exists(request.model / "config.json"))
                        ? request.model
                        : open_model(request.model).tokenizer;
  const auto tokenizer = Tokenizer::open(path);
  const std::string prompt = naming("--prompt", [&] { return clean_prompt(request.prompt); });
  const TokenIds tokens = encode_padded(*tokenizer, prompt, request.max_text_tokens);
  const auto length = static_cast<int64_t>(tokens.ids.size());
  std::memcpy(io.output("input_ids", DType::i64, {1, length}).data, tokens.ids.data(), tokens.ids.size() * 8);
  std::memcpy(io.output("attention_mask", DType::i64, {1, length}).data, tokens.mask.data(),
              tokens.mask.size() * 8);
}

void run_sampler(const StageRequest& request, StageIo& io) {
  VideoRequest r;
  r.sampler = request.sampler, r.grid = request.grid, r.steps = request.steps, r.shift = request.shift;
  require(*r.shift > 0 && *r.shift <= 100, "--shift: expected above 0 to 100, got {}", *r.shift);
  naming("--grid", [&] { parse_grid(*r.grid); });
  const Schedule schedule = make_schedule(naming("--sampler", [&] { return sampler_config(r); }));
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
          "--shape: expected 1 to {} numbers, got {}", kMaxDims, request.shape.size());
  int64_t count = 1;
  for (int64_t extent : request.shape) {
    require(extent > 0 && extent <= (int64_t{1} << 32) / count, "--shape: {} is not a sensible size",
            shape_string(request.shape));
    count *= extent;
  }
  require(request.rng == "cpu" || request.rng == "cuda", "--rng: expected cpu or cuda, got '{}'",
          request.rng);
  require(request.rng_multiprocessors >= 1 && request.rng_multiprocessors <= 1024,
          "--rng-multiprocessors: expected 1 to 1024, got {}", request.rng_multiprocessors);
  const Tensor flat = io.output("noise", DType::f32, {count});
  const auto values = std::span(flat.as<float>(), static_cast<size_t>(count));
  if (request.rng == "cuda")
    torch_cuda_normal(request.seed, values, request.rng_multiprocessors);
  else
    torch_cpu_normal(request.seed, values);
  io.reshape_last(request.shape);
}

void run_fit_image(const StageRequest& request, StageIo& io) {
  require(!request.image.empty(), "stage fit-image: --image is needed");
  require(request.shape.size() == 2 && *std::min_element(request.shape.begin(), request.shape.end()) > 0 &&
              *std::max_element(request.shape.begin(), request.shape.end()) <= kMaxImageSide,
          "--shape: expected HEIGHT,WIDTH up to {}, got {}", kMaxImageSide, shape_string(request.shape));
  require(request.image_fit == "stretch" || request.image_fit == "crop",
          "--image-fit: expected stretch or crop, got '{}'", request.image_fit);
  const RgbFrame picture = naming("--image", [&] { return read_image(request.image); });
  const int64_t height = request.shape[0], width = request.shape[1];
  const auto fit = request.image_fit == "crop" ? resize_crop : resize;
  const RgbFrame fitted = fit(picture.view(), static_cast<int>(width), static_cast<int>(height));
  std::memcpy(io.output("image", DType::u8, {height, width, 3}).data, fitted.rgb.data(), fitted.rgb.size());
}

using Runner = void (*)(const StageRequest&, StageIo&);
const std::map<std::string, Runner, std::less<>>& runners() {
  static const std::map<std::string, Runner, std::less<>> map = {
      {"tokenize", run_tokenize},     {"text-encoder", run_text_encoder}, {"transformer", run_transformer},
      {"vae-encode", run_vae_encode}, {"vae-decode", run_vae_decode},     {"sampler", run_sampler},
      {"noise", run_noise},           {"fit-image", run_fit_image}};
  return map;
}

}  // namespace

std::vector<std::string> stage_names() {
  std::vector<std::string> names;
  for (const auto& [name, runner] : runners()) names.push_back(name);
  return names;
}

void run_stage(const StageRequest& request) {
  const auto it = runners().find(request.name);
  if (it == runners().end()) {
    std::string known;
    for (const auto& name : stage_names()) known += (known.empty() ? "" : ", ") + name;
    fail(ErrorCode::invalid_argument, "stage: no stage '{}'; there are {}", request.name, known);
  }
  const bool needs_model =
      request.name != "sampler" && request.name != "noise" && request.name != "fit-image";
  require(!needs_model || !request.model.empty(), "stage {}: --model is needed", request.name);
  require(!request.output.empty(), "stage {}: --out is needed", request.name);
  cuda::check_device_name(request.device);
  StageIo io(request);
  it->second(request, io);
  io.write();
}

}  // namespace tachy
