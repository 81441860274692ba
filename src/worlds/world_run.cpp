#include "worlds/world_run.h"

#include <algorithm>

#include "cuda/normals.h"
#include "ops/elementwise/elementwise.h"
#include "stages/text_stage.h"
#include "tensor/transfer.h"
#include "worlds/world_condition.h"

namespace tachy {

// Returns the part, loading it if nobody has it. `stays` says that it is one of the parts that are kept for
// further runs, if parts are kept at all. An encoder's memory is planned only for a start, so it is released
// after the start.
template <class Network>
std::shared_ptr<const Network> WorldRun::loaded(Part part, bool stays) {
  const auto load = [&]() -> PartCache::Handle {
    const ProfileRange range(stream_.hooks.profiler, load_range(part), ProfileKind::load);
    const auto made = load_part(model(), part,
                                {.weights = setup_.model->options().weights,
                                 .keys_stay = keys_stay(),
                                 .progress = {},
                                 .vae = setup_.vae},
                                stream_);
    if (gpu_ && !stream_.measuring()) {
      made->device = gpu_;
      gpu_->synchronize();  // from here on any queue may read the part
    }
    return made;
  };
  const bool keep = stays && setup_.model->options().keep_loaded;
  return std::static_pointer_cast<const Network>(
      stream_.measuring() ? load() : setup_.model->parts().get(key(part), keep, stream_.hooks.cancel, load));
}

WorldRun::WorldRun(const Setup& setup, std::shared_ptr<cuda::Gpu> gpu, Stream& stream)
    : setup_(setup),
      config_(*setup.config),
      gpu_(std::move(gpu)),
      stream_(stream),
      sampler_(setup.sampler),
      transformer_(loaded<LoadedDit>(Part::transformer, true)),
      decoder_(loaded<LoadedVae>(Part::vae_decoder, true)),
      store_({}, stream) {
  const ModelBundle& m = model();
  const int64_t stride = m.vae_config.spatial_stride(), z = m.vae_config.z_dim, h = config_.height / stride,
                w = config_.width / stride;
  if (m.dit.text_dim > 0) text_ = store_.allocate(DType::f32, {kTextRows, m.dit.text_dim});
  if (m.family->actions) {
    image_embeds_ = store_.allocate(DType::f32, {most_image_rows(m), m.dit.image_dim});
    channels_ = store_.allocate(DType::f32, {m.vae_config.temporal_stride() + z,
                                             world_condition_frames(m.vae_config, setup.longest), h, w});
  }
  if (stream.gpu) noise_state_ = store_.allocate(DType::i32, {cuda::kGeneratorWords});
  rows_ = h, columns_ = w;
  resident_ = transformer_->bytes + decoder_->bytes + store_.bytes();
  held(0);
}

std::map<PartKey, uint64_t> WorldRun::parts() const {
  return {{key(Part::transformer), transformer_->bytes}, {key(Part::vae_decoder), decoder_->bytes}};
}

void WorldRun::encode_text(const std::vector<int64_t>& ids) {
  const std::vector<int64_t> longest(static_cast<size_t>(kTextRows), 0);
  const std::vector<int64_t>& given = stream_.measuring() ? longest : ids;
  const auto encoder = loaded<LoadedText>(Part::text);
  held(encoder->bytes);
  const ProfileRange range(stream_.hooks.profiler, "text encoder", ProfileKind::group);
  text_rows_ = static_cast<int64_t>(given.size());
  tachy::encode_text(*encoder->model, given, text_.slice(0, 0, text_rows_), stream_);
}

void WorldRun::encode_picture(const WorldInput& input) {
  const ModelBundle& m = model();
  image_rows_ = most_image_rows(m);
  if (!input.image_embeds.empty())
    image_rows_ = static_cast<int64_t>(input.image_embeds.size()) / m.dit.image_dim;
  const Tensor embeds = image_embeds_.slice(0, 0, image_rows_);
  if (!input.image_embeds.empty()) {
    upload(input.image_embeds.data(), embeds, stream_);
  } else if (m.image_encoder) {
    const auto encoder = loaded<LoadedImageEncoder>(Part::image_encoder);
    held(encoder->bytes);
    const ProfileRange range(stream_.hooks.profiler, "image encoder", ProfileKind::group);
    const ArenaScope scope(*stream_.arena);
    const Tensor pixels = stream_.arena->f32({1, 3, m.clip.image_size, m.clip.image_size});
    upload(input.clip_pixels.data(), pixels, stream_);
    encoder->model->forward(pixels, embeds.view({1, m.clip.tokens(), m.clip.hidden_size}), stream_);
  }
  check(ops::all_finite(embeds, stream_), ErrorCode::numerical,
        "image encoder: the result holds NaN or Inf: its weights are damaged");
  stream_.throw_if_cancelled();
  const auto encoder = loaded<LoadedVaeEncoder>(Part::vae_encoder);
  const ProfileRange range(stream_.hooks.profiler, "encode image", ProfileKind::group);
  held(encoder->bytes + encode_world_condition(*encoder->model, input.picture, channels_, stream_));
}

void WorldRun::begin(const WorldInput& input) {
  denoiser_.reset(), frames_.reset(), loop_.clear();  // makes room for the encoders
  if (text_.defined()) encode_text(input.text);
  if (channels_.defined()) encode_picture(input);
  rewind();
}

void WorldRun::rewind() {
  denoiser_.reset(), frames_.reset();
  CausalInput in{
      .network = transformer_->model.get(),
      .weights = model().transformer.get(),
      .timesteps = sampler_.schedule().timesteps,
      .image_embeds = image_embeds_.defined() ? image_embeds_.slice(0, 0, image_rows_) : Tensor(),
      .channels = channels_,
      .window = {.frames = config_.window, .sinks = config_.sinks, .sinks_follow = config_.sinks > 0},
      .z = model().vae_config.z_dim,
      .height = rows_,
      .width = columns_,
      .block_lengths = {config_.first_block, config_.block},
      .graphs = setup_.graphs};
  if (text_.defined()) in.text = text_.slice(0, 0, text_rows_), in.text_rows = kTextRows;
  denoiser_.emplace(in, stream_);
  frames_.emplace(BlockFrames::Input{.vae = decoder_->model.get(),
                                     .height = rows_,
                                     .width = columns_,
                                     .steps = sampler_.steps(),
                                     .graphs = setup_.graphs},
                  stream_);
  held(denoiser_->bytes() + frames_->bytes());
}

int64_t WorldRun::next_block_frames() const {
  return latent_frames() == 0 ? config_.first_block : config_.block;
}

// Noise that the GPU does not make itself is made while the GPU is busy with the block before.
void WorldRun::draw_ahead(NoiseSource& noise) const {
  if (!stream_.memory) return;
  const int64_t values = denoiser_->latents(config_.block).numel();
  std::vector<size_t> counts(1, static_cast<size_t>(values));
  for (int i = 0; i < sampler_.steps(); ++i)
    if (sampler_.needs_noise(i)) counts.push_back(static_cast<size_t>(values));
  noise.draw_ahead(std::move(counts));
}

void WorldRun::block(const WanScript& script, NoiseSource* noise, const Frame& frame) {
  const int64_t frames = next_block_frames();
  const Tensor latents = denoiser_->latents(frames);
  stream_.throw_if_cancelled();
  const ProfileRange whole(stream_.hooks.profiler, kBlockRange, ProfileKind::group, denoiser_->end());
  denoiser_->begin_block(frames, script);
  frames_->begin_block();
  if (noise) {
    if (noise_state_.defined()) noise->make_on(noise_state_);
    noise->fill(latents, stream_);
  }
  loop_.rewind();
  {
    DenoiseLoop loop({.sampler = &sampler_,
                      .guidance = {{Branch{}}},
                      .latents = latents,
                      .noise = noise,
                      .shelf = &loop_,
                      .marks = frames_->marks()},
                     *denoiser_, stream_);
    loop.run();
    held(denoiser_->bytes() + frames_->bytes() + loop.bytes());
  }
  if (noise) draw_ahead(*noise);
  if (setup_.latents && !stream_.measuring()) {
    std::vector<float> values(static_cast<size_t>(latents.numel()));
    download(latents, values.data(), stream_);
    setup_.latents(values);
  }
  frames_->decode(latents, frame, [&] { denoiser_->remember(latents); });
}

}  // namespace tachy
