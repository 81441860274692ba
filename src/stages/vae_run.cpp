#include "stages/vae_run.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "catalog/model_bundle.h"
#include "models/wan_vae/wan_vae.h"
#include "nn/params.h"
#include "session/stage_clock.h"
#include "session/vae_math.h"
#include "stages/decode_stage.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// Converts bytes to the network's values, as diffusers' VideoProcessor does: 2 (v / 255) - 1 in float32.
void to_floats(std::span<const uint8_t> rgb, float* out) {
  for (size_t i = 0; i < rgb.size(); ++i) out[i] = 2.0f * (static_cast<float>(rgb[i]) / 255.0f) - 1.0f;
}

// Sets the VAE's products, whatever the level says about those of a transformer.
void choose_products(Stream& stream, const std::string& vae_math, const VaeConfig& config) {
  stream.precision.products = vae_products(vae_math, config, stream.precision, stream.gpu);
}

}  // namespace

struct VaeRun::State {
  VaeFiles files;
  VaeRunOptions options;
};

VaeRun::VaeRun(const std::filesystem::path& model, VaeRunOptions options)
    : state_(std::make_unique<State>(State{open_vae(model), std::move(options)})) {}
VaeRun::~VaeRun() = default;

const VaeConfig& VaeRun::config() const { return state_->files.config; }
std::string VaeRun::kind() const { return config().is_residual ? "wan2.2" : "wan2.1"; }

VaeRun::Latents VaeRun::encode(const Clip& clip, const NextFrame& next) const {
  const VaeConfig& c = config();
  const int64_t s = c.spatial_stride();
  check(clip.frames >= 1 && (clip.frames - 1) % c.temporal_stride() == 0 && clip.height >= s &&
            clip.width >= s && clip.height % s == 0 && clip.width % s == 0,
        ErrorCode::internal, "vae: a clip of {} frames of {}x{}", clip.frames, clip.width, clip.height);
  Latents out{.values = {},
              .shape = {c.z_dim, c.latent_frames(clip.frames), clip.height / s, clip.width / s}};
  const VideoCallbacks callbacks{.progress = state_->options.progress};
  run_planned(state_->options.run, [&](Stream& stream) {
    choose_products(stream, state_->options.vae_math, config());
    const auto vae = load_component(
        state_->files.source, "vae", {"decoder.", "post_quant_conv."},
        [&](const Scope& scope) {
          const VaeEncoderOptions how{.normalised = !state_->options.raw, .logvar = false};
          return std::make_unique<VaeEncoder>(scope, c, how, stream);
        },
        stream.measuring());
    nn::ParamStore store({}, stream);
    const Tensor mean = store.allocate(DType::f32, std::span<const int64_t>(out.shape));
    const ArenaScope scope(*stream.arena);
    const Tensor chunk =
        stream.arena->f32({std::min(clip.frames, VaeEncoder::kChunkFrames), clip.height, clip.width, 3});
    std::vector<uint8_t> rgb(stream.measuring() ? 0 : static_cast<size_t>(clip.height * clip.width * 3));
    std::vector<float> pixels(rgb.size());
    std::optional<StageClock> clock;
    if (!stream.measuring()) clock.emplace(&callbacks, "encode", clip.frames);
    const auto source = [&](int64_t first, int64_t count) {
      const Tensor part = chunk.slice(0, 0, count);
      if (stream.measuring()) return part;
      clock->done(first);
      for (int64_t i = 0; i < count; ++i) {
        stream.throw_if_cancelled();
        next(rgb);
        to_floats(rgb, pixels.data());
        upload(pixels.data(), part.select(0, i), stream);
      }
      return part;
    };
    vae->encode({clip.frames, clip.height, clip.width}, source, mean, Tensor(), stream);
    if (stream.measuring()) return;
    out.values.resize(static_cast<size_t>(mean.numel()));
    download(mean, out.values.data(), stream);
    clock->done(clip.frames);
  });
  return out;
}

void VaeRun::check_latents(std::span<const float> values, std::span<const int64_t> shape) const {
  const VaeConfig& c = config();
  require(shape.size() == 4, "latents: expected [z, T, h, w], got {} dims", shape.size());
  require(
      shape[0] == c.z_dim,
      "latents: they have {} channels, but the VAE of `model` ({}) has {}; give the model that they are for",
      shape[0], kind(), c.z_dim);
  int64_t count = 1;
  for (const int64_t extent : shape) {
    require(extent >= 1 && extent <= 1 << 20, "latents: a dimension of {} is too small or too large", extent);
    count *= extent;
  }
  require(values.size() == static_cast<size_t>(count), "latents: {} values, {} expected", values.size(),
          count);
  check(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }),
        ErrorCode::corrupt, "latents: they hold NaN or Inf");
}

void VaeRun::decode(std::span<const float> values, std::span<const int64_t> shape, const Frame& frame) const {
  check_latents(values, shape);
  const VideoCallbacks callbacks{.progress = state_->options.progress, .frame = frame};
  const Tensor host(const_cast<float*>(values.data()), DType::f32, shape);
  run_planned(state_->options.run, [&](Stream& stream) {
    choose_products(stream, state_->options.vae_math, config());
    const auto vae = load_component(
        state_->files.source, "vae", {"encoder.", "quant_conv."},
        [&](const Scope& scope) {
          const VaeDecoderOptions how{.normalised = !state_->options.raw};
          return std::make_unique<VaeDecoder>(scope, config(), how, stream);
        },
        stream.measuring());
    nn::ParamStore store({}, stream);
    const Tensor latents = store.on_gpu() ? store.allocate(DType::f32, host.shape()) : host;
    if (store.on_gpu() && !stream.measuring()) upload(values.data(), latents, stream);
    decode_frames(*vae, latents, &callbacks, stream);
  });
}

}  // namespace tachy
