#include "engine/known_plans.h"

#include "tensor/work_tally.h"

namespace tachy {
namespace {

constexpr size_t kMost = 4;

// A plan that had to save memory may be a better one when more is free.
bool as_wished(const VideoPlan& plan, const PlanInput& in) {
  const bool streams = std::ranges::any_of(plan.stages, [](const StagePlan& s) { return s.streamed > 0; });
  return !streams && plan.keeps == in.model->options().keep_loaded && plan.keys_stay == keys_may_stay(in) &&
         plan.would_fit.empty();
}

}  // namespace

// Files may change between two requests, so those with adapters are planned each time; and those with videos or with two
// speakers, of which more than a size matters. A picture has the video's size by now, and of speech the length matters.
std::optional<KnownPlans::Shape> KnownPlans::shape_of(const PlanInput& in) {
  const Resolved& r = *in.request;
  const VideoRequest& q = r.request;
  if (!in.prompts || in.adapters || in.room > 0 || WorkTally::current() || q.video || q.control_video ||
      q.mask_video || q.reference || q.speech_2 || !q.loras.empty())
    return std::nullopt;
  Shape shape{.request = q,
              .precision = r.precision,
              .vae = in.vae,
              .graphs = r.graphs,
              .positive = in.prompts->positive.size(),
              .negative = in.prompts->negative.size(),
              .encodes_positive = in.prompts->positive_text.empty(),
              .encodes_negative = in.prompts->negative_text.empty(),
              .image = q.image != nullptr,
              .last_image = q.last_image != nullptr,
              .embeds = q.image_embeds ? q.image_embeds->values.size() : 0,
              .samples = r.speech.size(),
              .spoken = r.talk.spoken};
  VideoRequest& own = shape.request;
  own.image.reset(), own.last_image.reset(), own.image_embeds.reset(), own.speech.reset();
  shape.request.prompt.clear(), shape.request.negative_prompt.reset();
  shape.request.seed = 0, shape.request.init_latents.clear();
  return shape;
}

std::optional<VideoPlan> KnownPlans::known(const Shape& shape, const PlanInput& in) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(plans_, shape, &Known::shape);
  if (found == plans_.end()) return std::nullopt;
  plans_.splice(plans_.begin(), plans_, found);
  VideoPlan plan = found->plan;
  if (!set_budget(in, plan)) return std::nullopt;
  plan.dropped_tokens = in.prompts->dropped;
  return plan;
}

VideoPlan KnownPlans::plan(const PlanInput& in) {
  const std::optional<Shape> shape = shape_of(in);
  if (shape)
    if (std::optional<VideoPlan> before = known(*shape, in)) return ++reused_, *std::move(before);
  VideoPlan plan = make_plan(in);
  if (!shape || !as_wished(plan, in)) return plan;
  const std::lock_guard lock(mutex_);
  std::erase_if(plans_, [&](const Known& k) { return k.shape == *shape; });
  plans_.push_front({*shape, plan});
  if (plans_.size() > kMost) plans_.pop_back();
  return plan;
}

}  // namespace tachy
