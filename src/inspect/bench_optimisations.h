// Measures the gain of each optimisation, alone and together with the others, on denoising steps of a model.
// The same few steps are run alternately with everything on, with everything but one thing, with one thing
// alone, and with nothing. Ratios are taken within each round, so that other users of the machine affect both
// sides of a ratio. On a CPU the time is the process's own on all its processors.
//
// At level extreme the step cache may skip a step, so these runs have as many steps as a real one.
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
  double with_others = 0;      // time without it divided by time with everything, the median over the rounds
  double least = 0, most = 0;  // range of these ratios
  double alone = 0;            // time with nothing divided by time with only this
};

struct OptimisationTable {
  std::string model, size, level, device, machine;
  int threads = 1, steps = 0, rounds = 0;
  double step_ms = 0, bare_ms = 0;  // time of a step with everything and with nothing, medians
  double together = 0;              // time with nothing divided by time with everything, the median over the
                                    // rounds
  std::vector<OptimisationGain> gains;
  std::vector<std::string> left_out;  // optimisations that are on but were not tried, with the reason
};

OptimisationTable bench_optimisations(const OptimisationBench& options);
nlohmann::json to_json(const OptimisationTable& table);
std::string text_of(const OptimisationTable& table);  // for people: Markdown

}  // namespace tachy
