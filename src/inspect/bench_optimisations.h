// Measures what each optimisation gives alone and together, on denoising steps of a model: the same few steps are run with
// everything on, without one thing after the other, with one thing alone, and with nothing, by turns, and ratios are taken
// within each round, so that a machine that others use, too, changes both sides of a ratio. On a CPU it is the process's own time
// on all its processors.
//
// A step of level extreme may be one that the step cache skips, so that its runs have as many steps as a real one.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tachy {

struct OptimisationBench {
  std::filesystem::path model;
  std::string level = "safe", device = "cpu";
  int threads = 0, rounds = 5;
  int width = 0, height = 0;  // of the video; 0: the model's own
  std::function<void(const std::string&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct OptimisationGain {
  std::string name;            // as in OptimisationState
  double with_others = 0;      // time without it over time with everything, the median of the rounds' ratios
  double least = 0, most = 0;  // of these ratios
  double alone = 0;            // time with nothing over time with it alone
};

struct OptimisationTable {
  std::string model, size, level, device, machine;
  int threads = 1, steps = 0, rounds = 0;
  double step_ms = 0, bare_ms = 0;  // of a step with everything and with nothing, medians
  double together = 0;              // time with nothing over time with everything, the median of the ratios
  std::vector<OptimisationGain> gains;
  std::vector<std::string> left_out;  // what is on and was not tried, with the reason
};

OptimisationTable bench_optimisations(const OptimisationBench& options);
nlohmann::json to_json(const OptimisationTable& table);
std::string text_of(const OptimisationTable& table);  // for people: Markdown

}  // namespace tachy
