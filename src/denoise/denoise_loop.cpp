#include "denoise/denoise_loop.h"

#include <algorithm>

#include "denoise/preview.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pick_record.h"
#include "session/stage_clock.h"
#include "tensor/transfer.h"
#include "tensor/work_tally.h"

namespace tachy {

DenoiseLoop::DenoiseLoop(const LoopInput& in, Denoiser& denoiser, Stream& stream)
    : in_(in),
      sampler_(*in.sampler),
      denoiser_(denoiser),
      stream_(stream),
      store_({.shelf = in.shelf}, stream) {
  const Tensor& x = in.latents;
  size_t branches = 1;
  for (const Branches& of_part : in.guidance) branches = std::max(branches, of_part.size());
  velocity_ =
      store_.allocate(DType::f32, {static_cast<int64_t>(branches), x.dim(0), x.dim(1), x.dim(2), x.dim(3)});
  noise_ = store_.allocate(DType::f32, x.shape());
  for (int i = 0; i < sampler_.state_tensors(); ++i) state_.push_back(store_.allocate(DType::f32, x.shape()));
  cache_ = make_step_cache(in.step_cache, x, static_cast<int64_t>(branches), denoiser, store_);
  kept_ = state_;
  if (cache_)
    for (const Tensor& t : cache_->state()) kept_.push_back(t);
  for (size_t i = 0; i < kept_.size(); ++i)
    if (in.resume)
      upload(in.resume->solver.at(i).data(), kept_[i], stream);
    else
      zero(kept_[i], stream);
}

void DenoiseLoop::run() {
  const int steps = sampler_.steps(), first = in_.resume ? static_cast<int>(in_.resume->step) : 0;
  const int64_t before = in_.window * steps;
  StageClock clock(in_.callbacks, "denoise", in_.windows * steps, before + first);
  ProfileRange range(stream_.hooks.profiler);
  if (in_.window > 0 && !in_.resume) report_state(0);
  if (cache_ && in_.resume && first < steps) cache_->resumed(place(first), velocity_of(first));
  for (int i = first; i < steps; ++i) {
    stream_.throw_if_cancelled();
    range.next("step", ProfileKind::group, i);
    step(i);
    report_state(i + 1);
    clock.done(before + i + 1);
  }
}

// The passes of a part and kind are alike, except for what the first one prepares. A measure run goes through
// the first two, and counts the second one's work and picks for those after it, too.
void DenoiseLoop::predict(int i, const Tensor& velocity) {
  const auto like = [&](int step) {
    return denoiser_.part(step) == denoiser_.part(i) && denoiser_.kind(step) == denoiser_.kind(i);
  };
  if (!stream_.measuring() || i == 0 || !like(i - 1)) return denoiser_.predict(in_.latents, i, velocity);
  if (i >= 2 && like(i - 2)) return;
  int end = i + 1;
  while (end < sampler_.steps() && like(end)) ++end;
  const Hooks& hooks = stream_.hooks;
  const uint64_t flops = hooks.flops ? *hooks.flops : 0;
  const ops::PickRecord picks = hooks.picks ? *hooks.picks : ops::PickRecord();
  WorkTally* tally = WorkTally::current();
  const WorkTally work = tally ? *tally : WorkTally();
  denoiser_.predict(in_.latents, i, velocity);
  if (tally) tally->repeat_since(work, end - i);
  if (hooks.flops) *hooks.flops += (*hooks.flops - flops) * static_cast<uint64_t>(end - i - 1);
  if (hooks.picks) hooks.picks->repeat_since(picks, end - i);
}

StepPlace DenoiseLoop::place(int i) const {
  int first = i;
  while (first > 0 && denoiser_.part(first - 1) == denoiser_.part(i)) --first;
  return {.step = i, .in_part = i - first, .last = i + 1 == sampler_.steps()};
}

void DenoiseLoop::step(int i) {
  using Found = StepCache::Found;
  const int steps = sampler_.steps();
  const StepPlace at = place(i);
  const Branches& branches = guidance(i);
  const Tensor velocity = velocity_of(i), prediction = velocity.select(0, 0);
  if (cache_ && i > 0 && at.in_part == 0) cache_->forget();
  const Found found = cache_ ? cache_->reuse(at, in_.latents, velocity) : Found::nothing;
  if (found == Found::nothing) predict(i, velocity);
  const uint32_t everyone = (uint32_t{1} << branches.size()) - 1;
  const bool reused = found != Found::nothing || denoiser_.reuses(i) == everyone;
  if (reused && in_.reused) ++*in_.reused;
  const ProfileRange range(stream_.hooks.profiler, reused ? "sampler (model output reused)" : "sampler",
                           ProfileKind::elementwise);
  // A reused prediction has only the first branch.
  expect_finite(i, found == Found::prediction ? prediction : velocity);
  const bool computed = cache_ && found == Found::nothing;
  if (computed) cache_->computed(at, in_.latents, velocity);
  if (found != Found::prediction) guide(branches, velocity);
  if (computed) cache_->guided(in_.latents, prediction);
  draw_noise(i);
  preview(i, prediction);
  update(i, prediction);
  if (in_.kept) in_.kept->put(in_.latents, sampler_.schedule().sigmas[static_cast<size_t>(i) + 1], stream_);
  if (i + 1 == steps) denoiser_.put_given(in_.latents);
}

void DenoiseLoop::expect_finite(int i, const Tensor& predicted) {
  if (in_.marks) return in_.marks->note_step(i, predicted, stream_);
  check(ops::all_finite(predicted, stream_), ErrorCode::numerical, "{}",
        FiniteMarks::of_step(i, sampler_.steps()));
}

// Computes Σ weight · velocity over the branches, from the last one to the first: u (1 - g) + c g.
void DenoiseLoop::guide(const Branches& branches, const Tensor& velocity) {
  const size_t count = branches.size();
  if (count == 1) return;
  ops::LincombArgs sum{.count = static_cast<int>(count), .out = velocity.select(0, 0)};
  for (size_t k = 0; k < count; ++k) {
    const size_t branch = count - 1 - k;
    sum.terms.at(k) = {velocity.select(0, static_cast<int64_t>(branch)), branches[branch].weight};
  }
  ops::lincomb(sum, stream_);
}

void DenoiseLoop::draw_noise(int i) {
  // What the last step draws matters only for the noise of a further window.
  if (stream_.measuring() || !(sampler_.needs_noise(i) || (in_.draws_go_on && sampler_.always_draws())))
    return;
  in_.noise->fill(noise_, stream_);
}

// Shows x0 as the model predicts it now.
void DenoiseLoop::preview(int i, const Tensor& prediction) {
  const ArenaScope scope(*stream_.arena);
  const Tensor clean = stream_.arena->tensor(DType::f32, in_.latents.shape());
  if (stream_.measuring() || !in_.callbacks || !in_.callbacks->preview) return;
  ops::LincombArgs sum{.count = 2, .out = clean};
  sum.terms[0] = {in_.latents, 1};
  sum.terms[1] = {prediction, sampler_.denoised_coefficient(i)};
  ops::lincomb(sum, stream_);
  denoiser_.put_given(clean);
  std::vector<float> values(static_cast<size_t>(clean.numel()));
  download(clean, values.data(), stream_);
  const Preview picture =
      latent_preview(Tensor(values.data(), DType::f32, clean.shape()), *in_.preview_factors);
  in_.callbacks->preview({picture.rgb, picture.width, picture.height}, i);
}

void DenoiseLoop::update(int i, const Tensor& prediction) {
  const auto tensor_of = [&](Slot slot) {
    if (slot == Slot::latent) return in_.latents;
    if (slot == Slot::prediction) return prediction;
    if (slot == Slot::noise) return noise_;
    return state_.at(static_cast<size_t>(static_cast<int>(slot) - static_cast<int>(Slot::state)));
  };
  for (const Assignment& a : sampler_.update(i)) {
    ops::LincombArgs sum{.count = static_cast<int>(a.terms.size()), .out = tensor_of(a.target)};
    for (size_t k = 0; k < a.terms.size(); ++k)
      sum.terms[k] = {tensor_of(a.terms[k].slot), a.terms[k].coefficient};
    ops::lincomb(sum, stream_);
  }
}

void DenoiseLoop::report_state(int64_t finished) {
  if (!in_.callbacks || !in_.callbacks->state) return;
  const auto& wants = in_.callbacks->wants_state;
  if (wants && !wants({finished, sampler_.steps(), in_.window, in_.windows})) return;
  host_.resize(kept_.size() + 2);
  size_t next = 0;
  const auto values = [&](const Tensor& t) {
    const auto count = static_cast<size_t>(t.numel());
    if (!stream_.gpu) return std::span<const float>(t.as<float>(), count);
    std::vector<float>& copy = host_[next++];
    copy.resize(count);
    download(t, copy.data(), stream_);
    return std::span<const float>(copy);
  };
  RunStateView view{finished,   sampler_.steps(), values(in_.latents), {}, in_.noise->save(),
                    in_.window, in_.windows,      in_.frames,          {}};
  for (const Tensor& t : kept_) view.solver.push_back(values(t));
  if (in_.motion.defined()) view.motion = values(in_.motion);
  in_.callbacks->state(view);
}

}  // namespace tachy
