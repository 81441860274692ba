#include "stages/denoise_stage.h"

#include <algorithm>

#include "base/log.h"
#include "cuda/attention_tally.h"
#include "denoise/denoise_loop.h"
#include "denoise/experts_denoiser.h"
#include "denoise/first_frame_denoiser.h"
#include "denoise/ranks_denoiser.h"
#include "denoise/windows_denoiser.h"
#include "session/session.h"
#include "stages/condition.h"
#include "stages/footage.h"
#include "stages/stages.h"

namespace tachy {
namespace {

// Denoises the latents of one job.
class Denoising {
 public:
  Denoising(Job& job, Session& session, AddToClip add)
      : job_(job),
        session_(session),
        add_(add),
        sampler_(job.request.sampler),
        part_of_step_(part_of_steps(session.model(), sampler_.schedule())) {}
  ~Denoising() { session_.stream().adapters = nullptr; }

  uint64_t run();

 private:
  std::optional<KeptPart> kept_part();
  std::unique_ptr<Denoiser> make(int expert);
  std::unique_ptr<Denoiser> make_on_gpus(int expert);
  // `seat` is null if there is one rank.
  std::unique_ptr<Denoiser> make_denoiser(int expert, const RankSeat* seat = nullptr,
                                          const Bring& bring = {});
  void give_back(int expert, bool another_comes) {
    session_.drop_adapters(expert, another_comes);
    session_.give_back(transformer_part(expert), "after the last step");
  }

