// Makes a talking photo: text, image-embeds, speech and image, then denoise and decode for each window, and
// motion between two windows.
#include <algorithm>

#include "denoise/clip_denoiser.h"
#include "denoise/noise_source.h"
#include "denoise/talk_progress.h"
#include "engine/courses/course.h"
#include "stages/condition.h"
#include "stages/decode_stage.h"
#include "stages/stages.h"
#include "tensor/transfer.h"
#include "tensor/work_tally.h"

namespace tachy {
namespace {

// Adds what is said in a window, and the frames that it takes over; in the first window this is the photo.
void add_speech(const Job& job, const Here& here, ClipInput& clip) {
  const TalkWindows& talk = job.request.talk;
  const Shared& shared = job.shared;
  // Only the last window sees the rows after the end of speech.
  const bool last = job.window + 1 == talk.count();
  const Tensor all = here(shared.speech);
  for (int64_t s = 0; s < all.dim(0); ++s)
    clip.speech.push_back({.states = all.select(0, s).slice(0, 0, last ? all.dim(1) : talk.spoken),
                           .first_frame = talk.first(job.window)});
  clip.regions = job.request.speaker_regions;
  const int64_t mask = shared.condition.dim(0) - shared.latents.dim(0);
  clip.given = job.window > 0 ? here(shared.motion)
                              : here(shared.condition).slice(0, mask, shared.condition.dim(0)).slice(1, 0, 1);
}

ops::LabStatistics colors_of(const Picture& picture, Stream& stream) {
  std::vector<float> pixels = pixels_of(picture);
  const Tensor x(pixels.data(), DType::f32, {picture.height, picture.width, 3});
  ops::LabStatistics out;
  if (!stream.gpu) return ops::lab_statistics(x, stream);
  run_on_host(stream, [&](Stream& host) { out = ops::lab_statistics(x, host); });
  return out;
}

// Returns the frames of a window that are handed out: those that are new in it, in the photo's colours.
FramesOut frames_out(const Job& job, Stream& stream) {
  const TalkWindows& talk = job.request.talk;
  const int64_t taken_over = talk.taken_over(job.window);
  const double correction = job.request.request.color_correction.value_or(0);
  return {.skip = taken_over,
          .first = talk.first_new(job.window),
          .total = talk.frames,
          .color_correction = correction,
          .picture = correction > 0 ? colors_of(*job.request.request.image, stream) : ops::LabStatistics(),
          .tail = job.window + 1 < talk.count() ? job.shared.tail : Tensor()};
}

// Keeps the most memory that a stage took in several windows, and adds up its work and time.
void add(std::vector<StagePlan>& plans, StagePlan plan, int64_t times) {
  plan.flops *= static_cast<double>(times);
  const auto same = std::ranges::find(plans, plan.name, &StagePlan::name);
  if (same == plans.end()) return plans.push_back(std::move(plan));
  plan.flops += same->flops;
  for (const ops::OpPick& before : same->picks)  // for example those of loading
    if (std::ranges::none_of(
            plan.picks, [&](const ops::OpPick& p) { return p.op == before.op && p.impl == before.impl; }))
      plan.picks.push_back(before);
  std::ranges::stable_sort(plan.picks, {}, &ops::OpPick::op);
  plan.weight_bytes = std::max(plan.weight_bytes, same->weight_bytes);
  plan.part_bytes = std::max(plan.part_bytes, same->part_bytes);
  plan.arena_bytes = std::max(plan.arena_bytes, same->arena_bytes);
  *same = std::move(plan);
}

// Draws the noise of a window after the first. InfiniteTalk draws more than it uses: noise for the frames
// that are taken over, before the first step and after each, which it then overwrites. That goes where the window's last
// frames will be.
void draw_noise(Job& job, Session& session) {
  const Shared& shared = job.shared;
  job.noise->fill(shared.latents, session.stream());
  if (job.request.request.recipe != "infinitetalk") return;
  const Tensor unused = shared.tail.flat(0, shared.motion.numel());
  for (int i = 0; i <= *job.request.request.steps; ++i) job.noise->fill(unused, session.stream());
}

// The first process of a crew makes the frames of a window and the latents with which the next one begins.
void take_over_motion(Job& job, Session& session) {
  runtime::Crew* const crew = session.crew();
  if (!crew || session.measuring()) return;
  std::vector<Tensor> from(static_cast<size_t>(crew->size())), to(from.size());
  if (crew->leads()) std::ranges::fill(from, job.shared.motion);
  to.front() = job.shared.motion;
  crew->among(0, crew->size())->all_to_all(from, to, session.stream());
  crew->settle(session.stream());
}

// Walks over the windows one after the other; what makes them stays loaded until the last one. The second
// window and those after it are the same work, so a measuring walk goes through two.
std::vector<StagePlan> walk_windows(Job& job, Session& session) {
  std::vector<StagePlan> out;
  const int64_t count = job.request.talk.count(),
                walked = session.measuring() ? std::min<int64_t>(count, 2) : count;
  const bool in_last = job.resume && job.resume->window + 1 == job.resume->windows;
  if (!in_last || !denoised(*job.resume, job.request))
    for (const auto& stage : stages_of_inputs(job)) add(out, session.run(*stage, job), 1);
  const auto denoise = make_denoise_stage(add_speech), decode = make_decode_stage(frames_out),
             motion = make_motion_stage();
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
    job.resume = nullptr;  // resumes only in the first window
    if (last && session.crew() && !session.measuring()) session.crew()->rest();
    if (session.makes_frames()) {
      add(out, session.run(*decode, job), alike);
      if (!last) add(out, session.run(*motion, job), alike);
    }
    if (!last) take_over_motion(job, session);
    if (tally) tally->repeat_since(before, alike);
  }
  session.hold_parts(false);
  return out;
}

class TalkCourse final : public Course {
 public:
  bool fits(const ResolvedRequest& r) const override { return r.talk.frames > 0; }

  void add_shared(Shared& shared, const ResolvedRequest& r, const ModelBundle& model,
                  nn::ParamStore& store) const override {
    shared.speech = store.beside().allocate(DType::f32, {r.speakers(), r.talk.spoken + r.talk.rows_behind(),
                                                         model.audio.num_layers, model.audio.hidden_size});
    if (r.talk.count() == 1) return;
    shared.tail = store.allocate(DType::f32, {r.talk.motion, *r.request.height, *r.request.width, 3});
    shared.motion = store.allocate(
        DType::f32,
        {r.latent_channels, model.vae_config.latent_frames(r.talk.motion), r.latent_height, r.latent_width});
  }

  void draw(const Resolved& r, NoiseSource& noise, std::span<float> values) const override {
    noise.draw(values);
    if (r.request.recipe == "wrapper") noise.draw(values);  // its sampler's own draw is not used
  }

  std::vector<StagePlan> walk(Job& job, Session& session) const override {
    return walk_windows(job, session);
  }
  bool comes_again(const Resolved& r) const override { return r.talk.count() > 1; }
  const char* would_fit() const override { return "a smaller size or shorter windows (`window_frames`)"; }
  bool divides_frames() const override { return true; }
  const char* name() const override { return "a talking photo"; }
};

}  // namespace

const Course& talk_course() {
  static const TalkCourse course;
  return course;
}

}  // namespace tachy
