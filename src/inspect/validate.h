// Checks that this build is right on this machine: every op against its definition, every stage of every
// shipped model against golden values of the PyTorch reference, and a whole generation frame by frame.
//
// A golden folder (tools/golden/make_validation.py) holds golden.json, one safetensors file for each stage,
// the final latents and the frames of a run. A stage passes if max and mean of |y−R|/max|R| (R in float64)
// are at most three times the reference's own in float32 (the largest of five draws), or kLeastError and a
// tenth of it. A frame passes if it differs by at most one level more than the reference's own float32 frames
// do, and its PSNR is at most 9.5 dB (three times) below theirs. With bf16 or f16 a stage may have the
// reference's error in bfloat16 (the largest of its draws), a run's latents may have that error on average
// and twice as much anywhere, and its frames must be as close. With a bf16 residual stream (levels from
// aggressive on, on a GPU) the limits are 1.5 times on average, three times anywhere, and 3.5 dB. With the
// step cache, which the reference does not have, frames are held to kStepCachePsnr.
//
// With device "cuda" all of this runs on the GPU: the ops' cases in each of `dtypes` (op_runner.h; also mode
// capture), and the models as the level says there (request/gpu_mode.h). bf16 and f16 are judged by the
// reference's bfloat16 errors. Beside each stage's own bound the line says whether it meets kBf16Max and
// kBf16Mean. This criterion asks the same of every output, whatever the reference itself reaches.
//
// For golden rollouts (tests/golden/causal) and models that make videos block by block, see rollout_checks.h.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace tachy {

// The error that any model may have in float32, however small the reference's own error is; the same values
// as in tests/reference.
inline constexpr double kLeastError = 5e-6, kLeastVaeError = 1e-5, kLeastRunError = 1e-5;
inline constexpr double kStepCachePsnr = 20;  // dB
inline constexpr double kBf16Max = 1e-2, kBf16Mean = 1e-3;

struct ValidateOptions {
  bool ops = true, models = true;
  std::string filter;                                             // for the ops, as in OpRunnerOptions
  std::vector<std::string> modes = {"ref", "bitwise", "canary"};  // on a GPU also "capture"
  std::vector<std::string> cases = {"tiny", "odd"};               // also possible: "real", "video"
  double max_definition_gflop = 2;            // real cases with more than this skip modes that need the
                                              // definition
  std::vector<std::filesystem::path> golden;  // folders; empty: those of the shipped models
  std::filesystem::path model;                // replaces the model that golden.json names
  std::string level = "safe";
  std::string device = "cpu";  // "cuda", "cuda:1", "auto"
  // On a GPU: dtypes of the ops' activations; the first one is also the models' dtype. Empty: the level
  // decides.
  std::vector<std::string> dtypes;
  int threads = 0;
  uint64_t seed = 1;
  std::function<void(const std::string&)> progress;
  // For tests: a function that may change the result of a stage at this level, before it is compared with the
  // definitions (model_checks.h).
  std::function<void(const std::string& stage, std::span<double> values)> fault;
  const std::atomic<bool>* cancel = nullptr;
};

struct Check {
  std::string kind;  // "op", "weights", "stage", "rollout", "latents", "frame"
  std::string name;  // "gemm", "sprites: transformer: sample", "sprites: frame 3"
  bool ok = true;
  bool skipped = false;
  // For stages this is relative to max|R|, for frames in levels of 255, and for ops the worst error over its
  // bound.
  double max = 0, mean = 0;
  double bound = 0;  // for max
  double psnr = -1;  // for frames, in dB; 999: equal
  std::string detail;
  std::vector<std::string> failures;  // for ops: one line for each failure, with how to repeat it
};

std::vector<std::filesystem::path> shipped_golden();  // golden folders of the models that ship
void check_validate(const ValidateOptions& options);  // throws at once if the options cannot work
std::vector<Check> run_validate(const ValidateOptions& options);
nlohmann::json to_json(const std::vector<Check>& checks);

}  // namespace tachy
