#include "pipelines/clip_denoiser.h"

#include "tensor/transfer.h"

namespace tachy {

ClipDenoiser::ClipDenoiser(const ClipInput& in, std::vector<double> fixed_times, Stream& stream)
    : stream_(stream),
      store_({.plan_only = stream.measuring()}, stream),
      network_(*in.network),
      weights_(*in.weights),
      first_step_(in.first_step),
      distinct_(1 + static_cast<int64_t>(fixed_times.size())),
      graph_(in.graphs && !stream.hooks.profiler) {  // a profiler's ranges must end where their work does
  const int64_t z = in.latent_shape.at(0), frames = in.latent_shape.at(1), h = in.latent_shape.at(2),
                w = in.latent_shape.at(3);
  const auto branches = static_cast<int64_t>(in.texts.size());
  make_contexts(in);
  grid_ = network_.make_grid(frames, h, w, store_);
  std::vector<double> timesteps;
  for (const double t : in.timesteps) {
    timesteps.push_back(t);
    timesteps.insert(timesteps.end(), fixed_times.begin(), fixed_times.end());
  }
  times_ = network_.make_times(timesteps, store_, in.sinusoid);
  const int64_t extra = in.channels.defined() ? in.channels.dim(0) : 0;
  input_ = store_.allocate(DType::f32, {branches, z + extra, frames, h, w});
  if (stream.gpu)
    current_ = {store_.allocate(DType::f32, {distinct_, times_.embedding.dim(1)}),
                store_.allocate(DType::f32, {distinct_, times_.projection.dim(1)})};
  for (int64_t b = 0; b < branches && extra > 0; ++b)
    copy_bytes(in.channels, input_.select(0, b).slice(0, z, z + extra), stream);
}

void ClipDenoiser::make_contexts(const ClipInput& in) {
  for (const Tensor& text : in.texts) {
    const Tensor image = contexts_.empty() ? in.image_embeds : Tensor();
    contexts_.push_back(network_.make_context(text, in.text_rows, image, store_));
    // All branches see the same picture.
    contexts_.back().image_k = contexts_.front().image_k;
    contexts_.back().image_v = contexts_.front().image_v;
  }
}

void ClipDenoiser::predict(const Tensor& latents, int step, const Tensor& velocity) {
  weights_.check_files();  // the pass reads its weights where they lie in the file
  const int64_t branches = velocity.dim(0), z = latents.dim(0);
  check(branches == static_cast<int64_t>(contexts_.size()), ErrorCode::internal,
        "denoiser: {} branches wanted, {} texts given", branches, contexts_.size());
  for (int64_t b = 0; b < branches; ++b) {
    const Tensor part = input_.select(0, b).slice(0, 0, z);
    copy_bytes(latents, part, stream_);
    put_given(part);
  }
  WanInput forward{.latents = input_, .grid = &grid_, .row = row_};
  const int64_t begin = (step - first_step_) * distinct_, end = begin + distinct_;
  forward.times = {times_.embedding.slice(0, begin, end), times_.projection.slice(0, begin, end)};
  for (const WanContext& context : contexts_) forward.contexts.push_back(&context);
  if (stream_.gpu) {
    copy_bytes(forward.times.embedding, current_.embedding, stream_);
    copy_bytes(forward.times.projection, current_.projection, stream_);
    forward.times = current_;
  }
  const ProfileRange range(stream_.hooks.profiler, "transformer", ProfileKind::group);
  graph_.run(stream_, [&] { network_.forward(forward, velocity, stream_); });
}

}  // namespace tachy
