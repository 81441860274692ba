// The decoder's chain (names: diffusers' WanDecoder3d):
//   post_quant 1³ → conv_in 3³ → res, attention, res
//   → blocks of res blocks, all but the last with an upsampler → norm, silu, conv_out.
// The affine map from the DiT's latents to the VAE's is part of post_quant_conv: W·(z·std + mean) + b.
#include <algorithm>

#include "models/wan_vae/network.h"
#include "models/wan_vae/wan_vae.h"
#include "ops/elementwise/elementwise.h"

namespace tachy {
namespace {

using namespace wan_vae;

// Computes W' = W·diag(std), b' = W·mean + b.
nn::Linear load_post_quant(const Scope& scope, const VaeConfig& c, bool normalised, nn::ParamStore& store) {
  check(!normalised || !c.latents_mean.empty(), ErrorCode::unsupported,
        "vae: config.json has no latents_mean and latents_std, which normalised latents need");
  const Tensor file_weight = scope.tensor("weight", {c.z_dim, c.z_dim, 1, 1, 1}),
               file_bias = scope.tensor("bias", {c.z_dim});
  std::vector<float> weight(static_cast<size_t>(c.z_dim * c.z_dim)), bias(static_cast<size_t>(c.z_dim));
  const Tensor w(weight.data(), DType::f32, {c.z_dim, c.z_dim}), b(bias.data(), DType::f32, {c.z_dim});
  if (!store.plan_only()) {
    Arena none(0);
    Stream host{.arena = &none, .pool = store.stream().pool};
    ops::widen(file_weight.view({-1}), w.view({-1}), host);
    ops::widen(file_bias, b, host);
    for (int64_t o = 0; o < c.z_dim && normalised; ++o) {
      float* row = weight.data() + o * c.z_dim;
      double sum = bias[static_cast<size_t>(o)];
      for (int64_t i = 0; i < c.z_dim; ++i) {
        sum += static_cast<double>(row[i]) * c.latents_mean[static_cast<size_t>(i)];
        row[i] = static_cast<float>(static_cast<double>(row[i]) * c.latents_std[static_cast<size_t>(i)]);
      }
      bias[static_cast<size_t>(o)] = static_cast<float>(sum);
    }
  }
  return nn::Linear::from_host(scope, w, b, store);
}

void add_blocks(Network& net, const Scope& blocks, const VaeConfig& c, int64_t channels) {
  const int64_t last = c.levels() - 1;
  for (int64_t i = 0; i <= last; ++i) {
    const Scope block = blocks.sub(i);
    const int64_t out = c.decoder_base_dim * c.dim_mult[static_cast<size_t>(last - i)];
    const int64_t block_in = channels;
    const bool up = i < last, in_time = up && c.temporal_downsample[static_cast<size_t>(last - 1 - i)];
    const int saved = c.is_residual && up ? net.save() : -1;
    for (int64_t r = 0; r <= c.num_res_blocks; ++r) {
      net.res_block(net.at(block.sub("resnets").sub(r)), channels, out);
      channels = out;
    }
    if (!up) continue;
    const Scope upsampler = c.is_residual ? block.sub("upsampler") : block.sub("upsamplers").sub(0);
    channels = c.is_residual ? out : out / 2;
    net.change(make_upsample(net.at(upsampler), out, channels, in_time), channels, 1, in_time);
    if (saved >= 0) net.add_saved(saved, make_add_duplicated(saved, {block_in, out, in_time ? 2 : 1, 2}));
  }
}

std::unique_ptr<Network> build(const Scope& root, const VaeConfig& c, const VaeDecoderOptions& options,
                               Stream& stream) {
  c.validate();
  nn::ParamStore store({.twin = options.twin}, stream);
  auto net = std::make_unique<Network>(Network::Direction::up, store);
  const Scope scope = root.sub("decoder"), middle = scope.sub("mid_block");
  const int64_t widest = c.decoder_base_dim * c.dim_mult.back();
  net->change(make_pointwise(load_post_quant(root.sub("post_quant_conv"), c, options.normalised, store)),
              c.z_dim);
  net->change(make_conv(net->at(scope.sub("conv_in")), c.z_dim, widest), widest);
  net->res_block(net->at(middle.sub("resnets").sub(0)), widest, widest);
  net->keep_shape(make_attention(net->at(middle.sub("attentions").sub(0)), widest));
  net->res_block(net->at(middle.sub("resnets").sub(1)), widest, widest);
  add_blocks(*net, scope.sub("up_blocks"), c, widest);
  const int64_t narrow = c.decoder_base_dim * c.dim_mult.front();
  const Tensor gamma = net->at(scope).vector("norm_out.gamma", {narrow, 1, 1, 1});
  net->change(make_head(gamma, CausalConv(net->at(scope.sub("conv_out")), narrow, c.out_channels)),
              c.out_channels);
  net->finish(root, 1);
  return net;
}

// Rearranges x [n, h, w, c·p²] → y [n, h·p, w·p, c]; in a channel, the horizontal offset is the slower index.
void unpatchify(const Tensor& x, const Tensor& y, int64_t p, Stream& stream) {
  const int64_t n = x.dim(0), h = x.dim(1), w = x.dim(2), c = y.dim(3);
  Tensor target(y.data, y.dtype, {n, h, w, c, p, p}, y.device);
  const int64_t strides[] = {y.strides[0], p * y.strides[1], p * y.strides[2], 1, y.strides[2], y.strides[1]};
  std::copy(std::begin(strides), std::end(strides), target.strides);
  ops::copy({.x = x.view({n, h, w, c, p, p}), .y = target}, stream);
}

// Neighbours write rows into a state's memory, so it must be there until the last of them have come, even where a rank
// ends by an error or because it was stopped. What the rank has queued waits for them.
struct Awaited {
  const VaeState& state;
  Stream& stream;
  ~Awaited() {
    if (!stream.memory || stream.measuring() || !state.bands.has_mail()) return;
    try {
      stream.memory->synchronize();
    } catch (const Error&) {  // the device has failed, and an error is under way
    }
  }
};

}  // namespace

VaeDecoder::VaeDecoder(const Scope& scope, const VaeConfig& config, const VaeDecoderOptions& options,
                       Stream& stream)
    : config_(config), network_(build(scope, config, options, stream)) {}
VaeDecoder::~VaeDecoder() = default;
VaeDecoder::VaeDecoder(VaeDecoder&&) noexcept = default;
VaeDecoder& VaeDecoder::operator=(VaeDecoder&&) noexcept = default;

std::string VaeDecoder::not_finite(int64_t first) {
  return fmt::format(
      "vae decode: frames from {} on hold NaN or Inf; the latents or the VAE's weights are broken", first);
}

size_t VaeDecoder::buffer_bytes() const { return network_->buffer_bytes(); }
const std::shared_ptr<const nn::KeptParams>& VaeDecoder::memory() const { return network_->memory(); }

size_t VaeDecoder::state_bytes(int64_t h, int64_t w, int64_t latent_frames, int ranks) const {
  return network_->state_bytes(h, w, latent_frames == 1, ranks);
}

VaeState VaeDecoder::make_state(int64_t h, int64_t w, int64_t latent_frames, const Stream& stream,
                                runtime::Comm* comm, int64_t chunk) const {
  return network_->make_state(h, w, latent_frames == 1, stream, {comm, network_->units(h)}, chunk);
}

// Checks what the network has made, and makes frames of it; on rank 0 whole ones. The others get nothing.
Tensor VaeDecoder::whole_frames(const VaeState& state, const Tensor& out, int64_t first,
                                Stream& stream) const {
  const runtime::Bands& bands = state.bands;
  Tensor own = out;
  if (bands.divided()) {
    const Tensor rows = bands.own(out);
    own = stream.arena->tensor(out.dtype, rows.shape());
    ops::copy({.x = rows, .y = own}, stream);
  }
  const auto look_at = [&](const Tensor& made) {
    if (state.mark.defined())
      ops::mark_nonfinite(made, state.mark, stream);
    else
      check(ops::all_finite(made, stream), ErrorCode::numerical, "{}", not_finite(first));
    ops::clamp(made, -1, 1, stream);
  };
  // The first rank's mark is for all rows, so the first rank sets it, when it has them.
  const bool later = bands.divided() && state.mark.defined();
  if (!later) look_at(own);
  const int64_t p = config_.patch_size, c = config_.image_channels();
  Tensor frames = own;
  if (p > 1) {
    frames = stream.arena->tensor(own.dtype, {own.dim(0), own.dim(1) * p, own.dim(2) * p, c});
    unpatchify(own, frames, p, stream);
  }
  if (!bands.divided()) return frames;
  Tensor whole(nullptr, frames.dtype,
               {frames.dim(0), state.height * config_.spatial_stride(), frames.dim(2), c});
  if (bands.first()) whole = stream.arena->tensor(whole.dtype, whole.shape());
  bands.line_up(stream);
  const ProfileRange range(stream.hooks.profiler, "rows to the first rank", ProfileKind::other);
  bands.collect(frames, whole, stream);
  if (!bands.first()) return Tensor();
  if (later) look_at(whole);
  return whole;
}

void VaeDecoder::decode_chunk(VaeState& state, const Tensor& latents, const Sink& sink,
                              Stream& stream) const {
  expect_shape("vae decode", "latents", latents, {config_.z_dim, -1, state.height, state.width});
  expect_dtype("vae decode", "latents", latents, DType::f32);
  stream.throw_if_cancelled();
  const int64_t n = latents.dim(1);
  const int64_t first = state.next_frame == 0 ? 0 : config_.pixel_frames(state.next_frame);
  ArenaScope scope(*stream.arena);
  const Tensor out = stream.arena->tensor(stream.precision.activation, network_->output_dims(state, n));
  {
    ArenaScope input_scope(*stream.arena);
    const Tensor input = stream.arena->tensor(
        stream.precision.activation, {n, state.bands.held(state.height), state.width, config_.z_dim});
    state.bands.line_up(stream);
    if (state.bands.divided()) {
      const ProfileRange range(stream.hooks.profiler, "rows of latents", ProfileKind::other);
      state.bands.hand_out(channels_last_view(latents), input, stream);
    } else {
      ops::copy({.x = channels_last_view(latents), .y = input}, stream);
    }
    network_->run(input, out, state, stream);
  }
  const ProfileRange range(stream.hooks.profiler, "check, clamp", ProfileKind::elementwise);
  const Tensor frames = whole_frames(state, out, first, stream);
  if (sink && frames.defined()) sink(frames, first);
}

void VaeDecoder::decode(const Tensor& latents, const Sink& sink, Stream& stream, int64_t chunk,
                        runtime::Comm* comm, const Tensor& mark) const {
  expect_shape("vae decode", "latents", latents, {config_.z_dim, -1, -1, -1});
  const int64_t total = latents.dim(1);
  require(total >= 1 && latents.dim(2) >= 1 && latents.dim(3) >= 1, "vae decode: empty latents {}",
          shape_string(latents));
  require(chunk >= 1, "vae decode: expected chunks of at least 1 latent frame, got {}", chunk);
  VaeState state = make_state(latents.dim(2), latents.dim(3), total, stream, comm, chunk);
  const Awaited rows{state, stream};
  state.mark = mark;
  decode_block(state, latents, sink, stream, chunk);
  if (state.bands.divided() && mark.defined() && !stream.measuring()) stream.memory->synchronize();
}

void VaeDecoder::decode_block(VaeState& state, const Tensor& latents, const Sink& sink, Stream& stream,
                              int64_t chunk) const {
  const int64_t total = latents.dim(1);
  for (int64_t t = 0; t < total;) {
    const int64_t end = std::min(total, t + std::min(chunk, state.next_frame + 1));
    decode_chunk(state, latents.slice(1, t, end), sink, stream);
    t = end;
  }
}

}  // namespace tachy
