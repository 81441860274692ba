#include "engine/courses/course.h"

#include "base/error.h"
#include "cuda/normals.h"
#include "denoise/noise_source.h"
#include "stages/condition.h"
#include "stages/footage.h"
#include "stages/stages.h"

namespace tachy {

const Course& course_of(const ResolvedRequest& request) {
  for (const Course* course : {&talk_course(), &blocks_course(), &clip_course()})
    if (course->fits(request)) return *course;
  fail(ErrorCode::internal, "courses: the last one fits every request");
}

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
  if (const auto dims = start_dims(r); !dims.empty())
    start = store.allocate(DType::f32, std::span<const int64_t>(dims));
  if (const auto dims = control_dims(model, r); !dims.empty())
    control = store.allocate(DType::f32, std::span<const int64_t>(dims));
  latents = store.allocate(DType::f32, {r.latent_channels, r.latent_frames, r.latent_height, r.latent_width});
  if (store.on_gpu()) noise_state = store.allocate(DType::i32, {cuda::kGeneratorWords});
  course_of(r).add_shared(*this, r, model, store);
}

void Course::draw(const Resolved&, NoiseSource& noise, std::span<float> values) const { noise.draw(values); }

StateCounts Course::state_counts(const Resolved& r, const Shared&) const {
  return {.what = "step",
          .all = r.sampler.steps(),
          .tensors = r.sampler.state_tensors() + r.step_cache.state_tensors(r.most_branches())};
}

std::vector<std::unique_ptr<Stage>> stages_of_inputs(const Job& job) {
  std::vector<std::unique_ptr<Stage>> out;
  out.push_back(make_text_stage());
  if (job.shared.image_embeds.defined()) out.push_back(make_image_embeds_stage());
  if (job.shared.speech.defined()) out.push_back(make_speech_stage());
  if (job.shared.condition.defined()) out.push_back(make_image_stage());
  if (job.shared.start.defined() || job.shared.control.defined()) out.push_back(make_footage_stage());
  return out;
}

}  // namespace tachy
