// A rollout (denoise/rollout.h) of a golden causal model. It goes over the golden noise, or over any number
// of blocks of drawn noise, on the CPU, on a test's device or on a GPU, in any precision.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "../models/wan_causal_case.h"
#include "cuda/gpu.h"
#include "denoise/causal_denoiser.h"
#include "denoise/noise_source.h"
#include "denoise/rollout.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy::test {

struct RolloutPlace {
  cuda::Gpu* gpu = nullptr;
  DeviceMemory* memory = nullptr;  // that of the GPU, or a test's device
  Precision precision = {};
  bool graphs = false;
  int64_t drawn_blocks = 0;  // 0: the golden case's own blocks and noise
  // Makes the denoiser; empty: a CausalDenoiser.
  std::function<std::unique_ptr<BlockDenoiser>(const CausalInput& in, Stream& stream)> make = {};
};

struct LongRollout {
  std::vector<float> latents;     // [z, T, h, w]
  std::vector<float> velocities;  // velocities of each pass of a step, one after the other
  int captures = 0;
  std::vector<std::string> captured;  // nodes of all graphs
  bool peak_as_planned = false;
};

// Returns the noise that is added between steps, in the order of its use.
inline std::vector<float> fresh_in_order(const WanCausalCase& c) {
  std::vector<float> out;
  int64_t first = 0;
  for (const int64_t n : c.blocks) {
    for (size_t i = 0; i + 1 < c.timesteps.size(); ++i) {
      const auto part =
          WanCausalCase::frames_of(c.golden["fresh"].select(0, static_cast<int64_t>(i)), first, n);
      out.insert(out.end(), part.begin(), part.end());
    }
    first += n;
  }
  return out;
}

// Keys and a mouse that change with every pixel frame.
struct LongScript {
  LongScript(const WanActionConfig& a, int64_t latent_frames) : frames(1 + 4 * latent_frames), c(a) {
    if (!a.present()) return;
    keys.resize(static_cast<size_t>(frames * a.keyboard_dim)), mouse.resize(frames * a.mouse_dim);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = (i * 7 + i / 13) % 5 == 0 ? 1.0f : 0.0f;
    for (size_t i = 0; i < mouse.size(); ++i) mouse[i] = 0.1f * static_cast<float>(std::sin(0.7 * i));
  }
  WanScript script() {
    WanScript out;
    if (!keys.empty()) out.keyboard = Tensor(keys.data(), DType::f32, {frames, c.keyboard_dim});
    if (!mouse.empty()) out.mouse = Tensor(mouse.data(), DType::f32, {frames, c.mouse_dim});
    return out;
  }
  int64_t frames;
  WanActionConfig c;
  std::vector<float> keys, mouse;
};

