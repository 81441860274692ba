#include "resolve/resolve_sparse.h"

#include "base/log.h"

namespace tachy {

// A model that was trained with sparse attention attends as it was trained, where that is possible: on a GPU the kernels
// take 16 bits and no GPU before sm_80, and only there bf16 is asked for by default.
void resolve_sparse(const ModelBundle& model, VideoRequest& r, const GpuMode* gpu) {
  const bool trained = model.dit.trained != TrainedSparse::none,
             here = !gpu || gpu->activation == DType::bf16;
  const bool free = r.block == 0 && !r.speech, by_itself = trained && here && free;
  const bool wanted = trained && r.sparse_chooser == "trained";
  if (!r.sparse_attention && trained && !here)
    warn(
        "`sparse_attention`: this model was trained with sparse attention, which needs bf16 on a GPU; here "
        "it attends "
        "to everything");
  if (!r.sparse_attention) r.sparse_attention = by_itself || wanted ? model.dit.trained_share() : 0;
  if (*r.sparse_attention == 0) return;
  if (!r.sparse_chooser) r.sparse_chooser = trained && here && free ? "trained" : "top-k";
  if (*r.sparse_chooser == "trained") {
    require(trained,
            "`sparse_chooser`: this model was not trained with sparse attention; expected top-k or "
            "sliding-tile, got trained");
    if (!r.sparse_dense_steps) r.sparse_dense_steps = 0;
  }
  // The first steps settle where things are in the picture, so published methods keep some of them dense.
  if (!r.sparse_dense_steps) r.sparse_dense_steps = (*r.steps + 3) / 4;
}

}  // namespace tachy
