#include "plan_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/field.h"
#include "base/json_text.h"
#include "media/video/background_writer.h"
#include "picks.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

constexpr uint64_t kQueueWorthALine = 16 << 20;  // a smaller one is negligible beside the plan's figures

// Returns the most memory that frames waiting for the encoder take, in addition to the plan.
uint64_t queue_bytes(const VideoRequest& r) {
  const auto bytes = uint64_t(*r.frames) * uint64_t(*r.width) * uint64_t(*r.height) * 3;
  return std::min<uint64_t>(bytes, BackgroundWriter::kQueueBytes);
}

json ranks_json(const std::vector<RankPlan>& ranks) {
  json out = json::array();
  for (const RankPlan& r : ranks)
    out.push_back({{"threads", r.threads},
                   {"first_branch", r.first_branch},
                   {"branches", r.branches},
                   {"first_token", r.first_token},
                   {"tokens", r.tokens},
                   {"first_head", r.first_head},
                   {"heads", r.heads},
                   {"first_row", r.first_row},
                   {"rows", r.rows}});
  return out;
}

json parallel_json(const VideoPlan& plan) {
  if (plan.ranks.empty()) return nullptr;
  const Parallel& p = plan.parallel;
  return {{"cfg", p.cfg},
          {"ulysses", p.ulysses},
          {"ring", p.ring},
          {"equal_bits", plan.equal_bits},
          {"why", plan.parallel_why}};
}

void print_ranks(const VideoPlan& plan) {
  const std::vector<RankPlan>& ranks = plan.ranks;
  if (ranks.empty()) return;
  fmt::print("ranks share a pass by {}: {}\n", plan.parallel.text(), plan.parallel_why);
  fmt::print("{:<10}{:>14}{:>14}{:>14}{:>14}{:>14}\n", "rank", "threads", "branches", "tokens", "heads",
             "rows");
  for (size_t i = 0; i < ranks.size(); ++i)
    fmt::print("{:<10}{:>14}{:>14}{:>14}{:>14}{:>14}\n", i, ranks[i].threads, ranks[i].branches,
               ranks[i].tokens, ranks[i].heads, ranks[i].rows);
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
              {"ranks", ranks_json(plan.ranks)},
              {"parallel", parallel_json(plan)},
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
  print_ranks(plan);
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

// Splits a stage's time by kind of work and dtype of products.
json work_json(const PredictedRun::Stage& stage) {
  json out = json::array();
  for (const PredictedRun::Work& w : stage.work)
    out.push_back({{"kind", w.kind},
                   {"numbers", w.numbers},
                   {"flops", w.flops},
                   {"bytes", w.bytes},
                   {"calls", w.calls}});
  return out;
}

// Returns for example "3.1 s to 3.6 s".
std::string range_of(const PredictedTime& s) {
  const std::string least = human_seconds(s.least), most = human_seconds(s.most);
  return least == most ? least : fmt::format("{} to {}", least, most);
}

json predicted_json(const PredictedRun& run) {
  json out = plan_json(run.plan, queue_bytes(run.request));
  for (size_t i = 0; i < run.stages.size(); ++i) {
    json& stage = out["stages"][i];
    stage["seconds"] = run.stages[i].seconds.least, stage["seconds_most"] = run.stages[i].seconds.most;
    stage["work"] = work_json(run.stages[i]);
    // Only a build on that machine could tell which kernels it would get.
    stage.erase("ops"), out.erase("optimisations");
  }
  out["gpu"] = run.gpu, out["ran_there"] = run.ran_there;
  out["seconds"] = run.seconds.least, out["seconds_most"] = run.seconds.most;
  return out;
}

void print_predicted(const PredictedRun& run) {
  fmt::print("{:<14}{:>14}{:>14}{:>14}  {}\n", "stage", "in memory", "activations", "TFLOP", "predicted");
  for (size_t i = 0; i < run.stages.size(); ++i) {
    const StagePlan& s = run.plan.stages[i];
    fmt::print("{:<14}{:>14}{:>14}{:>14.3f}  {}\n", s.name, human_bytes(s.weight_bytes),
               human_bytes(s.arena_bytes), s.flops / 1e12, range_of(run.stages[i].seconds));
  }
  print_passing(run.plan);
  print_ranks(run.plan);
  fmt::print("peak {} on an {}, beside what libraries and kernels take for themselves, of {}\n",
             human_bytes(run.plan.peak_bytes), run.gpu, human_bytes(run.plan.budget_bytes));
  if (!run.plan.would_fit.empty()) fmt::print("this does not fit; {} would\n", spelled(run.plan.would_fit));
  fmt::print(
      "{}: predicted, never run{}; loading and encoding the file are not included\n", range_of(run.seconds),
      run.ran_there ? " here (its rates were measured on one)" : " (no such GPU has run this program)");
}

}  // namespace

void show_predicted(const PredictedRun& run, bool as_json) {
  if (as_json)
    fmt::print("{}\n", json_line(predicted_json(run)));
  else
    print_predicted(run);
}

void show_plan(const VideoPlan& plan, const VideoRequest& request, bool as_json) {
  const uint64_t queue = queue_bytes(request);
  if (as_json)
    fmt::print("{}\n", json_line(plan_json(plan, queue)));
  else
    print_plan(plan, queue);
}

}  // namespace tachy::cli
