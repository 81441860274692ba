#include "plan_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/field.h"
#include "media/background_writer.h"
#include "picks.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

constexpr uint64_t kQueueWorthALine = 16 << 20;  // a smaller one is lost among the plan's figures

// The most that frames which wait for the encoder take, beside what the plan counts.
uint64_t queue_bytes(const VideoRequest& r) {
  const auto bytes = uint64_t(*r.frames) * uint64_t(*r.width) * uint64_t(*r.height) * 3;
  return std::min<uint64_t>(bytes, BackgroundWriter::kQueueBytes);
}

json plan_json(const VideoPlan& plan, uint64_t queue) {
  json stages = json::array();
  for (const StagePlan& s : plan.stages)
    stages.push_back({{"stage", s.name},
                      {"mapped_bytes", s.mapped_bytes},
                      {"weight_bytes", s.weight_bytes},
                      {"arena_bytes", s.arena_bytes},
                      {"flops", s.flops},
                      {"seconds", s.seconds},
                      {"blocks", s.blocks},
                      {"streamed_blocks", s.streamed},
                      {"host_bytes", s.host_bytes},
                      {"ops", picks_json(s)}});
  return {{"event", "plan"},
          {"stages", stages},
          {"shared_bytes", plan.shared_bytes},
          {"peak_bytes", plan.peak_bytes},
          {"host_bytes", plan.host_bytes},
          {"budget_bytes", plan.budget_bytes},
          {"frame_queue_bytes", queue},
          {"seconds", plan.seconds}};
}

void print_plan(const VideoPlan& plan, uint64_t queue) {
  fmt::print("{:<10}{:>14}{:>14}{:>14}{:>14}{:>12}\n", "stage", "file mapped", "in memory", "activations",
             "TFLOP", "about");
  for (const StagePlan& s : plan.stages)
    fmt::print("{:<10}{:>14}{:>14}{:>14}{:>14.3f}{:>12}\n", s.name, human_bytes(s.mapped_bytes),
               human_bytes(s.weight_bytes), human_bytes(s.arena_bytes), s.flops / 1e12,
               human_seconds(s.seconds));
  for (const StagePlan& s : plan.stages)
    if (s.streamed > 0)
      fmt::print("{}: {} of {} blocks ({}) stay in host memory and pass through the GPU in every pass\n",
                 s.name, s.streamed, s.blocks, human_bytes(s.host_bytes));
  print_picks(plan.stages);
  if (queue >= kQueueWorthALine)
    fmt::print("host memory beside that: up to {} of frames that wait for the encoder\n", human_bytes(queue));
  if (plan.budget_bytes > 0)
    fmt::print("peak {} of the GPU's memory beside its libraries, of {} ({}), about {} on this machine\n",
               human_bytes(plan.peak_bytes), human_bytes(plan.budget_bytes), spelled(plan.budget),
               human_seconds(plan.seconds));
  if (!plan.would_fit.empty()) fmt::print("this does not fit; {} would\n", spelled(plan.would_fit));
  if (plan.budget_bytes == 0)
    fmt::print("peak {} beside the mapped file, about {} on this machine\n", human_bytes(plan.peak_bytes),
               human_seconds(plan.seconds));
}

}  // namespace

void show_plan(const VideoPlan& plan, const VideoRequest& request, bool as_json) {
  const uint64_t queue = queue_bytes(request);
  if (as_json)
    fmt::print("{}\n", plan_json(plan, queue).dump());
  else
    print_plan(plan, queue);
}

}  // namespace tachy::cli