  Job& job_;
  Session& session_;
  const AddToClip add_;
  const Sampler& sampler_;
  const std::vector<int> part_of_step_;
  uint64_t tables_ = 0;    // bytes of the denoisers that were made and whose memory stays
  uint64_t adapters_ = 0;  // bytes of the adapters that are added to products and stay
  uint64_t most_ = 0;
};

std::unique_ptr<Denoiser> Denoising::make_denoiser(int expert, const RankSeat* seat, const Bring& bring) {
  const bool further = seat && seat->rank > 0;  // on a card of its own
  RankDevices::Place* const place = further ? &session_.devices()->place(seat->rank) : nullptr;
  const auto at = static_cast<size_t>(expert);
  const auto here = [&](const Tensor& t) { return further ? bring(t) : t; };
  Stream& stream = place ? place->stream : session_.stream();
  const ProfileRange hoisted(stream.hooks.profiler, "hoisted", ProfileKind::group);
  const ModelBundle& model = session_.model();
  const VideoRequest& r = job_.request.request;
  const Shared& shared = job_.shared;
  const LoadedDit& network =
      place ? session_.transformer_of(expert, seat->rank) : session_.transformer(expert);
  const auto begin = std::find(part_of_step_.begin(), part_of_step_.end(), expert);
  const std::span<const double> timesteps = sampler_.schedule().timesteps;
  ClipInput clip{.network = network.model.get(),
                 .weights = model.transformer_of(expert).get(),
                 .first_step = static_cast<int>(begin - part_of_step_.begin()),
                 .text_rows = r.max_text_tokens,
                 .image_embeds = here(shared.image_embeds.defined() ? shared.image_embeds
                                                                    : image_embeds(model, job_.request)),
                 .latent_shape = {shared.latents.shape().begin(), shared.latents.shape().end()},
                 .serial = network.serial,
                 .graph = session_.graph(expert),
                 .ranks = session_.ranks(),
                 .seat = seat,
                 .crew = session_.crew(),
                 .crew_layout = session_.asked_of_crew(),
                 .shelf = place ? session_.rank_shelf(expert, seat->rank) : session_.denoiser_shelf(expert)};
  if (place && clip.graph) clip.graph = &place->graphs.at(at);
  clip.timesteps = timesteps.subspan(static_cast<size_t>(clip.first_step),
                                     static_cast<size_t>(std::count(begin, part_of_step_.end(), expert)));
  for (const Branch& branch : job_.request.guidance.at(static_cast<size_t>(expert))) {
    clip.texts.push_back(here(branch.negative ? shared.negative : shared.text));
    clip.hears.push_back(!branch.silent);
  }
  if (add_) add_(job_, here, clip);
  clip.sinusoid = job_.request.sinusoid;
  clip.riflex = r.riflex;
  clip.few_in_eight_bits = r.int8_keys == "all";
  if (const StepCacheConfig& cache = job_.request.step_cache; cache.of_blocks()) {
    clip.step_cache = &cache;
    clip.steps.all = sampler_.schedule().steps();
    if (model.experts() == 2)
      clip.steps.second_from = static_cast<int>(std::count(part_of_step_.begin(), part_of_step_.end(), 0));
  }
  clip.sparse = job_.request.sparse, clip.dense_steps = job_.request.dense_steps;
  clip.control = here(shared.control), clip.control_scales = job_.request.control.scales;
  const Tensor condition = here(shared.condition);
  const bool framed = condition.defined() && model.family->image_input == ImageInput::first_frame;
  if (const WindowPlan& windows = job_.request.windows; windows.divides(clip.latent_shape.at(1))) {
    if (!framed) clip.channels = condition;
    return std::make_unique<WindowsDenoiser>(
        WindowsDenoiser::Input{.plan = windows,
                               .clip = clip,
                               .frame = framed ? condition : Tensor(),
                               .references = job_.request.control.references},
        stream);
  }
  if (framed) return std::make_unique<FirstFrameDenoiser>(clip, condition, stream);
  clip.channels = condition;
  return std::make_unique<ClipDenoiser>(clip, stream);
}

std::unique_ptr<Denoiser> Denoising::make_on_gpus(int expert) {
  const Resolved& r = job_.request;
  const WanConfig& c = session_.model().dit;
  const std::span<const int64_t> latents = job_.shared.latents.shape();
  const int64_t frames = r.windows.divides(latents[1]) ? r.windows.frames : latents[1];
  const int64_t places = latents[2] / c.patch_h * (latents[3] / c.patch_w);
  // Ranks of a talking photo divide the places of each frame (Course::divides_frames).
  const int64_t divided = r.talk.frames > 0 ? places : frames / c.patch_t * places;
  const auto branches = static_cast<int64_t>(r.guidance.at(static_cast<size_t>(expert)).size());
  return std::make_unique<RanksDenoiser>(
      RanksDenoiser::Input{
          .layout = session_.layout_of_gpus(branches, divided),
          .expert = expert,
          .branches = branches,
          .latent_shape = {latents.begin(), latents.end()},
          .make = [this, expert](const RankSeat& seat,
                                 const Bring& bring) { return make_denoiser(expert, &seat, bring); }},
      session_);
}

std::unique_ptr<Denoiser> Denoising::make(int expert) {
  session_.transformer(expert);   // loaded before make_denoiser's range begins
  session_.add_adapters(expert);  // also for what the denoiser makes once (keys and values of the text)
  std::unique_ptr<Denoiser> out = session_.gpu_ranks() > 1 ? make_on_gpus(expert) : make_denoiser(expert);
  tables_ = out->bytes() + (session_.placement().keeps ? tables_ : 0);
  adapters_ = session_.adapter_bytes(expert) + (session_.placement().keeps ? adapters_ : 0);
  most_ = std::max(most_, session_.part_bytes() + tables_ + adapters_);
  return out;
}

// Warns if part of what was to be computed in 8 bits was not.
void report_attention(const Stream& stream, const cuda::AttentionTally& before) {
  const cuda::AttentionTally now = cuda::read_attention_tally(*stream.gpu);
  if (now.wide == before.wide) return;
  warn(
      "attention: {:.1f} % of the queries were computed in {} again, since 8 bits cannot hold their scores "
      "or values",
      100.0 * static_cast<double>(now.wide - before.wide) / static_cast<double>(now.asked - before.asked),
      dtype_name(stream.precision.activation));
}

// The noise is drawn once more, so that a run that resumes has it, too.
std::optional<KeptPart> Denoising::kept_part() {
  const Resolved& r = job_.request;
  if (!keeps_part(r)) return std::nullopt;
  const Tensor& latents = job_.shared.latents;
  const bool measuring = session_.measuring();
  std::vector<float> noise(measuring ? 0 : static_cast<size_t>(latents.numel())), mask;
  if (!measuring) {
    NoiseSource source(r.request);
    source.draw(noise);
    if (r.windows.divides(latents.dim(1)) && r.request.free_noise == "on")
      repeat_noise(r.windows, latents.dim(1), latents.dim(0), noise,
                   [&](int64_t n) { return source.permutation(n); });
    mask = start_mask(session_.model().vae_config, r);
  }
  return std::optional<KeptPart>(std::in_place, job_.shared.start, mask, noise, session_.stream());
}

uint64_t Denoising::run() {
  const ModelBundle& model = session_.model();
  const TalkWindows& talk = job_.request.talk;
  const int first = job_.resume ? static_cast<int>(job_.resume->step) : 0;
  session_.transformer(part_of_step_.at(static_cast<size_t>(first)));
  // The plan includes all that stays for later requests, even what this one does not need.
  for (int i = 0; i < model.experts() && session_.placement().keeps && session_.measuring(); ++i)
    session_.transformer(i);
  const ProfileRange range(session_.stream().hooks.profiler, "denoise", ProfileKind::group);
  std::unique_ptr<Denoiser> denoiser;
  if (model.experts() == 2)
    denoiser = std::make_unique<ExpertsDenoiser>(
        part_of_step_, first, [this](int expert) { return make(expert); },
        [this](int expert) { give_back(expert, true); });
  else
    denoiser = make(0);
  const std::optional<KeptPart> kept = kept_part();
  if (job_.shared.start.defined() && !job_.resume)
    add_noise(job_.shared.start, sampler_.schedule().sigmas.front(), job_.shared.latents, session_.stream());
  DenoiseLoop loop({.sampler = &sampler_,
                    .guidance = job_.request.guidance,
                    .step_cache = job_.request.step_cache,
                    .latents = job_.shared.latents,
                    .noise = job_.noise,
                    .callbacks = session_.callbacks(),
                    .preview_factors = &model.preview_factors,
                    .window = job_.window,
                    .windows = std::max<int64_t>(talk.count(), 1),
                    .draws_go_on = job_.window + 1 < talk.count(),
                    .frames = talk.first_new(job_.window),
                    .motion = job_.window > 0 ? job_.shared.motion : Tensor(),
                    .resume = job_.resume,
                    .reused = &job_.steps_reused,
                    .kept = kept ? &*kept : nullptr,
                    .shelf = session_.loop_shelf()},
                   *denoiser, session_.stream());
  const bool counts =
      session_.stream().gpu && session_.stream().precision.attention_int8 && !session_.measuring();
  const auto before = counts ? cuda::read_attention_tally(*session_.stream().gpu) : cuda::AttentionTally{};
  loop.run();
  if (counts) report_attention(session_.stream(), before);
  denoiser.reset();
  give_back(part_of_step_.back(), false);
  return most_ + loop.bytes() + (kept ? kept->bytes() : 0);
}

class DenoiseStage final : public Stage {
 public:
  explicit DenoiseStage(AddToClip add) : add_(add) {}
  const char* name() const override { return "denoise"; }
  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.mapped_transformer_bytes();
  }
  uint64_t run(Job& job, Session& session) const override { return Denoising(job, session, add_).run(); }

 private:
  AddToClip add_;
};

}  // namespace

std::vector<int> part_of_steps(const ModelBundle& model, const Schedule& schedule) {
  std::vector<int> out(schedule.timesteps.size(), 0);
  for (int i = 0; i < schedule.steps() && model.experts() == 2; ++i)
    out[static_cast<size_t>(i)] = schedule.high_noise(i, model.boundary) ? 0 : 1;
  return out;
}

std::unique_ptr<Stage> make_denoise_stage(AddToClip add) { return std::make_unique<DenoiseStage>(add); }

}  // namespace tachy
