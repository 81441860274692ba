// The encoder's chain (names: diffusers' WanEncoder3d):
//   conv_in 3³ → levels of res blocks, each but the last with a downsampler → res, attention, res →
//   norm, silu, conv_out, quant 1³.
// quant_conv and, if requested, the map to the DiT's latents are folded into conv_out, since nothing between
// them is nonlinear.
#include <algorithm>

#include "models/wan_vae/network.h"
#include "models/wan_vae/wan_vae.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

using namespace wan_vae;

void add_levels(Network& net, const Scope& blocks, const VaeConfig& c) {
  const int64_t last = c.levels() - 1;
  int64_t channels = c.base_dim, flat = 0;  // in Wan2.1 all blocks are in one flat list
  for (int64_t i = 0; i <= last; ++i) {
    const auto level = static_cast<size_t>(i);
    const Scope block = blocks.sub(i);
    const int64_t out = c.base_dim * c.dim_mult[level], block_in = channels;
    const bool down = i < last, in_time = down && c.temporal_downsample[level];
    const int saved = c.is_residual ? net.save() : -1;
    for (int64_t r = 0; r < c.num_res_blocks; ++r) {
      net.res_block(net.at(c.is_residual ? block.sub("resnets").sub(r) : blocks.sub(flat++)), channels, out);
      channels = out;
    }
    if (down) {
      const Scope downsampler = c.is_residual ? block.sub("downsampler") : blocks.sub(flat++);
      net.change(make_downsample(net.at(downsampler), out, in_time), out, 1, in_time);
    }
    if (saved >= 0)
      net.add_saved(saved, make_add_averaged(saved, {block_in, out, in_time ? 2 : 1, down ? 2 : 1}));
  }
}

// Computes W' = S·Wq·W_out, b' = S·(Wq·b_out + bq − m). If normalised, S = 1/std and m = mean on the first z
// rows.
CausalConv load_folded_head(Network& net, const Scope& root, const VaeConfig& c,
                            const VaeEncoderOptions& options) {
  const Loader at = net.at(root);
  Stream& stream = at.store.stream();
  const int64_t moments = 2 * c.z_dim, rows = options.logvar ? moments : c.z_dim;
  const int64_t channels = c.base_dim * c.dim_mult.back(), taps = channels * 27;
  const Tensor file_head = root.tensor("encoder.conv_out.weight", {moments, channels, 3, 3, 3});
  const Tensor file_quant = root.tensor("quant_conv.weight", {moments, moments, 1, 1, 1});
  const Tensor file_head_bias = root.tensor("encoder.conv_out.bias", {moments});
  const Tensor file_quant_bias = root.tensor("quant_conv.bias", {moments});
  const Tensor bias = at.store.allocate(DType::f32, {rows});
  const CausalConv conv(at, channels, rows, bias);

  make_on_host(stream, {bias}, [&](Stream& host, std::span<const Tensor> made) {
    ArenaScope scope(*host.arena);
    const auto wide = [&](const Tensor& from) {
      const Tensor out = host.arena->tensor(DType::f32, from.shape());
      ops::widen(from, out, host);
      return out;
    };
    const Tensor head = wide(file_head), quant = wide(file_quant), head_bias = wide(file_head_bias),
                 quant_bias = wide(file_quant_bias);
    const Tensor folded = host.arena->f32({rows, channels, 3, 3, 3});
    if (!host.measuring())
      host.pool->run(rows, [&](int64_t o, int) {
        const bool scaled = options.normalised && o < c.z_dim;
        const double scale = scaled ? 1.0 / c.latents_std[static_cast<size_t>(o)] : 1.0;
        double shift = quant_bias.as<float>()[o] - (scaled ? c.latents_mean[static_cast<size_t>(o)] : 0.0);
        std::vector<double> sum(static_cast<size_t>(taps), 0.0);
        for (int64_t i = 0; i < moments; ++i) {
          const double q = quant.as<float>()[o * moments + i];
          const float* row = head.as<float>() + i * taps;
          for (int64_t k = 0; k < taps; ++k) sum[static_cast<size_t>(k)] += q * row[k];
          shift += q * head_bias.as<float>()[i];
        }
        float* to = folded.as<float>() + o * taps;
        for (int64_t k = 0; k < taps; ++k) to[k] = static_cast<float>(sum[static_cast<size_t>(k)] * scale);
        made[0].as<float>()[o] = static_cast<float>(shift * scale);
      });
    if (host.measuring() == stream.measuring()) conv.pack(folded, stream);
  });
  return conv;
}