// Runs the whole rollout, first in a measure run, then in an arena of the measured size.
inline LongRollout roll_long(const WanCausalCase& c, const RolloutPlace& place) {
  LongRollout out;
  const Tensor noise = c.golden["noise"];
  const bool drawn = place.drawn_blocks > 0;
  std::vector<int64_t> blocks = c.blocks;
  if (drawn) blocks.assign(static_cast<size_t>(place.drawn_blocks), c.blocks[0]);
  int64_t frames = 0;
  for (const int64_t n : blocks) frames += n;
  LongScript script(c.config.actions, frames);
  const int64_t plane = noise.dim(2) * noise.dim(3);
  out.latents.assign(static_cast<size_t>(noise.dim(0) * frames * plane), NAN);
  SamplerConfig config{.kind = SamplerKind::lcm, .steps = static_cast<int>(c.timesteps.size())};
  config.sigmas = c.sigmas, config.timesteps = c.timesteps;
  const Sampler sampler(config);
  const auto body = [&](Stream& stream, nn::ParamStore& store) {
    const auto placed = [&](const Tensor& host) {
      if (!store.on_gpu()) return host;
      const Tensor t = store.allocate(host.dtype, host.shape());
      upload(host.data, t, stream);
      return t;
    };
    const auto model = c.load(store);
    const bool text = c.config.text_dim > 0;
    const Tensor context = placed(c.golden["context"]);
    const CausalInput in{.network = model.get(),
                         .weights = c.weights.get(),
                         .timesteps = c.timesteps,
                         .text = text ? context : Tensor(),
                         .text_rows = std::stoll(c.text("context_rows")),
                         .image_embeds = text ? Tensor() : context,
                         .channels = c.golden.has("condition") ? placed(c.golden["condition"]) : Tensor(),
                         .window = c.window,
                         .z = noise.dim(0),
                         .height = noise.dim(2),
                         .width = noise.dim(3),
                         .block_lengths = blocks,
                         .graphs = place.graphs};
    const std::unique_ptr<BlockDenoiser> denoiser =
        place.make ? place.make(in, stream) : std::make_unique<CausalDenoiser>(in, stream);
    VideoRequest seeded;
    seeded.seed = 11;
    std::optional<NoiseSource> source;
    if (drawn)
      source.emplace(seeded);
    else
      source.emplace(fresh_in_order(c));
    const auto keep = [&](const Tensor& t, std::vector<float>& to, size_t at) {
      if (to.size() < at + static_cast<size_t>(t.numel())) to.resize(at + static_cast<size_t>(t.numel()));
      download(t, to.data() + at, stream);
    };
    rollout({.sampler = &sampler,
             .blocks = blocks,
             .latent_shape = {noise.dim(0), noise.dim(2), noise.dim(3)},
             .start = drawn ? Tensor() : placed(noise),
             .noise = &*source,
             .script = [&](int64_t) { return drawn ? script.script() : c.script(); },
             .predicted =
                 [&](const Tensor& v) {
                   if (!stream.measuring() && !drawn) keep(v, out.velocities, out.velocities.size());
                 },
             .finished =
                 [&](const Tensor& block, int64_t first) {
                   if (stream.measuring()) return true;
                   std::vector<float> values(static_cast<size_t>(block.numel()));
                   download(block, values.data(), stream);
                   const int64_t size = block.dim(1) * plane;
                   for (int64_t z = 0; z < block.dim(0); ++z)
                     std::copy_n(values.begin() + z * size, size,
                                 out.latents.begin() + (z * frames + first) * plane);
                   return true;
                 }},
            *denoiser, stream);
    const auto* alone = dynamic_cast<const CausalDenoiser*>(denoiser.get());
    if (alone) out.captures = alone->captures(), out.captured = alone->captured();
  };
  ThreadPool pool(2);
  Arena measure;
  Stream stream{.arena = &measure,
                .pool = &pool,
                .gpu = place.gpu,
                .memory = place.memory,
                .precision = place.precision};
  nn::ParamStore planned({.plan_only = true}, stream);
  body(stream, planned);
  Arena arena(std::max<size_t>(measure.peak(), 1), place.memory);
  stream.arena = &arena;
  nn::ParamStore store({.plan_only = false}, stream);
  body(stream, store);
  if (place.gpu) place.gpu->synchronize();
  out.peak_as_planned = arena.peak() == measure.peak() && planned.bytes() == store.bytes();
  return out;
}

struct RolloutError {
  double max = 0, mean = 0;  // relative to the largest value
};
// `want` has the golden values, either [z, T, h, w] or those of each pass in order.
inline RolloutError rollout_error(const std::vector<float>& got, const Tensor& want) {
  double off = 0, sum = 0, most = 0;
  if (static_cast<int64_t>(got.size()) != want.numel()) return {INFINITY, INFINITY};
  for (size_t i = 0; i < got.size(); ++i) {
    const double r = want.as<float>()[i], e = std::abs(double{got[i]} - r);
    off = std::isfinite(got[i]) ? std::max(off, e) : INFINITY;
    sum += e, most = std::max(most, std::abs(r));
  }
  return {off / most, sum / static_cast<double>(got.size()) / most};
}

}  // namespace tachy::test
