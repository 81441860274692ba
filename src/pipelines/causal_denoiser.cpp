#include "pipelines/causal_denoiser.h"

#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

CausalDenoiser::CausalDenoiser(const CausalInput& in, Stream& stream)
    : stream_(stream),
      store_({.plan_only = stream.measuring(), .shelf = in.shelf}, stream),
      network_(*in.network),
      weights_(*in.weights),
      z_(in.z),
      channels_(in.channels) {
  const WanConfig& c = network_.config();
  require(!in.block_lengths.empty(), "denoise: expected at least one block of latent frames");
  const int64_t extra = channels_.defined() ? channels_.dim(0) : 0;
  require(in.z + extra == c.in_channels && in.z == c.out_channels,
          "denoise: the transformer takes {} channels and makes {}, expected {} latents' and {} further ones",
          c.in_channels, c.out_channels, in.z, extra);
  if (extra > 0) expect_shape("denoise", "channels", channels_, {extra, -1, in.height, in.width});
  const int64_t most = *std::max_element(in.block_lengths.begin(), in.block_lengths.end());
  context_ = network_.make_context(in.text, in.text_rows, in.image_embeds, store_);
  for (const int64_t frames : in.block_lengths)
    if (!grids_.contains(frames)) grids_[frames] = network_.make_grid(frames, in.height, in.width, store_);
  const WanGrid& any = grids_.begin()->second;
  causal_ = network_.allocate_causal(in.window, most, any.rows, any.columns, store_);
  std::vector<double> timesteps(in.timesteps.begin(), in.timesteps.end());
  timesteps.push_back(0);
  times_ = network_.make_times(timesteps, store_, in.sinusoid);
  input_ = store_.allocate(DType::f32, {in.z + extra, most, in.height, in.width});
}

void CausalDenoiser::begin_block(int64_t frames, const WanScript& script) {
  const auto grid = grids_.find(frames);
  check(grid != grids_.end(), ErrorCode::internal, "denoiser: a block of {} frames was not announced",
        frames);
  grid_ = &grid->second;
  network_.begin_block(causal_, *grid_, script, stream_);
}

// The latents and what belongs behind them, at row `time` of the timesteps.
WanInput CausalDenoiser::input(const Tensor& latents, int64_t time) const {
  const int64_t frames = causal_.frames, all = input_.dim(0);
  const Tensor x(input_.data, DType::f32, {1, all, frames, input_.dim(2), input_.dim(3)}, input_.device);
  const Tensor planes = x.select(0, 0);
  expect_shape("denoise", "latents", latents, {z_, frames, input_.dim(2), input_.dim(3)});
  copy_bytes(latents, planes.slice(0, 0, z_), stream_);
  for (int64_t i = 0; all > z_ && i < frames; ++i) {
    const int64_t frame = std::min(causal_.first + i, channels_.dim(1) - 1);
    ops::copy({.x = channels_.select(1, frame), .y = planes.slice(0, z_, all).select(1, i)}, stream_);
  }
  return {.latents = x,
          .grid = grid_,
          .times = {times_.embedding.slice(0, time, time + 1), times_.projection.slice(0, time, time + 1)},
          .contexts = {&context_},
          .causal = &causal_};
}

void CausalDenoiser::predict(const Tensor& latents, int step, const Tensor& velocity) {
  weights_.check_files();  // the pass reads its weights where they lie in the file
  const ProfileRange range(stream_.hooks.profiler, "transformer", ProfileKind::group);
  network_.forward(input(latents, step), velocity, stream_);
}

void CausalDenoiser::remember(const Tensor& latents) {
  weights_.check_files();
  const ProfileRange range(stream_.hooks.profiler, "transformer (to remember)", ProfileKind::group);
  WanInput in = input(latents, times_.embedding.dim(0) - 1);
  in.fill_only = true;
  network_.forward(in, {}, stream_);
}

}  // namespace tachy
