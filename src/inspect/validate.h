// Is this build right on this machine? Every op against its definition, every stage of every shipped model
// against golden values of the PyTorch reference, and a whole generation frame by frame.
//
// A golden folder (tools/golden/make_validation.py) holds golden.json, one safetensors file a stage, the
// final latents and the frames of a run. A stage passes when max and mean of |y−R|/max|R| (R in float64) are
// at most three times the reference's own in float32 (the largest of five draws), or kLeastError and a tenth
// of it; a frame when it differs by at most one level more than the reference's own float32 frames do, and
// its PSNR is at most 9.5 dB (three times) below theirs. With bf16 or f16 a stage errs no more than the
// reference in bfloat16 (the largest of its draws), a run's latents no more on average and at most twice as
// much anywhere, and its frames are as close; with a bf16 residual stream (levels from aggressive on, on a
// GPU) 1.5 times on average, three times anywhere and 3.5 dB. With the step cache, which the reference has
// not, frames are held to kStepCachePsnr.
//
// With device "cuda" all of it runs on the GPU: the ops' cases in each of `dtypes` (op_runner.h; mode capture
// besides), the models as the level says there (request/gpu_mode.h). bf16 and f16 are measured by the
// reference's bfloat16 errors. Beside each stage's own bound the line says whether it meets kBf16Max and
// kBf16Mean, the acceptance that asks for the same of every output, whatever the reference itself reaches.
//
// Golden rollouts (tests/golden/causal) and models that make videos block by block: rollout_checks.h.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace tachy {

// What any model may err by in float32, however small the reference's own error: as in tests/reference.
inline constexpr double kLeastError = 5e-6, kLeastVaeError = 1e-5, kLeastRunError = 1e-5;
inline constexpr double kStepCachePsnr = 20;  // dB
inline constexpr double kBf16Max = 1e-2, kBf16Mean = 1e-3;

struct ValidateOptions {
  bool ops = true, models = true;
  std::string filter;                                             // of the ops, as in OpRunnerOptions
  std::vector<std::string> modes = {"ref", "bitwise", "canary"};  // on a GPU also "capture"
  std::vector<std::string> cases = {"tiny", "odd"};               // and "real", "video"
  double max_definition_gflop = 2;            // real cases beyond it skip what needs the definition
  std::vector<std::filesystem::path> golden;  // folders; empty: those of the shipped models
  std::filesystem::path model;                // in place of the one that golden.json names
  std::string level = "safe";
  std::string device = "cpu";       // "cuda", "cuda:1", "auto"
  std::vector<std::string> dtypes;  // on a GPU: of the ops' activations; the first is the models'.
                                    // Empty: the level's
  int threads = 0;
  uint64_t seed = 1;
  std::function<void(const std::string&)> progress;
  // For tests: may change what a stage of this level gave, before it is held against the definitions (model_checks.h).
  std::function<void(const std::string& stage, std::span<double> values)> fault;
  const std::atomic<bool>* cancel = nullptr;
};

struct Check {
  std::string kind;  // "op", "weights", "stage", "rollout", "latents", "frame"
  std::string name;  // "gemm", "sprites: transformer: sample", "sprites: frame 3"
  bool ok = true;
  bool skipped = false;
  double max = 0, mean = 0;  // stages: of max|R|; frames: levels of 255; ops: the worst error over its bound
  double bound = 0;          // of max
  double psnr = -1;          // frames, dB; 999: equal
  std::string detail;
  std::vector<std::string> failures;  // ops: one line each, with what repeats it
};

std::vector<std::filesystem::path> shipped_golden();  // golden folders of the models that ship
void check_validate(const ValidateOptions& options);  // throws when they cannot work, in no time
std::vector<Check> run_validate(const ValidateOptions& options);
nlohmann::json to_json(const std::vector<Check>& checks);

}  // namespace tachy
