#include "resolve/resolve_blocks.h"

#include "base/error.h"

namespace tachy {

void resolve_blocks(const ModelBundle& model, const VideoRequest& given, ResolvedRequest& out) {
  VideoRequest& r = out.request;
  require(r.block > 0 || r.block_window == 0,
          "`block_window`: {} has no effect without `block`; give that, too, or leave this out",
          r.block_window);
  if (r.block == 0) return;
  check(model.family->blocks, ErrorCode::unsupported,
        "`block`: this is an {} model; only text-to-video models of one transformer are made block by block "
        "(Self-Forcing, CausVid)",
        model.kind());
  require(
      !out.guided,
      "`guidance`: expected 1 with `block`, got {}: models that make videos block by block use no guidance",
      *r.guidance);
  require(r.windows == "none",
          "`windows`: a video is made block by block or in windows, not both; leave one out");
  require(r.riflex == 0, "`riflex`: it cannot be combined with `block`; leave it out");
  require(r.sparse_attention.value_or(0) == 0, "`sparse_attention`: expected 0 with `block`, got {}",
          *r.sparse_attention);
  require(given.step_cache.value_or(0) == 0, "`step_cache`: expected 0 with `block`, got {}",
          *given.step_cache);
  r.step_cache = 0;
  require(r.block_window == 0 || r.block_window >= r.block,
          "`block_window`: expected at least the {} latent frames of a block, got {}", r.block,
          r.block_window);
  const int64_t stride = model.vae_config.temporal_stride(), rest = out.latent_frames % r.block;
  require(rest == 0, "`frames`: {} are {} latent frames, expected whole blocks of {} (`block`); {} would be",
          *r.frames, out.latent_frames, r.block, 1 + stride * (out.latent_frames - rest + r.block - 1));
}

}  // namespace tachy
