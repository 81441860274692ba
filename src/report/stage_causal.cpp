// The stage of models that make a video block by block: a whole rollout over given noise.
#include <algorithm>
#include <numeric>

#include "report/causal_roll.h"
#include "report/stage_result.h"
#include "report/stage_runners.h"

namespace tachy {
namespace {

constexpr const char* kStage = "stage rollout";

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

CausalInputs read(const WanConfig& c, StageIo& io) {
  CausalInputs in{.noise = io.input("noise", 4, 4),
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

// Returns the number of rows before the text's padding, which are rows of zeros at the end.
int64_t rows_before_zeros(const Tensor& text) {
  int64_t rows = text.dim(0);
  const auto zero = [&](int64_t row) {
    const float* v = text.as<float>() + row * text.dim(1);
    return std::all_of(v, v + text.dim(1), [](float x) { return x == 0; });
  };
  while (rows > 1 && zero(rows - 1)) --rows;
  return rows;
}

}  // namespace

void run_rollout(const StageRequest& request, StageIo& io) {
  TransformerFiles files = naming("`model`", [&] { return open_transformer(request.model); });
  if (request.sinusoid) files.config.sinusoid = parse_sinusoid(*request.sinusoid);
  CausalInputs in = read(files.config, io);
  if (in.text.defined()) {
    in.text_rows = in.text.dim(0);
    in.text = in.text.slice(0, 0, rows_before_zeros(in.text));
  }
  const Tensor& x = in.noise;
  const auto steps = static_cast<int64_t>(in.timesteps.size());
  const Tensor latents = io.output("latents", DType::f32, {x.dim(0), x.dim(1), x.dim(2), x.dim(3)});
  const Tensor velocities = io.output("velocities", DType::f32, {steps * x.numel()});
  roll_out(files, in, request.pack_weights, stage_run(request), latents, velocities.as<float>());
}

}  // namespace tachy
