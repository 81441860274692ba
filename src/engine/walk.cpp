#include "engine/walk.h"

#include <algorithm>

#include "denoise/noise_source.h"
#include "denoise/run_state.h"
#include "denoise/talk_progress.h"
#include "stages/condition.h"
#include "stages/stages.h"
#include "tensor/transfer.h"
#include "tensor/work_tally.h"

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
  if (r.talk.frames == 0) return;
  speech = store.beside().allocate(DType::f32, {r.speakers(), r.talk.spoken + r.talk.rows_behind(),
                                                model.audio.num_layers, model.audio.hidden_size});
  if (r.talk.count() == 1) return;
  tail = store.allocate(DType::f32, {r.talk.motion, *r.request.height, *r.request.width, 3});
  motion = store.allocate(DType::f32, {r.latent_channels, model.vae_config.latent_frames(r.talk.motion),
                                       r.latent_height, r.latent_width});
}

Stages video_stages(const Job& job) {
  Stages out;
  const bool last = job.resume && job.resume->window + 1 == job.resume->windows;
  if (!last || !denoised(*job.resume, job.request)) {
    out.push_back(make_text_stage());
    if (job.request.clip_pictures > 0) out.push_back(make_image_embeds_stage());
    if (job.request.talk.frames > 0) out.push_back(make_speech_stage());
    if (job.request.pictured) out.push_back(make_image_stage());
    out.push_back(make_denoise_stage());
  }
  out.push_back(make_decode_stage());
  return out;
}

namespace {

// The worst of what a stage took in several windows; of work and time the sum.
void add(std::vector<StagePlan>& plans, StagePlan plan, int64_t times) {
  plan.flops *= static_cast<double>(times);
  const auto same = std::ranges::find(plans, plan.name, &StagePlan::name);
  if (same == plans.end()) return plans.push_back(std::move(plan));
  plan.flops += same->flops;
  for (const ops::OpPick& before : same->picks)  // those of loading, for one
    if (std::ranges::none_of(
            plan.picks, [&](const ops::OpPick& p) { return p.op == before.op && p.impl == before.impl; }))
      plan.picks.push_back(before);
  std::ranges::stable_sort(plan.picks, {}, &ops::OpPick::op);
  plan.weight_bytes = std::max(plan.weight_bytes, same->weight_bytes);
  plan.part_bytes = std::max(plan.part_bytes, same->part_bytes);
  plan.arena_bytes = std::max(plan.arena_bytes, same->arena_bytes);
  *same = std::move(plan);
}

// The noise of a window behind the first. InfiniteTalk draws more than it uses: noise for the frames that are taken
// over, before the first step and after each, which it then overwrites.
void draw_noise(Job& job, Session& session) {
  const Tensor& latents = job.shared.latents;
  std::vector<float> values(static_cast<size_t>(latents.numel()));
  job.noise->draw(values);
  upload(values.data(), latents, session.stream());
  if (job.request.request.recipe != "infinitetalk") return;
  values.resize(static_cast<size_t>(job.shared.motion.numel()));
  for (int i = 0; i <= *job.request.request.steps; ++i) job.noise->draw(values);
}

// A talking photo's windows one after the other; what they are made with stays loaded until the last. The second window
// and those after it are the same work, so that a measuring walk goes through two.
std::vector<StagePlan> walk_windows(Job& job, Session& session) {
  std::vector<StagePlan> out;
  const int64_t count = job.request.talk.count(),
                walked = session.measuring() ? std::min<int64_t>(count, 2) : count;
  Stages before = video_stages(job);
  before.resize(std::max<size_t>(before.size(), 2) - 2);
  for (const auto& stage : before) add(out, session.run(*stage, job), 1);
  const auto denoise = make_denoise_stage(), decode = make_decode_stage(), motion = make_motion_stage();
  for (job.window = job.resume ? job.resume->window : 0; job.window < walked; ++job.window) {
    const bool last = job.window + 1 == count;
    const int64_t alike = session.measuring() && job.window == 1 ? count - 1 : 1;
    session.hold_parts(!last);
    if (last) session.give_back(Part::vae_encoder);
    if (job.progress) job.progress->begin(job.window);
    WorkTally* tally = WorkTally::current();
    const WorkTally before = tally ? *tally : WorkTally();
    if (job.window > 0 && !job.resume) {
      session.begin_again();
      if (!session.measuring()) draw_noise(job, session);
    }
    if (!job.resume || !denoised(*job.resume, job.request)) add(out, session.run(*denoise, job), alike);
    job.resume = nullptr;  // of the first window that is walked
    add(out, session.run(*decode, job), alike);
    if (!last) add(out, session.run(*motion, job), alike);
    if (tally) tally->repeat_since(before, alike);
  }
  session.hold_parts(false);
  return out;
}

}  // namespace

std::vector<StagePlan> walk(Job& job, Session& session) {
  if (job.request.talk.frames > 0) return walk_windows(job, session);
  std::vector<StagePlan> out;
  for (const auto& stage : video_stages(job)) out.push_back(session.run(*stage, job));
  return out;
}

}  // namespace tachy
