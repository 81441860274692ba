// A stage with n of its N blocks streamed holds (N - n + 2)·block_bytes of them: two slots stand for the n,
// or slightly more if a file stores some blocks in fewer bytes than others. As few blocks as possible are
// streamed; with n = N a stage takes the least memory it can.
#include "engine/memory_plan.h"

#include <algorithm>

#include "base/env.h"
#include "base/log.h"
#include "engine/courses/course.h"
#include "runtime/crew.h"
#include "session/admission.h"
#include "stages/by_rows.h"
#include "tensor/work_tally.h"

namespace tachy {
namespace {

// Returns the fewest streamed blocks that save `excess` bytes in a stage, or all of them.
int64_t fewest(const StagePlan& stage, uint64_t excess) {
  if (stage.blocks < runtime::BlockStream::kFewest) return 0;
  const auto saving = static_cast<int64_t>((excess + stage.block_bytes - 1) / stage.block_bytes);
  return std::clamp(saving + 2, runtime::BlockStream::kFewest, stage.blocks);
}

// If a talking photo has several windows, its transformer stays for the next one while a window is decoded
// and its end is encoded. Returns the stage of this name, or the later one that takes most beside the same
// blocks.
const StagePlan& widest_stage(const VideoPlan& plan, std::string_view name, bool stays) {
  const StagePlan* widest = &stage_plan(plan, name);
  for (const StagePlan& s : plan.stages)
    if (stays && (s.name == "decode" || s.name == "motion") && bytes_of(plan, s) > bytes_of(plan, *widest))
      widest = &s;
  return *widest;
}

bool on_device(const PlanInput& in) { return in.room > 0 || in.model->memory(); }

VideoPlan plan_with(const PlanInput& in, const Placement& placement) {
  if (WorkTally* tally = WorkTally::current()) *tally = {};  // keeps only the last plan's count
  Session session(*in.model, in.gpu, Session::Kind::measuring);
  session.begin({.precision = in.request->precision,
                 .without = in.request->without,
                 .vae = in.vae,
                 .placement = placement,
                 .cancel = in.cancel,
                 .adapters = in.adapters});
  VideoPlan plan;
  nn::ParamStore shared_store({}, session.stream());
  const Shared shared(*in.request, in.model->bundle(), *in.prompts, shared_store);
  // Files that are read lie in host memory.
  plan.shared_bytes = shared_store.bytes() + (on_device(in) ? 0 : in.model->bundle().read_bytes());
  Job job{.request = *in.request, .prompts = *in.prompts, .shared = shared};
  plan.stages = course_of(*in.request).walk(job, session);
  plan.keeps = placement.keeps, plan.keys_stay = placement.keys_stay;
  plan.vae_latents = placement.vae_latents;
  uint64_t kept = 0, arena = 0;
  for (const StagePlan& s : plan.stages) {
    plan.peak_bytes = std::max(plan.peak_bytes, bytes_of(plan, s));
    plan.host_bytes = std::max(plan.host_bytes, s.host_bytes);
    kept += s.weight_bytes, arena = std::max(arena, s.arena_bytes);
  }
  // If parts stay, one arena serves all stages, and what any stage has made stays: this is an upper bound.
  if (placement.keeps) plan.peak_bytes = plan.shared_bytes + kept + arena;
  return plan;
}

uint64_t graph_bytes(const PlanInput& in) {
  if (!in.gpu || !in.model->options().graphs || in.request->without.has(Optimisation::graphs)) return 0;
  return course_of(*in.request).graph_bytes(*in.request, in.model->bundle().dit);
}

Budget budget_of(const PlanInput& in, uint64_t graphs) {
  const uint64_t libraries = (in.gpu ? kGpuLibraryBytes : 0) + graphs;
  return in.room > 0 ? budget_within(in.room, in.model->options().max_vram, 0, libraries, in.gpu->info().name)
                     : in.model->tenancy().budget(libraries);
}

// Latent frames that the VAE takes at a time where there is room: with two, a GPU has fewer and fuller launches and
// copies half as many frames into caches. GPUs that share the rows of a decoded picture take four: each has a part of
// every frame, and they wait for one another a third as often. Processes that share them have memory of their own and
// must do the same, so they take one.
int64_t vae_latents_at_best(const PlanInput& in) {
  const runtime::Crew* const crew = in.model->options().crew.get();
  const bool shared = crew && crew->size() > 1, gpus = in.model->ranks() > 1;
  if (!on_device(in) || (gpus && !in.model->on_gpus())) return 1;
  const bool by_rows =
      (shared || gpus) && gpus_decode_by_rows(in.model->bundle().vae_config, in.request->latent_height,
                                              in.request->latent_width, !shared || crew->on_one_host());
  return by_rows ? (shared ? 1 : 4) : 2;
}

VideoPlan plan_within(const PlanInput& in) {
  Placement placement{.keeps = in.model->options().keep_loaded,
                      .keys_stay = keys_may_stay(in),
                      .vae_latents = vae_latents_at_best(in),
                      .ranks = in.model->ranks()};
  VideoPlan plan = plan_with(in, placement);
  if (!on_device(in)) return plan;
  const uint64_t graphs = graph_bytes(in);
  const Budget may = budget_of(in, graphs);
  const uint64_t budget = may.bytes;
  while (plan.peak_bytes > budget && placement.vae_latents > 1) {
    placement.vae_latents /= 2;
    plan = plan_with(in, placement);
  }
  // A request needs these layers once, so they are the first that make room: each request then sends them.
  if (plan.peak_bytes > budget && placement.keys_stay) {
    placement.keys_stay = false;
    plan = plan_with(in, placement);
  }
  if (plan.peak_bytes > budget && placement.keeps) {
    placement.keeps = false;
    plan = plan_with(in, placement);
  }
  const bool again = course_of(*in.request).comes_again(*in.request);
  const auto need = [&](std::string_view name) {
    return bytes_of(plan, widest_stage(plan, name, name == "denoise" && again));
  };
  if (plan.peak_bytes > budget) {
    const auto streamed = [&](const char* name) {
      const uint64_t bytes = need(name);
      return bytes > budget ? fewest(stage_plan(plan, name), bytes - budget) : 0;
    };
    placement.text = streamed("text"), placement.denoise = streamed("denoise");
    check(placement.denoise == 0 || !in.model->on_gpus(), ErrorCode::unsupported,
          "`gpus`: the run needs {} of each GPU, and {} allows {}: blocks that stay in host memory are for "
          "one GPU "
          "alone; leave `gpus` out, or make a smaller clip",
          human_bytes(plan.peak_bytes), may.why, human_bytes(budget));
    plan = plan_with(in, placement);
  }
  // Blocks that are smaller than the largest one saved less than assumed.
  const auto one_more = [&](const char* name, int64_t& streamed) {
    if (need(name) <= budget || streamed == 0 || streamed == stage_plan(plan, name).blocks) return false;
    return ++streamed, true;
  };
  while (plan.peak_bytes > budget) {
    const bool text = one_more("text", placement.text), denoise = one_more("denoise", placement.denoise);
    if (!text && !denoise) break;
    plan = plan_with(in, placement);
  }
  plan.budget_bytes = budget, plan.budget = may.why, plan.graph_bytes = graphs;
  return plan;
}

// Returns the largest number of frames of this size that fit; "" if not even the smallest one does.
std::string what_would_fit(const PlanInput& in) {
  const Resolved& r = *in.request;
  if (const char* text = course_of(r).would_fit()) return text;
  const VaeConfig& vae = in.model->bundle().vae_config;
  const auto stride = static_cast<int>(vae.temporal_stride());
  WorkTally aside;
  const WorkTally::Counting counting(aside);
  const auto fits = [&](int chunks) {
    Resolved smaller = r;
    smaller.request.frames = chunks * stride + 1;
    smaller.clip_frames = *smaller.request.frames;
    smaller.latent_frames = vae.latent_frames(smaller.clip_frames) + r.control.references;
    PlanInput other = in;
    other.request = &smaller;
    const VideoPlan plan = plan_within(other);
    return plan.peak_bytes <= plan.budget_bytes;
  };
  int good = r.pictured ? 1 : 0, bad = (*r.request.frames - 1) / stride;
  if (good >= bad || !fits(good)) return "a smaller size";
  while (bad - good > 1) {
    const int middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return fmt::format("`frames` {} or a smaller size", good * stride + 1);
}

}  // namespace

bool keys_may_stay(const PlanInput& in) { return in.model->options().keep_loaded && in.gpu; }

bool set_budget(const PlanInput& in, VideoPlan& plan) {
  if (!on_device(in)) return true;
  const Budget may = budget_of(in, plan.graph_bytes);
  plan.budget_bytes = may.bytes, plan.budget = may.why;
  return plan.peak_bytes <= may.bytes;
}

VideoPlan make_plan(const PlanInput& in) {
  VideoPlan plan = plan_within(in);
  if (in.prompts) plan.dropped_tokens = in.prompts->dropped;
  if (on_device(in) && plan.peak_bytes > plan.budget_bytes) plan.would_fit = what_would_fit(in);
  return plan;
}

void report_offload(const VideoPlan& plan, bool asked) {
  for (const StagePlan& s : plan.stages) {
    if (s.streamed == 0) continue;
    const std::string text =
        fmt::format("{}: {} of {} blocks ({}) stay in host memory and pass through the GPU in every pass: {}",
                    s.name, s.streamed, s.blocks, human_bytes(s.host_bytes), plan.budget);
    if (asked)
      log_topic("plan", "{}", text);
    else
      warn("{}", text);
  }
}

}  // namespace tachy
