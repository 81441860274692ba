// Which of two speakers a token follows, as InfiniteTalk finds it in each block: by how much the block's self-attention would
// look at either of them, or at the background, in the first latent frame, which shows the picture. The speaker becomes a place
// on a line (ops/region_rope), and the audio attention's queries and keys are turned by their places: near ones find each other.
//
// The softmax over the first frame's keys is an attention whose values are masks. Its cost is that of self-attention by the
// number of latent frames (1/21 of it at 81 frames), and what it gives goes where self-attention's values were: no memory of its own.
#include "models/wan/block.h"
#include "ops/region_rope/region_rope.h"
#include "ops/rope/rope.h"

namespace tachy {

void WanBlock::make_routes(const WanBlockInput& in, const nn::Attention::Projected& made,
                           Stream& stream) const {
  if (!in.routes.defined()) return;
  int64_t at = 0;
  for (int64_t b = 0; b < in.batch; ++b) {
    const WanRegions& regions = in.audio[static_cast<size_t>(b)]->regions;
    if (!regions.defined()) continue;
    const auto of_item = [&](const Tensor& t) { return self_.by_heads(t, in.batch).slice(0, b, b + 1); };
    const Tensor shares = of_item(made.v);
    nn::attention_in_pieces({.q = of_item(made.q),
                             .k = of_item(made.k).slice(1, 0, regions.values.dim(0)),
                             .v = self_.by_heads(regions.values, 1),
                             .scale = score_scale(stream),
                             .out = shares},
                            stream);
    const Tensor route = in.routes.select(0, at++);
    ops::region_rope({.shares = shares.select(0, 0),
                      .sizes = regions.sizes,
                      .cos = route.select(0, 0),
                      .sin = route.select(0, 1)},
                     stream);
  }
}

void WanBlock::turn_by_routes(const WanBlockInput& in, const Tensor& q, Stream& stream) const {
  if (!in.routes.defined()) return;
  int64_t at = 0;
  for (int64_t b = 0; b < in.batch; ++b) {
    if (!in.audio[static_cast<size_t>(b)]->regions.defined()) continue;
    const Tensor queries = cross_.by_heads(q, in.batch).slice(0, b, b + 1), route = in.routes.select(0, at++);
    ops::rope({.x = queries, .cos = route.select(0, 0), .sin = route.select(0, 1), .y = queries}, stream);
  }
}

void WanBlock::place_audio_keys(const Tensor& kv, const Tensor& cos, const Tensor& sin,
                                Stream& stream) const {
  const Tensor keys = cross_.by_heads(kv.slice(1, 0, config_.dim()), 1);
  ops::rope({.x = keys, .cos = cos, .sin = sin, .y = keys}, stream);
}

}  // namespace tachy
