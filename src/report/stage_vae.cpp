// The stages that run a VAE, on the device that was asked for.
#include "models/wan_vae/wan_vae.h"
#include "ops/elementwise/elementwise.h"
#include "report/stage_result.h"
#include "report/stage_runners.h"
#include "session/parts.h"
#include "session/single_run.h"

namespace tachy {
namespace {

VaeFiles vae_of(const StageRequest& request) {
  return part_of<VaeFiles>(request, open_vae, [](const ModelBundle& m) {
    return VaeFiles{m.vae, m.vae_config};
  });
}

}  // namespace

void run_vae_encode(const StageRequest& request, StageIo& io) {
  const VaeFiles files = vae_of(request);
  const VaeConfig& c = files.config;
  const Tensor video = io.input("video", 5, 5);
  expect_shape("stage vae-encode", "video", video, {-1, c.image_channels(), -1, -1, -1});
  const int64_t batch = video.dim(0), frames = c.latent_frames(video.dim(2)), s = c.spatial_stride();
  require(video.dim(3) % s == 0 && video.dim(4) % s == 0,
          "stage vae-encode: {}x{} pixels are not a multiple of {}", video.dim(4), video.dim(3), s);
  const int64_t h = video.dim(3) / s, w = video.dim(4) / s;
  const Tensor mean = io.output("mean", DType::f32, {batch, c.z_dim, frames, h, w});
  const Tensor logvar = io.output("logvar", DType::f32, {batch, c.z_dim, frames, h, w});
  run_planned(stage_run(request), [&](Stream& stream) {
    stream.precision.products = Products::as_activations;  // a level's 8 bits are only for a transformer
    const auto model =
        load_component(files.source, "vae", {"decoder.", "post_quant_conv."}, [&](const Scope& scope) {
          return std::make_unique<VaeEncoder>(scope, c, VaeEncoderOptions{}, stream);
        });
    nn::ParamStore store({}, stream);
    const Tensor frames_in = where_it_computes(video, store);
    const StageResult means(mean, store), logvars(logvar, store);
    for (int64_t b = 0; b < batch; ++b)
      model->encode(channels_last_view(frames_in.select(0, b)), means.tensor().select(0, b),
                    logvars.tensor().select(0, b), stream);
    means.fetch(stream), logvars.fetch(stream);
  });
}

void run_vae_decode(const StageRequest& request, StageIo& io) {
  const VaeFiles files = vae_of(request);
  const VaeConfig& c = files.config;
  const Tensor latents = io.input("latents", 5, 5);
  expect_shape("stage vae-decode", "latents", latents, {-1, c.z_dim, -1, -1, -1});
  const int64_t batch = latents.dim(0), frames = c.pixel_frames(latents.dim(2)), s = c.spatial_stride();
  const Tensor decoded = io.output(
      "decoded", DType::f32, {batch, c.image_channels(), frames, latents.dim(3) * s, latents.dim(4) * s});
  run_planned(stage_run(request), [&](Stream& stream) {
    stream.precision.products = Products::as_activations;  // a level's 8 bits are only for a transformer
    const auto model =
        load_component(files.source, "vae", {"encoder.", "quant_conv."}, [&](const Scope& scope) {
          return std::make_unique<VaeDecoder>(scope, c, VaeDecoderOptions{.normalised = false}, stream);
        });
    nn::ParamStore store({}, stream);
    const Tensor z = where_it_computes(latents, store);
    const StageResult result(decoded, store);
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

}  // namespace tachy
