// Reports this machine's hardware, the implementation that each op gets in the models' shapes and why, and
// whether it works here: a short self-test compares every implementation with its definition on its tiny and
// odd cases, except for the largest on the CPU. If the device is a GPU, all of this is about the GPU: its
// properties, the libraries found, its implementations, its levels.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cpu/machine.h"
#include "request/request.h"

namespace tachy {

// Plain loops take most of the self-test's time, so larger cases than this are left to `validate`; every
// implementation has smaller ones.
inline constexpr double kSelfTestFlops = 2e7;

struct OpHealth {
  std::string op;
  // The implementation that most of the op's cases get at this level, counting only those in the shapes of
  // models if there are any.
  std::string pick;
  std::string why;  // "first choice of 2", "its only one", or why none of the earlier ones was taken
  struct Exception {
    std::string pick, reason;  // another implementation, and why it is not the first choice
    int cases = 0;
  };
  int cases = 0;
  bool real = false;  // whether these cases have the shapes of models
  std::vector<Exception> exceptions;
  bool ok = true;
  double worst = 0;     // the largest error over its bound, in the self-test
  std::string failure;  // includes the command line that repeats it
};

struct LevelState {
  std::string name, means, here;  // `here` is its effect on this machine
  bool active = false;
};

struct GpuState {
  std::string name;  // empty: there is no GPU, and `why_not` says why
  std::string why_not, capability, driver, cuda, dtype;
  std::string family;     // the GPU whose row in cuda/gpu_family.h decides between implementations
  bool measured = false;  // whether that row's numbers were measured there or guessed
  int index = 0, multiprocessors = 0;
  uint64_t memory_bytes = 0, free_bytes = 0, l2_bytes = 0;
  std::vector<std::pair<std::string, std::string>> libraries;  // libraries of a chosen device
};

// Names the one instruction set for which this program's CPU kernels are compiled; "" if they are compiled
// for all (cpu/isa.h).
std::string compiled_for();

// Names the kernels that this program can run on a GPU: "CUDA 13.0, for 90a", "none".
std::string gpu_kernels();

struct DoctorReport {
  cpu::Machine machine;
  std::vector<std::pair<std::string, std::string>> libraries;
  std::string level, device = "cpu";
  GpuState gpu;
  std::vector<LevelState> levels;
  std::vector<OpHealth> ops;
  std::vector<OptimisationState> optimisations;  // at this level; for a model's own video if a model is given
  std::vector<StagePlan> model;  // the plan of that model's own video, with implementations for its shapes
  double self_test_seconds = 0;
  int left_out = 0;  // number of cases too large for the self-test
  bool ok() const;
};

DoctorReport run_doctor(const std::string& level, int threads, const std::string& device = "cpu",
                        const std::string& dtype = "", const std::filesystem::path& model = {});
nlohmann::json to_json(const DoctorReport& report);

// Plans a model's own video, or its world, without computing it. `dtype` is for a GPU's activations; "": the
// level decides.
VideoPlan model_plan(const std::filesystem::path& model, const std::string& level, int threads,
                     const std::string& device, const std::string& dtype);

}  // namespace tachy
