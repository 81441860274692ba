#include "pipelines/walk.h"

#include "pipelines/condition.h"
#include "pipelines/denoise_stage.h"

namespace tachy {

Shared::Shared(const ResolvedRequest& r, const ModelBundle& model, const Prompts& prompts,
               nn::ParamStore& store) {
  const int64_t width = model.text.d_model;
  text = store.allocate(DType::f32, {static_cast<int64_t>(prompts.positive.size()), width});
  if (r.guided) negative = store.allocate(DType::f32, {static_cast<int64_t>(prompts.negative.size()), width});
  if (r.clip_pictures > 0)
    image_embeds =
        store.allocate(DType::f32, {r.clip_pictures * model.clip.tokens(), model.clip.hidden_size});
  if (const auto dims = condition_dims(model, r); !dims.empty())
    condition = store.allocate(DType::f32, std::span<const int64_t>(dims));
  latents = store.allocate(DType::f32, {r.latent_channels, r.latent_frames, r.latent_height, r.latent_width});
}

Stages video_stages(const Job& job) {
  Stages out;
  const bool denoised =
      job.resume && job.resume->step == Sampler(sampler_config(job.request.request)).steps();
  if (!denoised) {
    out.push_back(make_text_stage());
    if (job.request.clip_pictures > 0) out.push_back(make_image_embeds_stage());
    if (job.request.pictured) out.push_back(make_image_stage());
    out.push_back(make_denoise_stage());
  }
  out.push_back(make_decode_stage());
  return out;
}

std::vector<StagePlan> walk(Job& job, Session& session) {
  std::vector<StagePlan> out;
  for (const auto& stage : video_stages(job)) out.push_back(session.run(*stage, job));
  return out;
}

}  // namespace tachy
