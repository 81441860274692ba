#include "workers/rates.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/log.h"
#include "base/text_file.h"
#include "media/files.h"

namespace tachy::workers {
namespace {

using nlohmann::json;

// A new run counts as the mean at first, and as a fifth later on, so that a machine that becomes slower is
// noticed.
constexpr double kLeastShare = 0.2;
// One odd run (a laptop that slept) does not move a ratio by more than this factor.
constexpr double kMostJump = 3;

double learnt(double known, double seen, int64_t runs) {
  if (runs >= 3) seen = std::clamp(seen, known / kMostJump, known * kMostJump);
  const double share = std::max(1.0 / static_cast<double>(runs + 1), kLeastShare);
  return known + share * (seen - known);
}

double number(const json& j, const char* key) {
  const double value = j.contains(key) && j[key].is_number() ? j[key].get<double>() : 0;
  return std::isfinite(value) && value > 0 ? value : 0;
}

}  // namespace

double Rate::ratio(const std::string& stage) const {
  if (const auto found = stages.find(stage); found != stages.end()) return found->second;
  const auto denoise = stages.find("denoise");  // the best guess for a stage that was never seen
  return denoise == stages.end() ? 1 : denoise->second;
}

double Rate::seconds(const VideoPlan& plan) const {
  double all = overhead;
  for (const StagePlan& stage : plan.stages) all += seconds(stage);
  return all;
}

Rates::Rates(std::filesystem::path file) : file_(std::move(file)) {
  try {
    read();
  } catch (const std::exception& e) {
    warn("{} is begun anew: {}", file_.string(), e.what());
    rates_.clear();
  }
}

void Rates::read() {
  std::error_code ec;
  if (!std::filesystem::exists(file_, ec)) return;
  const json all = parse_json_line(read_text_file(file_, 1 << 20));
  for (const auto& item : all.items()) {
    const json& value = item.value();
    Rate rate;
    rate.overhead = number(value, "overhead");
    rate.runs = static_cast<int64_t>(number(value, "runs"));
    for (const auto& stage : value.at("stages").items())
      if (const double ratio = number(value.at("stages"), stage.key().c_str()); ratio > 0)
        rate.stages[stage.key()] = ratio;
    if (rate.runs > 0) rates_[item.key()] = rate;
  }
}

Rate Rates::of(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = rates_.find(key);
  return found == rates_.end() ? Rate() : found->second;
}

void Rates::learn(const std::string& key, const VideoPlan& plan, const Seen& seen) {
  {
    const std::lock_guard lock(mutex_);
    Rate& rate = rates_[key];
    if (seen.loaded && rate.runs > 0) return;  // that happens once, and is no measure for what follows
    if (rate.cold) rate = {};
    double in_stages = 0;
    for (const StagePlan& stage : plan.stages) {
      const auto found = seen.stages.find(stage.name);
      if (found == seen.stages.end()) continue;
      in_stages += found->second;
      if (stage.seconds <= 0) continue;
      const double ratio = found->second / stage.seconds;
      const bool known = rate.stages.contains(stage.name);
      rate.stages[stage.name] = known ? learnt(rate.stages[stage.name], ratio, rate.runs) : ratio;
    }
    const double rest = std::max(seen.all - in_stages, 0.0);
    rate.overhead = rate.runs > 0 ? learnt(rate.overhead, rest, rate.runs) : rest;
    ++rate.runs, rate.cold = seen.loaded;
  }
  const std::lock_guard one(writing_);
  try {
    write_whole(file_, text());
  } catch (const Error& e) {
    warn("the rates are not kept: {}", e.message());
  }
}

std::string Rates::text() const {
  const std::lock_guard lock(mutex_);
  json all = json::object();
  for (const auto& [key, rate] : rates_)
    all[key] = {{"stages", rate.stages}, {"overhead", rate.overhead}, {"runs", rate.runs}};
  return json_text(all, 1) + "\n";
}

}  // namespace tachy::workers
