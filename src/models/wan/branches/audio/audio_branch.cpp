#include "models/wan/branches/audio/audio_branch.h"

#include <cmath>

#include "models/wan/branches/audio/audio.h"
#include "models/wan/branches/speakers/speakers_branch.h"
#include "models/wan/dit.h"

namespace tachy {

AudioBranch::AudioBranch(const Scope& scope, const WanConfig& c, nn::ParamStore& store)
    : config_(c),
      projection_(scope.sub("audio_proj"), c, store.beside()),
      blocks_(static_cast<size_t>(c.num_layers)) {}

bool AudioBranch::load(const Scope& block, int64_t index, nn::ParamStore& store) {
  const Scope audio = block.sub("audio_cross_attn");
  const int64_t dim = config_.dim();
  Block& made = blocks_[static_cast<size_t>(index)];
  made.norm = nn::Norm::layer(block.sub("norm_x"), store, dim, config_.eps);
  made.q = nn::Linear(audio.sub("q_linear"), store, dim, dim);
  made.kv = nn::Linear(audio.sub("kv_linear"), store, config_.audio_dim, 2 * dim);
  made.out = nn::Linear(audio.sub("proj"), store, dim, dim);
  return true;
}

bool AudioBranch::multiplies_in_eight_bits(std::string_view layer) const {
  return layer.ends_with(".audio_cross_attn.q_linear") || layer.ends_with(".audio_cross_attn.proj");
}

bool AudioBranch::makes_keys(std::string_view layer) const {
  return layer.ends_with(".audio_cross_attn.kv_linear");
}

bool AudioBranch::takes(std::type_index type) const { return type == typeid(WanSpeech); }

void AudioBranch::make_keys(int64_t index, const Tensor& tokens, const Tensor& kv, Stream& stream) const {
  blocks_[static_cast<size_t>(index)].kv(tokens, kv, stream);
}

void AudioBranch::expect(const WanInput& in) const {
  const WanConfig& c = config_;
  const int64_t batch = in.latents.dim(0), frames = in.grid->frames;
  const auto* speech = in.given.find<WanSpeech>();
  const size_t given = speech ? speech->items.size() : 0;
  require(!in.causal, "transformer: speech does not go with a video made block by block");
  require(static_cast<int64_t>(given) == batch,
          "transformer: the model has an audio branch: expected the speech of {} batch items, got {}", batch,
          given);
  // Each frame has its own attention, so its tokens must be adjacent.
  check(c.patch_t == 1 && in.grid->places.empty(), ErrorCode::unsupported,
        "transformer: the audio branch needs tokens in the order of their frames: no block-sparse attention");
  check(!in.comm || in.comm->size() == 1 || in.cut == WanCut::frames, ErrorCode::internal,
        "transformer: the audio branch needs tokens of every frame on each rank");
  for (const WanAudio& audio : speech->items) {
    const bool two = audio.regions.defined();
    expect_shape("transformer", "audio keys and values", audio.kv,
                 {c.num_layers, frames * c.audio_tokens * (two ? kMostSpeakers : 1), 2 * c.dim()});
    if (two)
      expect_shape("transformer", "regions", audio.regions.values,
                   {in.grid->rows * in.grid->columns, c.dim()});
  }
}

void AudioBranch::after_cross_attention(const WanBlockInput& in, int64_t index, WanPending& sum,
                                        Stream& stream) const {
  const Block& block = blocks_[static_cast<size_t>(index)];
  const Tensor &u = in.u, q = sum.y;
  ProfileRange part(stream.hooks.profiler, "residual + norm", ProfileKind::norm);
  nn::add_norm({.x = in.x,
                .u = q,
                .kind = ops::NormKind::layer,
                .weight = block.norm.weight,
                .bias = block.norm.bias,
                .eps = config_.eps,
                .sum = in.x,
                .y = u},
               stream);
  part.next("audio q", ProfileKind::linear);
  block.q(u, q, stream);
  turn_by_routes(in, config_, q, stream);
  part.next("audio attention", ProfileKind::attention);
  for (int64_t b = 0; b < in.batch; ++b) attend(in, index, b, q, stream);
  part.next("audio out", ProfileKind::linear);
  block.out(u, q, stream);  // overwrites y, which has been added
}

void AudioBranch::attend(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q,
                         Stream& stream) const {
  const WanAudio& audio = in.more.find<WanSpeech>()->items[static_cast<size_t>(b)];
  const int64_t dim = config_.dim();
  nn::Attention heads;
  heads.heads = config_.num_heads, heads.head_dim = config_.head_dim;
  // The tokens of a latent frame are adjacent, so frames are the batch of one attention.
  const auto by_frames = [&](const Tensor& t) { return heads.by_heads(t, audio.frames); };
  const auto of_item = [&](const Tensor& t) {
    return by_frames(t.slice(0, b * in.tokens, (b + 1) * in.tokens));
  };
  const Tensor kv = audio.kv.select(0, index);
  ops::attention({.q = of_item(q),
                  .k = by_frames(kv.slice(1, 0, dim)),
                  .v = by_frames(kv.slice(1, dim, 2 * dim)),
                  .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim)),
                  .out = of_item(in.u)},
                 stream);
}

std::unique_ptr<WanBranch> make_audio_branch(const Scope& scope, const WanConfig& c, nn::ParamStore& store) {
  return c.audio_branch() ? std::make_unique<AudioBranch>(scope, c, store) : nullptr;
}

}  // namespace tachy
