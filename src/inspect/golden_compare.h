// Compares golden values with ours: how far apart they may be in a run's precision, and how far they are.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/text_to_video.h"
#include "inspect/validate.h"
#include "weights/scope.h"

namespace tachy {

// The allowed multiples of the reference's own error, for the largest and the mean error.
struct Factors {
  double max = 3, mean = 3;
};

// The precision in which a run computes, and how near the golden values it must come.
struct RunPrecision {
  bool bf16 = false;  // or f16; the golden values have the reference's errors in bfloat16
  bool step_cache = false;
  bool low_residual = false;  // the residual stream is also bf16 or f16, like the reference's
  bool fp8 = false;           // whether, in addition, the linear layers of the transformer's blocks multiply
                              // in e4m3
  // A stage's error is at most that of the reference itself in bfloat16. (In float32 both errors are about
  // one rounding, and their ratio is chance.) With fp8 the arithmetic is the reference's, including its
  // roundings, and so is the average error.
  Factors of_stage() const { return fp8 ? Factors{1.5, 1.2} : bf16 ? Factors{1, 1} : Factors{}; }
  // The same holds for the mean over a run's latents. The largest of some ten thousand values that twenty
  // guided steps have amplified is chance: any change in the order of a sum moved it between half and 1.2 of
  // the reference's. With a bf16 residual stream the arithmetic is the reference's, and so is the average
  // error.
  Factors of_run() const { return !bf16 ? Factors{} : low_residual ? Factors{3, 1.5} : Factors{2, 1}; }
  // The error of a rollout's velocities and latents is at most the original's in bfloat16 on the same
  // weights, except for the chance that remains if the arithmetic is the original's, too.
  Factors of_rollout() const { return !bf16 ? Factors{} : low_residual ? Factors{1.5, 1.2} : Factors{1, 1}; }
  // How far the PSNR of frames may lie below the reference's own.
  double decibel() const { return !bf16 ? 9.5 : low_residual ? 3.5 : 0; }
  const char* name() const { return bf16 ? "bfloat16" : "float32"; }
  // Returns the name of the entry among the reference's errors to compare with, by precision. Only outputs of
  // a transformer have an entry for fp8.
  const char* name_in(const nlohmann::json& errors) const {
    return fp8 && errors.contains("fp8") ? "fp8" : name();
  }
};

// Reads the tensors of a file as doubles.
class TensorFile {
 public:
  explicit TensorFile(const std::filesystem::path& path)
      : source_(open_weights(path)), scope_(source_), name_(path.string()) {}

  struct Values {
    std::vector<int64_t> dims;
    std::vector<double> data;
  };
  Values read(const std::string& name) const;

 private:
  std::shared_ptr<TensorSource> source_;
  Scope scope_;
  std::string name_;
};

// `own` has the reference's errors by precision; if it is empty, the values must be equal.
void compare_values(const TensorFile::Values& got, const TensorFile::Values& want, const nlohmann::json& own,
                    const RunPrecision& precision, Factors factors, double least, Check& check);

struct GoldenRun;
// Compares the run of a golden folder (golden_runs.h): its latents, then each frame (golden_generation.cpp).
// `whole` is "generation" of golden.json.
void compare_generation(const nlohmann::json& whole, const std::filesystem::path& folder,
                        const GoldenRun& got, const std::string& name, std::vector<Check>& checks);

}  // namespace tachy
