#include "api/predict.h"

#include <map>

#include "estimate/time_plan.h"

namespace tachy {
namespace {

std::vector<PredictedRun::Work> sums_of(const std::vector<OpWork>& work) {
  std::map<std::pair<std::string, std::string>, PredictedRun::Work> sums;
  for (const OpWork& w : work) {
    const std::pair key(std::string(work_kind_name(w.kind)), std::string(dtype_name(w.numbers)));
    PredictedRun::Work& sum = sums.try_emplace(key, PredictedRun::Work{key.first, key.second}).first->second;
    const auto calls = static_cast<double>(w.calls);
    sum.flops += calls * w.flops, sum.bytes += calls * w.bytes, sum.calls += w.calls;
  }
  std::vector<PredictedRun::Work> out;
  for (const auto& [key, sum] : sums) out.push_back(sum);
  return out;
}

PredictedTime time_of(const Seconds& seconds) { return {seconds.least, seconds.most}; }

}  // namespace

PredictedRun predict(const std::filesystem::path& model, const PartPaths& parts, const AbsentGpu& gpu,
                     const VideoRequest& request) {
  TimePlan plan = plan_time({.model = model,
                             .parts = parts,
                             .gpu = gpu.name,
                             .max_vram = gpu.max_vram,
                             .gpus = gpu.count,
                             .parallel = gpu.parallel},
                            request);
  PredictedRun out{.gpu = std::move(plan.gpu),
                   .ran_there = plan.seen,
                   .plan = std::move(plan.plan),
                   .request = std::move(plan.request),
                   .stages = {},
                   .seconds = time_of(plan.seconds)};
  for (const TimePlan::Stage& stage : plan.stages)
    out.stages.push_back({stage.name, time_of(stage.seconds), sums_of(stage.work)});
  return out;
}

}  // namespace tachy