std::unique_ptr<Network> build(const Scope& root, const VaeConfig& c, const VaeEncoderOptions& options,
                               Stream& stream) {
  c.validate();
  check(!options.normalised || !c.latents_mean.empty(), ErrorCode::unsupported,
        "vae: config.json has no latents_mean and latents_std, which normalised latents need");
  nn::ParamStore store({}, stream);
  auto net = std::make_unique<Network>(Network::Direction::down, store);
  const Scope scope = root.sub("encoder"), middle = scope.sub("mid_block");
  const int64_t widest = c.base_dim * c.dim_mult.back();
  net->change(make_conv(net->at(scope.sub("conv_in")), c.in_channels, c.base_dim), c.base_dim);
  add_levels(*net, scope.sub("down_blocks"), c);
  net->res_block(net->at(middle.sub("resnets").sub(0)), widest, widest);
  net->keep_shape(make_attention(net->at(middle.sub("attentions").sub(0)), widest));
  net->res_block(net->at(middle.sub("resnets").sub(1)), widest, widest);
  const Tensor gamma = net->at(scope).vector("norm_out.gamma", {widest, 1, 1, 1});
  net->change(make_head(gamma, load_folded_head(*net, root, c, options)),
              options.logvar ? 2 * c.z_dim : c.z_dim);
  net->finish(root, c.temporal_stride());
  return net;
}

// Rearranges x [n, h·p, w·p, c] with any strides → y [n, h, w, c·p²]; in a channel, the horizontal offset is
// the slower index.
void patchify(const Tensor& x, const Tensor& y, int64_t p, Stream& stream) {
  const int64_t n = y.dim(0), h = y.dim(1), w = y.dim(2), c = x.dim(3);
  Tensor source(x.data, x.dtype, {n, h, w, c, p, p}, x.device);
  const int64_t strides[] = {x.strides[0], p * x.strides[1], p * x.strides[2],
                             x.strides[3], x.strides[2],     x.strides[1]};
  std::copy(std::begin(strides), std::end(strides), source.strides);
  ops::copy({.x = source, .y = y.view({n, h, w, c, p, p})}, stream);
}

}  // namespace

VaeEncoder::VaeEncoder(const Scope& scope, const VaeConfig& config, const VaeEncoderOptions& options,
                       Stream& stream)
    : config_(config), logvar_(options.logvar), network_(build(scope, config, options, stream)) {}
VaeEncoder::~VaeEncoder() = default;
VaeEncoder::VaeEncoder(VaeEncoder&&) noexcept = default;
VaeEncoder& VaeEncoder::operator=(VaeEncoder&&) noexcept = default;

size_t VaeEncoder::buffer_bytes() const { return network_->buffer_bytes(); }

size_t VaeEncoder::state_bytes(int64_t height, int64_t width, int64_t frames, int ranks) const {
  return network_->state_bytes(height / config_.patch_size, width / config_.patch_size,
                               frames < 1 + kChunkFrames, ranks);
}

void VaeEncoder::encode(const Tensor& video, const Tensor& mean, const Tensor& logvar, Stream& stream) const {
  expect_shape("vae encode", "video", video, {-1, -1, -1, -1});
  encode(
      {video.dim(0), video.dim(1), video.dim(2)},
      [&](int64_t first, int64_t count) { return video.slice(0, first, first + count); }, mean, logvar,
      stream);
}

void VaeEncoder::check_moments(const Size& size, const Tensor& mean, const Tensor& logvar) const {
  const char* op = "vae encode";
  const int64_t stride = config_.spatial_stride();
  const auto [frames, height, width] = size;
  for (const Tensor* moment : {&mean, &logvar}) {
    if (moment == &logvar && !logvar_ && !logvar.defined()) continue;
    require(moment == &mean || logvar_, "vae encode: logvar was excluded when the encoder was made");
    expect_shape(op, moment == &mean ? "mean" : "logvar", *moment,
                 {config_.z_dim, config_.latent_frames(frames), height / stride, width / stride});
    expect_dtype(op, "mean and logvar", *moment, DType::f32);
    require(moment->contiguous(), "vae encode: expected contiguous mean and logvar");
  }
}

// Gets the next frames as the network reads them. Rank 0 asks for whole ones, and each rank gets its rows.
void VaeEncoder::read(const Size& size, const Source& source, int64_t from, const VaeState& state,
                      const Tensor& input, Stream& stream) const {
  const char* op = "vae encode";
  const int64_t n = input.dim(0), p = config_.patch_size;
  const ArenaScope scope(*stream.arena);
  Tensor whole = input;
  if (state.bands.divided()) {
    whole = Tensor(nullptr, input.dtype, {n, state.height, state.width, config_.in_channels});
    if (state.bands.first()) whole = stream.arena->tensor(whole.dtype, whole.shape());
  }
  if (state.bands.first()) {
    const Tensor video = source(from, n);
    expect_shape(op, "video", video, {n, size[1], size[2], config_.in_channels / (p * p)});
    expect_dtype(op, "video", video, DType::f32);
    patchify(video, whole, p, stream);
  }
  if (state.bands.divided()) state.bands.hand_out(whole, input, stream);
}

