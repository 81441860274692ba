#include "plan_report.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/field.h"
#include "base/json_text.h"
#include "media/video/background_writer.h"
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
  json out = {{"event", "plan"},
              {"stages", stages},
              {"shared_bytes", plan.shared_bytes},
              {"peak_bytes", plan.peak_bytes},
              {"host_bytes", plan.host_bytes},
              {"budget_bytes", plan.budget_bytes},
              {"graph_bytes", plan.graph_bytes},
              {"frame_queue_bytes", queue},
              {"optimisations", optimisations_json(plan.optimisations)},
              {"seconds", plan.seconds}};
  for (const DroppedTokens& d : plan.dropped_tokens)
    out["dropped_tokens"][d.field] = {{"tokens", d.tokens}, {"dropped", d.dropped}, {"words", d.words}};
  return out;
}

void print_passing(const VideoPlan& plan) {
  for (const StagePlan& s : plan.stages)
    if (s.streamed > 0)
      fmt::print("{}: {} of {} blocks ({}) stay in host memory and pass through the GPU in every pass\n",
                 s.name, s.streamed, s.blocks, human_bytes(s.host_bytes));
}

void print_plan(const VideoPlan& plan, uint64_t queue) {
  fmt::print("{:<10}{:>14}{:>14}{:>14}{:>14}{:>12}\n", "stage", "file mapped", "in memory", "activations",
             "TFLOP", "about");
  for (const StagePlan& s : plan.stages)
    fmt::print("{:<10}{:>14}{:>14}{:>14}{:>14.3f}{:>12}\n", s.name, human_bytes(s.mapped_bytes),
               human_bytes(s.weight_bytes), human_bytes(s.arena_bytes), s.flops / 1e12,
               human_seconds(s.seconds));
  print_passing(plan);
  print_picks(plan.stages);
  print_optimisations(plan.optimisations);
  if (queue >= kQueueWorthALine)
    fmt::print("host memory besides: up to {} of frames that wait for the encoder\n", human_bytes(queue));
  const std::string graphs =
      plan.graph_bytes > 0 ? fmt::format(" and about {} of graphs", human_bytes(plan.graph_bytes)) : "";
  if (plan.budget_bytes > 0)
    fmt::print("peak {} of the GPU's memory beside its libraries{}, of {} ({}), about {} on this machine\n",
               human_bytes(plan.peak_bytes), graphs, human_bytes(plan.budget_bytes), spelled(plan.budget),
               human_seconds(plan.seconds));
  if (!plan.would_fit.empty()) fmt::print("this does not fit; {} would\n", spelled(plan.would_fit));
  if (plan.budget_bytes == 0)
    fmt::print("peak {} beside the mapped file, about {} on this machine\n", human_bytes(plan.peak_bytes),
               human_seconds(plan.seconds));
}

// What a stage's time is made of, by kind of work and what it multiplies.
json work_json(const TimePlan::Stage& stage) {
  struct Sum {
    double flops = 0, bytes = 0;
    int64_t calls = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const OpWork& w : stage.work) {
    Sum& sum = sums[{std::string(work_kind_name(w.kind)), std::string(dtype_name(w.numbers))}];
    const auto calls = static_cast<double>(w.calls);
    sum.flops += calls * w.flops, sum.bytes += calls * w.bytes, sum.calls += w.calls;
  }
  json out = json::array();
  for (const auto& [what, sum] : sums)
    out.push_back({{"kind", what.first},
                   {"numbers", what.second},
                   {"flops", sum.flops},
                   {"bytes", sum.bytes},
                   {"calls", sum.calls}});
  return out;
}

// "3.1 s to 3.6 s"
std::string range_of(const Seconds& s) {
  const std::string least = human_seconds(s.least), most = human_seconds(s.most);
  return least == most ? least : fmt::format("{} to {}", least, most);
}

json time_plan_json(const TimePlan& plan) {
  json out = plan_json(plan.plan, queue_bytes(plan.request));
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    json& stage = out["stages"][i];
    stage["seconds"] = plan.stages[i].seconds.least, stage["seconds_most"] = plan.stages[i].seconds.most;
    stage["work"] = work_json(plan.stages[i]);
    stage.erase("ops"), out.erase("optimisations");  // which kernels it would get is for a build there to say
  }
  out["gpu"] = plan.gpu, out["ran_there"] = plan.seen;
  out["seconds"] = plan.seconds.least, out["seconds_most"] = plan.seconds.most;
  return out;
}

void print_time_plan(const TimePlan& plan) {
  fmt::print("{:<14}{:>14}{:>14}{:>14}  {}\n", "stage", "in memory", "activations", "TFLOP", "predicted");
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& s = plan.plan.stages[i];
    fmt::print("{:<14}{:>14}{:>14}{:>14.3f}  {}\n", s.name, human_bytes(s.weight_bytes),
               human_bytes(s.arena_bytes), s.flops / 1e12, range_of(plan.stages[i].seconds));
  }
  print_passing(plan.plan);
  fmt::print("peak {} on an {}, beside what libraries and kernels take for themselves, of {}\n",
             human_bytes(plan.plan.peak_bytes), plan.gpu, human_bytes(plan.plan.budget_bytes));
  if (!plan.plan.would_fit.empty()) fmt::print("this does not fit; {} would\n", spelled(plan.plan.would_fit));
  fmt::print("{}: predicted, never run{}; loading and encoding the file are not included\n",
             range_of(plan.seconds),
             plan.seen ? " here (its rates were measured on one)" : " (no such GPU has run this program)");
}

}  // namespace

void show_time_plan(const TimePlan& plan, bool as_json) {
  if (as_json)
    fmt::print("{}\n", json_line(time_plan_json(plan)));
  else
    print_time_plan(plan);
}

void show_plan(const VideoPlan& plan, const VideoRequest& request, bool as_json) {
  const uint64_t queue = queue_bytes(request);
  if (as_json)
    fmt::print("{}\n", json_line(plan_json(plan, queue)));
  else
    print_plan(plan, queue);
}

}  // namespace tachy::cli
