// The plan of a request: exact bytes of every stage by a dry run, and on a GPU how many blocks must stay on
// the host for it to keep within what it may take.
//
// A stage with n of its N blocks streamed holds (N - n + 2)·block_bytes of them: two slots stand for the n.
// The fewest that fit are streamed; n = N is the least a stage can take.
#include <algorithm>

#include "base/env.h"
#include "base/log.h"
#include "base/memory_room.h"
#include "pipelines/text_to_video.h"

namespace tachy {
namespace {

constexpr uint64_t kGpuLibraryBytes = uint64_t{400} << 20;  // of cuBLASLt, cuDNN and kernels

uint64_t bytes_of(const VideoPlan& plan, const StagePlan& stage) {
  return plan.shared_bytes + stage.weight_bytes + stage.arena_bytes;
}

// The fewest streamed blocks that take `excess` off a stage, or all of them.
int64_t fewest(const StagePlan& stage, uint64_t excess) {
  if (stage.blocks < runtime::BlockStream::kFewest) return 0;
  const auto saving = static_cast<int64_t>((excess + stage.block_bytes - 1) / stage.block_bytes);
  return std::clamp(saving + 2, runtime::BlockStream::kFewest, stage.blocks);
}

}  // namespace

VideoPlan TextToVideo::plan_with(const ResolvedRequest& r, const Prompts& prompts,
                                 const Placement& placement) {
  VideoPlan plan;
  Arena no_arena;
  Stream no_stream = stream_on(no_arena);
  nn::ParamStore shared_store({.plan_only = true}, no_stream);
  const Shared shared(r, model_, prompts.positive.size(), prompts.negative.size(), shared_store);
  // Files are read on the host.
  plan.shared_bytes = shared_store.bytes() + (memory() ? 0 : model_.read_bytes());

  Loaded loaded;
  Walk walk{.request = r, .prompts = prompts, .shared = shared, .placement = placement, .loaded = loaded};
  for (const Stage& stage : stages(r, prompts)) {
    Arena arena;
    uint64_t flops = 0;
    Stream stream = stream_on(arena);
    stream.hooks.flops = &flops;
    ops::PickRecord picks;
    stream.hooks.picks = &picks;
    walk.blocks = {};
    const uint64_t held = (this->*stage.run)(walk, stream);
    plan.stages.push_back({.name = stage.name,
                           .mapped_bytes = stage.mapped_bytes,
                           .weight_bytes = held,
                           .arena_bytes = align_up(std::max<size_t>(arena.peak(), 1)),
                           .flops = static_cast<double>(flops),
                           .blocks = walk.blocks.blocks,
                           .streamed = walk.blocks.streamed,
                           .block_bytes = walk.blocks.block_bytes,
                           .host_bytes = walk.blocks.host_bytes,
                           .picks = picks.picks()});
    loaded = {};  // each stage is counted on its own, also where models stay
  }
  uint64_t kept = 0, kept_on_host = 0;
  for (const StagePlan& s : plan.stages) {
    plan.peak_bytes = std::max(plan.peak_bytes, plan.shared_bytes + s.weight_bytes + s.arena_bytes + kept);
    plan.host_bytes = std::max(plan.host_bytes, s.host_bytes + kept_on_host);
    if (placement.keeps) kept += s.weight_bytes, kept_on_host += s.host_bytes;  // an upper bound
  }
  plan.keeps = placement.keeps;
  return plan;
}

VideoPlan TextToVideo::plan_within(const ResolvedRequest& r, const Prompts& prompts) {
  Placement placement{.keeps = options_.keep_loaded};
  VideoPlan plan = plan_with(r, prompts, placement);
  if (!memory()) return plan;
  const uint64_t libraries = gpu_ ? kGpuLibraryBytes : 0,
                 free = StreamingMemory::of(memory())->free_bytes() + memory()->live_bytes();
  const bool limited = options_.max_vram > 0 && options_.max_vram < free;
  const uint64_t may = limited ? options_.max_vram : free;
  const uint64_t budget = may > libraries ? may - libraries : 0;
  std::string why = limited
                        ? fmt::format("--max-vram {}", human_bytes(may))
                        : fmt::format("{} free on {}", human_bytes(free), gpu_ ? gpu_->info().name : "it");
  if (plan.peak_bytes > budget && placement.keeps) {
    placement.keeps = false;
    plan = plan_with(r, prompts, placement);
  }
  if (plan.peak_bytes > budget) {
    const auto streamed = [&](const char* name) {
      const StagePlan& s = stage_plan(plan, name);
      const uint64_t need = bytes_of(plan, s);
      return need > budget ? fewest(s, need - budget) : 0;
    };
    placement.text = streamed("text"), placement.denoise = streamed("denoise");
    plan = plan_with(r, prompts, placement);
  }
  plan.budget_bytes = budget, plan.budget = std::move(why);
  return plan;
}

VideoPlan TextToVideo::make_plan(const ResolvedRequest& r, const Prompts& prompts) {
  ++counters_.planned;
  VideoPlan plan = plan_within(r, prompts);
  if (memory() && plan.peak_bytes > plan.budget_bytes) plan.would_fit = what_would_fit(r, prompts);
  return plan;
}

// The most frames of this size that fit; "" when not even the fewest do.
std::string TextToVideo::what_would_fit(const ResolvedRequest& r, const Prompts& prompts) {
  const auto stride = static_cast<int>(model_.vae_config.temporal_stride());
  const auto fits = [&](int chunks) {
    ResolvedRequest smaller = r;
    smaller.request.frames = chunks * stride + 1;
    smaller.latent_frames = model_.vae_config.latent_frames(*smaller.request.frames);
    const VideoPlan plan = plan_within(smaller, prompts);
    return plan.peak_bytes <= plan.budget_bytes;
  };
  int good = r.pictured ? 1 : 0, bad = (*r.request.frames - 1) / stride;
  if (good >= bad || !fits(good)) return "a smaller --size";
  while (bad - good > 1) {
    const int middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return fmt::format("--frames {} or a smaller --size", good * stride + 1);
}

void TextToVideo::release_unless(const VideoPlan& plan) {
  const StagePlan& text = stage_plan(plan, "text");
  if (!plan.keeps || loaded_.text.blocks.streamed != text.streamed || text.flops == 0) loaded_.text = {};
  for (LoadedDit& dit : loaded_.transformers.parts)
    if (!plan.keeps || dit.blocks.streamed != stage_plan(plan, "denoise").streamed) dit = {};
  if (!plan.keeps) loaded_.vae = {}, loaded_.encoder = {};
}

void TextToVideo::check_memory(const VideoPlan& plan) const {
  const MemoryRoom room = memory_room(pool_.threads());
  // What a kept model already holds is part of the plan and already taken.
  if (memory()) {
    const auto& most = *std::max_element(plan.stages.begin(), plan.stages.end(), [&](auto& a, auto& b) {
      return bytes_of(plan, a) < bytes_of(plan, b);
    });
    const uint64_t libraries = gpu_ ? kGpuLibraryBytes : 0;
    const uint64_t need = plan.peak_bytes + libraries;
    // A larger --max-vram helps only where it is the limit.
    const std::string larger = plan.budget.starts_with("--max-vram")
                                   ? fmt::format("--max-vram {}MiB or ", (need >> 20) + 1)
                                   : std::string();
    check(plan.peak_bytes <= plan.budget_bytes, ErrorCode::out_of_memory,
          "this run needs {} of GPU memory ({} bytes{}; the most in the stage '{}'{}), but {} leaves {}; "
          "{}{} would "
          "fit",
          human_bytes(need), need,
          libraries ? fmt::format(", about {} of them for libraries", human_bytes(libraries)) : "", most.name,
          most.streamed ? fmt::format(", with all its {} blocks in host memory", most.blocks) : "",
          plan.budget, human_bytes(plan.budget_bytes), larger, plan.would_fit);
    const uint64_t held = loaded_.text.blocks.host_bytes + loaded_.transformers.host_bytes();
    const uint64_t pinned = plan.host_bytes > held ? plan.host_bytes - held : 0;
    check(pinned + kLibraryBytes <= room.bytes, ErrorCode::out_of_memory,
          "blocks that do not fit the GPU need {} of host memory ({} bytes), but {} leaves {}; a larger "
          "--max-vram, a "
          "smaller --size or fewer --frames need less (see --plan)",
          human_bytes(pinned), pinned, room.limit, human_bytes(room.bytes));
    return;
  }
  const uint64_t held =
      model_.read_bytes() + loaded_.text.bytes + loaded_.transformers.bytes() + loaded_.vae.bytes;
  const uint64_t need = plan.peak_bytes > held ? plan.peak_bytes - held : 0;
  check(need + kLibraryBytes <= room.bytes, ErrorCode::out_of_memory,
        "this run needs {} of memory ({} bytes) and about {} for libraries, but {} leaves {}; a smaller "
        "--size, fewer --frames or --weights mapped need less (see --plan)",
        human_bytes(need), need, human_bytes(kLibraryBytes), room.limit, human_bytes(room.bytes));
}

}  // namespace tachy