// Checks and writes the moments of frames from `from` on, which the network has made; on rank 0 of all rows.
void VaeEncoder::write(const VaeState& state, const Tensor& out, int64_t from, const Tensor& mean,
                       const Tensor& logvar, Stream& stream) const {
  const runtime::Bands& bands = state.bands;
  Tensor band = out, moments = out;
  if (bands.divided()) {
    band = stream.arena->tensor(out.dtype, bands.own(out).shape());
    ops::copy({.x = bands.own(out), .y = band}, stream);
  }
  check(ops::all_finite(band, stream), ErrorCode::numerical,
        "vae encode: the latents of frames from {} on hold NaN or Inf; the frames or the VAE's weights are "
        "broken",
        from);
  if (bands.divided()) {
    moments = Tensor(nullptr, out.dtype, {out.dim(0), network_->units(state.height), out.dim(2), out.dim(3)});
    if (bands.first()) moments = stream.arena->tensor(out.dtype, moments.shape());
    bands.collect(band, moments, stream);
  }
  if (!bands.first()) return;
  const int64_t z = config_.z_dim;
  ops::copy({.x = moments.slice(3, 0, z), .y = channels_last_view(mean)}, stream);
  if (logvar_) ops::copy({.x = moments.slice(3, z, 2 * z), .y = channels_last_view(logvar)}, stream);
}

void VaeEncoder::encode(std::array<int64_t, 3> size, const Source& source, const Tensor& mean,
                        const Tensor& logvar, Stream& stream, runtime::Comm* comm, EqualFrames equal,
                        int64_t chunk) const {
  const int64_t p = config_.patch_size, stride = config_.spatial_stride();
  const auto [frames, height, width] = size;
  const int64_t total = config_.latent_frames(frames);
  require(total >= 1 && height >= stride && width >= stride && height % stride == 0 && width % stride == 0,
          "vae encode: expected frames of a multiple of {} in height and width, got {} of {}x{}", stride,
          frames, width, height);
  require(chunk >= 1, "vae encode: expected chunks of at least 1 latent frame, got {}", chunk);
  const bool first = !comm || comm->rank() == 0;
  if (first) check_moments(size, mean, logvar);
  VaeState state = network_->make_state(height / p, width / p, total == 1, stream,
                                        {comm, network_->units(height / p)}, chunk);
  // Says whether a chunk, and the one before it, depend on equal frames alone up to the steady part's output.
  const auto repeats = [&](int64_t from) {
    return from - kChunkFrames - config_.full_rate_past() >= equal.begin && from + kChunkFrames <= equal.end;
  };
  const ArenaScope of_all(*stream.arena);
  SteadyPart steady;
  const std::vector<int64_t> steady_dims = network_->steady_dims(state, kChunkFrames);
  bool any = false;
  for (int64_t from = 1; from < frames && !steady_dims.empty(); from += kChunkFrames)
    any = any || repeats(from);
  if (any) steady.output = stream.arena->tensor(stream.precision.activation, steady_dims);
  for (int64_t t = 0, from = 0; t < total;) {
    stream.throw_if_cancelled();
    const int64_t left = (total - t) * config_.temporal_stride() / kChunkFrames;
    const int64_t n = from == 0 ? 1 : kChunkFrames * (any ? 1 : std::min(chunk, left));
    steady.taken = any && repeats(from), steady.keeps = any && !steady.taken && repeats(from + kChunkFrames);
    ArenaScope scope(*stream.arena);
    const Tensor out = stream.arena->tensor(stream.precision.activation, network_->output_dims(state, n));
    {
      ArenaScope input_scope(*stream.arena);
      const int64_t dims[] = {n, state.bands.held(height / p), width / p, config_.in_channels};
      const DType dtype = stream.precision.activation;
      const Tensor input = steady.taken ? Tensor(nullptr, dtype, dims) : stream.arena->tensor(dtype, dims);
      if (!steady.taken) read(size, source, from, state, input, stream);
      network_->run(input, out, state, stream, steady);
    }
    const int64_t made = out.dim(0);
    const auto part = [&](const Tensor& moment) {
      return moment.defined() && first ? moment.slice(1, t, t + made) : Tensor();
    };
    write(state, out, from, part(mean), part(logvar), stream);
    t += made, from += n;
  }
  if (logvar_ && first) ops::clamp(logvar, -30, 20, stream);
}

}  // namespace tachy
