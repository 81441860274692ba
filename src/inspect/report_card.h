// The owner of a GPU can send this to a project that has none: the facts of the machine, whether every op is right
// there, how fast each one is, and how that compares with what was predicted for this GPU (estimate/gpu_rates.h).
#pragma once

#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "inspect/bench.h"

namespace tachy {

struct ReportCardOptions {
  std::string device = "cuda";
  std::string dtype;  // as in BenchOptions
  int threads = 0;
  std::function<void(const std::string&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// Runs doctor's self-test and a bench of the ops. Throws invalid_argument on a CPU.
nlohmann::json report_card(const ReportCardOptions& options, const std::string& version);

// Returns, for each kind of work that was timed, the least and the most that was reached in T/s, the range that was
// predicted, and whether the most lies within it. `predicted` is null where this GPU has no row.
nlohmann::json reached_and_predicted(const BenchReport& report);

}  // namespace tachy
