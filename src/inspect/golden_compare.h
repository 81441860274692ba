// Golden values against ours: how far apart they may lie in a run's precision, and how far they do.
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

// How many times the reference's own error is allowed, of the largest and of the mean.
struct Factors {
  double max = 3, mean = 3;
};

// What a run computes in, and how near the golden values it must come in that.
struct RunPrecision {
  bool bf16 = false;  // or f16: the golden values know the reference's errors in bfloat16
  bool step_cache = false;
  bool low_residual = false;  // the residual stream is bf16 or f16, too, as the reference's
  bool fp8 = false;           // and the linear layers of the transformer's blocks multiply in e4m3
  // A stage errs no more than the reference itself in bfloat16. (In float32 both errors are of the order of
  // one rounding, and their ratio is chance.)
  // With fp8 the arithmetic is the reference's, roundings and all, and so is, on average, the error.
  Factors of_stage() const { return fp8 ? Factors{1.5, 1.2} : bf16 ? Factors{1, 1} : Factors{}; }
  // So does the mean of a run's latents, while the largest of some ten thousand
  // values that twenty guided steps have amplified is chance: any change of a sum's
  // order has moved it between half and 1.2 of the reference's. With a bf16 residual
  // stream the arithmetic is the reference's and so is, on average, the error.
  Factors of_run() const { return !bf16 ? Factors{} : low_residual ? Factors{3, 1.5} : Factors{2, 1}; }
  // A rollout's velocities and latents err no more than the original's in bfloat16 on the same weights, but for the chance
  // that is left where the arithmetic is the original's, too.
  Factors of_rollout() const { return !bf16 ? Factors{} : low_residual ? Factors{1.5, 1.2} : Factors{1, 1}; }
  // That frames may lie below its own.
  double decibel() const { return !bf16 ? 9.5 : low_residual ? 3.5 : 0; }
  const char* name() const { return bf16 ? "bfloat16" : "float32"; }
  // Of the reference's errors by precision the one to compare with. Only what holds a transformer has one for fp8.
  const char* name_in(const nlohmann::json& errors) const {
    return fp8 && errors.contains("fp8") ? "fp8" : name();
  }
};

// Tensors of a file as doubles.
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

// own: the reference's errors by precision; empty: the values must be equal.
void compare_values(const TensorFile::Values& got, const TensorFile::Values& want, const nlohmann::json& own,
                    const RunPrecision& precision, Factors factors, double least, Check& check);

struct GoldenRun;
// The run of a golden folder (golden_runs.h): its latents, then frame by frame (golden_generation.cpp). whole: "generation" of golden.json.
void compare_generation(const nlohmann::json& whole, const std::filesystem::path& folder,
                        const GoldenRun& got, const std::string& name, std::vector<Check>& checks);

}  // namespace tachy
