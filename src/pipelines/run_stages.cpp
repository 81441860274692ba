#include "pipelines/run_stages.h"

#include <algorithm>
#include <optional>

#include "base/env.h"
#include "base/log.h"
#include "ops/elementwise/elementwise.h"
#include "pipelines/condition.h"
#include "tensor/streaming_memory.h"
#include "tensor/transfer.h"

namespace tachy {

Shared::Shared(const ResolvedRequest& r, const ModelBundle& model, size_t positive, size_t negative_count,
               nn::ParamStore& store) {
  const int64_t width = model.text.d_model;
  text = store.allocate(DType::f32, {static_cast<int64_t>(positive), width});
  if (r.guided) negative = store.allocate(DType::f32, {static_cast<int64_t>(negative_count), width});
  if (const auto dims = condition_dims(model, r); !dims.empty())
    condition = store.allocate(DType::f32, std::span<const int64_t>(dims));
  latents = store.allocate(DType::f32, {r.latent_channels, r.latent_frames, r.latent_height, r.latent_width});
}

void decode(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks, Stream& stream) {
  const int64_t total = vae.config().pixel_frames(latents.dim(1));
  // Pixels as bytes, four frames at a time: taken here so
  // that the measure run, which calls no sink, counts them.
  const int64_t stride = vae.config().spatial_stride(),
                chunk = std::min(total, vae.config().temporal_stride());
  const int64_t height = latents.dim(2) * stride, width = latents.dim(3) * stride;
  const ArenaScope scope(*stream.arena);
  const Tensor bytes = stream.arena->tensor(DType::u8, {chunk, height, width, 3});
  std::vector<uint8_t> host(stream.gpu && !stream.measuring() ? static_cast<size_t>(bytes.bytes()) : 0);
  std::optional<StageClock> clock;
  if (!stream.measuring()) clock.emplace(callbacks, "decode", total);
  vae.decode(
      latents,
      [&](const Tensor& frames, int64_t first) {
        const Tensor rgb = bytes.slice(0, 0, frames.dim(0));
        ProfileRange part(stream.hooks.profiler, "pixels", ProfileKind::elementwise);
        ops::to_rgb8(frames, rgb, stream);
        const uint8_t* pixels = stream.gpu ? host.data() : rgb.as<uint8_t>();
        if (stream.gpu) download(rgb, host.data(), stream);
        part.next("frames out", ProfileKind::output);
        for (int64_t i = 0; i < frames.dim(0); ++i)
          if (callbacks && callbacks->frame)
            callbacks->frame({{pixels + i * height * width * 3, static_cast<size_t>(height * width * 3)},
                              static_cast<int>(width),
                              static_cast<int>(height)},
                             first + i);
        clock->done(first + frames.dim(0));
      },
      stream);
}

const StagePlan& stage_plan(const VideoPlan& plan, std::string_view name) {
  const auto found = std::find_if(plan.stages.begin(), plan.stages.end(),
                                  [&](const StagePlan& s) { return s.name == name; });
  check(found != plan.stages.end(), ErrorCode::internal, "plan: no stage '{}'", name);
  return *found;
}

void in_stage(const char* name, const VideoPlan& plan, Stream& stream, Arena& between,
              const std::function<void()>& body) {
  const MemoryLabel weights(stream.memory, fmt::format("{}: weights, tables", name));
  try {
    std::optional<Arena> arena;
    {
      const MemoryLabel activations(stream.memory, fmt::format("{}: activations", name));
      arena.emplace(stage_plan(plan, name).arena_bytes, stream.memory);
    }
    stream.arena = &*arena;
    body();
  } catch (const Error& e) {
    stream.arena = &between;
    const bool device = e.code() == ErrorCode::device || e.code() == ErrorCode::out_of_memory;
    if (!stream.memory || !device) throw;
    std::string text = fmt::format("{}: {}", name, e.message());
    if (e.code() == ErrorCode::out_of_memory)
      text += fmt::format(
          "\nthe plan needed {} and {} allowed {} when the run began: something else has taken memory since",
          human_bytes(plan.peak_bytes), plan.budget, human_bytes(plan.budget_bytes));
    throw Error(e.code(), text, e.where());
  }
  stream.arena = &between;
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
