// The stage of models that make a video block by block: a whole rollout over given noise.
#include <algorithm>
#include <memory>
#include <numeric>

#include "inspect/stage_result.h"
#include "inspect/stage_runners.h"
#include "ops/elementwise/elementwise.h"
#include "pipelines/parts.h"
#include "pipelines/rollout.h"

namespace tachy {
namespace {

constexpr const char* kStage = "stage rollout";

struct Given {
  Tensor noise, fresh, known, condition, text, image;
  WanScript script;
  std::vector<int64_t> blocks;
  std::vector<double> timesteps;
  SamplerConfig sampler;
  WanWindow window;

  int64_t frames() const { return noise.dim(1); }  // to come
  int64_t known_frames() const { return known.defined() ? known.dim(1) : 0; }
};

Tensor perhaps(StageIo& io, const char* name, int rank) {
  return io.has(name) ? io.input(name, rank, rank) : Tensor();
}

std::vector<int64_t> whole_numbers(StageIo& io, const char* name) {
  const Tensor t = io.input(name, 1, 1);
  expect_dtype(kStage, name, t, DType::i64);
  return {t.as<int64_t>(), t.as<int64_t>() + t.numel()};
}

std::vector<double> numbers(StageIo& io, const char* name) {
  const Tensor t = io.input(name, 1, 1);
  expect_dtype(kStage, name, t, DType::f32);
  return {t.as<float>(), t.as<float>() + t.numel()};
}

Given read(const WanConfig& c, StageIo& io) {
  Given in{.noise = io.input("noise", 4, 4),
           .fresh = perhaps(io, "fresh", 5),
           .known = perhaps(io, "given", 4),
           .condition = perhaps(io, "condition", 4),
           .text = c.text_dim > 0 ? io.input("encoder_hidden_states", 2, 2) : Tensor(),
           .image = c.image_dim > 0 ? io.input("encoder_hidden_states_image", 2, 2) : Tensor(),
           .script = {perhaps(io, "keyboard", 2), perhaps(io, "mouse", 2)},
           .blocks = whole_numbers(io, "blocks"),
           .timesteps = numbers(io, "timesteps")};
  in.sampler.kind = SamplerKind::lcm;
  in.sampler.timesteps = in.timesteps, in.sampler.sigmas = numbers(io, "sigmas");
  in.sampler.steps = static_cast<int>(in.timesteps.size());
  const Tensor& x = in.noise;
  const auto steps = static_cast<int64_t>(in.timesteps.size());
  expect_shape(kStage, "noise", x, {c.out_channels, -1, -1, -1});
  if (in.known.defined()) expect_shape(kStage, "given", in.known, {x.dim(0), -1, x.dim(2), x.dim(3)});
  if (steps > 1) expect_shape(kStage, "fresh", in.fresh, {steps - 1, x.dim(0), x.dim(1), x.dim(2), x.dim(3)});
  for (const int64_t n : in.blocks)
    require(n >= 1 && n <= 1 << 20, "{}: blocks: expected at least one latent frame, got {}", kStage, n);
  const int64_t sum = std::accumulate(in.blocks.begin(), in.blocks.end(), int64_t{0});
  require(sum == in.frames() + in.known_frames(), "{}: blocks have {} latent frames, expected {}", kStage,
          sum, in.frames() + in.known_frames());
  const auto window = whole_numbers(io, "window");
  require(window.size() == 3, "{}: window: expected 3 numbers, got {}", kStage, window.size());
  in.window = {.frames = window[0], .sinks = window[1], .sinks_follow = window[2] != 0};
  return in;
}

// Rows at the end that are all zero: the text's padding.
int64_t real_rows(const Tensor& text) {
  int64_t rows = text.dim(0);
  const auto zero = [&](int64_t row) {
    const float* v = text.as<float>() + row * text.dim(1);
    return std::all_of(v, v + text.dim(1), [](float x) { return x == 0; });
  };
  while (rows > 1 && zero(rows - 1)) --rows;
  return rows;
}

// What is added between steps, in the order of its use: blocks, then steps.
std::vector<float> in_order(const Given& in) {
  std::vector<float> out;
  if (!in.fresh.defined()) return out;
  const int64_t plane = in.noise.dim(2) * in.noise.dim(3);
  int64_t first = -in.known_frames();
  for (const int64_t n : in.blocks) {
    for (int64_t step = 0; first >= 0 && step < in.fresh.dim(0); ++step)
      for (int64_t c = 0; c < in.noise.dim(0); ++c) {
        const float* from = in.fresh.select(0, step).select(0, c).as<float>() + first * plane;
        out.insert(out.end(), from, from + n * plane);
      }
    first += n;
  }
  return out;
}

Tensor placed(const Tensor& host, nn::ParamStore& store) {
  if (!store.on_gpu() || !host.defined()) return host;
  const Tensor t = store.allocate(host.dtype, host.shape());
  upload(host.data, t, store.stream());
  return t;
}

}  // namespace

void run_rollout(const StageRequest& request, StageIo& io) {
  TransformerFiles files = naming("`model`", [&] { return open_transformer(request.model); });
  if (request.sinusoid) files.config.sinusoid = parse_sinusoid(*request.sinusoid);
  const Given in = read(files.config, io);
  const Tensor& x = in.noise;
  const auto steps = static_cast<int64_t>(in.timesteps.size());
  const Tensor latents = io.output("latents", DType::f32, {x.dim(0), x.dim(1), x.dim(2), x.dim(3)});
  const Tensor velocities = io.output("velocities", DType::f32, {steps * x.numel()});
  const Sampler sampler(in.sampler);
  run_planned(stage_run(request), [&](Stream& stream, bool plan_only) {
    nn::ParamStore store({.plan_only = plan_only, .pack_weights = request.pack_weights}, stream);
    const auto model = load_component(files.source, "transformer", {}, [&](const Scope& scope) {
      return std::make_unique<WanDit>(scope, files.config, store);
    });
    const Tensor text = in.text.defined() ? in.text.slice(0, 0, real_rows(in.text)) : Tensor();
    CausalDenoiser denoiser({.network = model.get(),
                             .weights = files.source.get(),
                             .timesteps = in.timesteps,
                             .text = placed(text, store),
                             .text_rows = in.text.defined() ? in.text.dim(0) : 0,
                             .image_embeds = placed(in.image, store),
                             .channels = placed(in.condition, store),
                             .window = in.window,
                             .z = x.dim(0),
                             .height = x.dim(2),
                             .width = x.dim(3),
                             .block_lengths = in.blocks},
                            stream);
    const StageResult result(latents, store);
    NoiseSource noise(in_order(in));
    int64_t passed = 0;
    rollout({.sampler = &sampler,
             .blocks = in.blocks,
             .latent_shape = {x.dim(0), x.dim(2), x.dim(3)},
             .given = placed(in.known, store),
             .start = placed(x, store),
             .noise = &noise,
             .script = [&](int64_t) { return in.script; },
             .predicted =
                 [&](const Tensor& v) {
                   if (stream.measuring()) return;
                   download(v, velocities.as<float>() + passed, stream);
                   passed += v.numel();
                 },
             .finished =
                 [&](const Tensor& block, int64_t first) {
                   const int64_t at = first - in.known_frames();
                   ops::copy({.x = block, .y = result.tensor().slice(1, at, at + block.dim(1))}, stream);
                   return true;
                 }},
            denoiser, stream);
    result.fetch(stream);
  });
}

}  // namespace tachy
