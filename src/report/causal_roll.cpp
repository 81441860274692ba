#include "report/causal_roll.h"

#include <memory>

#include "denoise/noise_source.h"
#include "denoise/rollout.h"
#include "ops/elementwise/elementwise.h"
#include "report/stage_result.h"
#include "session/parts.h"

namespace tachy {
namespace {

// The noise that is added between steps, in the order of its use: blocks, then steps.
std::vector<float> in_order(const CausalInputs& in) {
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

void roll_out(const TransformerFiles& files, const CausalInputs& in, bool pack_weights, const SingleRun& how,
              const Tensor& latents, float* velocities) {
  const Tensor& x = in.noise;
  const Sampler sampler(in.sampler);
  run_planned(how, [&](Stream& stream) {
    nn::ParamStore store({.pack_weights = pack_weights}, stream);
    const auto model = load_component(files.source, "transformer", {}, [&](const Scope& scope) {
      return std::make_unique<WanDit>(scope, files.config, store);
    });
    CausalDenoiser denoiser({.network = model.get(),
                             .weights = files.source.get(),
                             .timesteps = in.timesteps,
                             .text = placed(in.text, store),
                             .text_rows = in.text_rows,
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
                   download(v, velocities + passed, stream);
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
