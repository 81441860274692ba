// What this machine has, which implementation each op gets in the models' shapes and why, and whether it
// works here: a short self-test of every implementation against its definition on its tiny and odd cases, but
// for the largest on the CPU. With a GPU's device all of this is about the GPU: its facts, the libraries
// found, its implementations, its levels.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cpu/machine.h"
#include "request/request.h"

namespace tachy {

// Plain loops take most of the self-test's time: cases that cost them more are left to `validate`; every
// implementation has smaller ones.
inline constexpr double kSelfTestFlops = 2e7;

struct OpHealth {
  std::string op;
  std::string pick;  // what most of its cases get at this level: those in the shapes of models, if it has any
  std::string why;   // "first choice of 2", "its only one", or why not those before it
  struct Exception {
    std::string pick, reason;  // another pick, and why not the first choice
    int cases = 0;
  };
  int cases = 0;
  bool real = false;  // these cases have the shapes of models
  std::vector<Exception> exceptions;
  bool ok = true;
  double worst = 0;     // error over bound, of the self-test
  std::string failure;  // with the line that repeats it
};

struct LevelState {
  std::string name, means, here;  // `here`: what it comes to on this machine
  bool active = false;
};

struct GpuState {
  std::string name;  // empty: there is none, and `why_not` says why
  std::string why_not, capability, driver, cuda, dtype;
  std::string family;     // whose row of cuda/gpu_family.h the ops' choices follow
  bool measured = false;  // that row's numbers were measured there, and not guessed
  int index = 0, multiprocessors = 0;
  uint64_t memory_bytes = 0, free_bytes = 0, l2_bytes = 0;
  std::vector<std::pair<std::string, std::string>> libraries;  // of a chosen device
};

// The one instruction set that this program's CPU kernels are compiled for, "" where they are for all (cpu/isa.h).
std::string compiled_for();

struct DoctorReport {
  cpu::Machine machine;
  std::vector<std::pair<std::string, std::string>> libraries;
  std::string level, device = "cpu";
  GpuState gpu;
  std::vector<LevelState> levels;
  std::vector<OpHealth> ops;
  std::vector<OptimisationState> optimisations;  // at this level; of a model's own video where there is one
  std::vector<StagePlan> model;  // the plan of that model's own video, whose picks are in its shapes
  double self_test_seconds = 0;
  int left_out = 0;  // cases too large for the self-test
  bool ok() const;
};

DoctorReport run_doctor(const std::string& level, int threads, const std::string& device = "cpu",
                        const std::string& dtype = "", const std::filesystem::path& model = {});
nlohmann::json to_json(const DoctorReport& report);

// The plan of a model's own video, or of its world, which is computed nowhere. dtype: of a GPU's activations; "": the level's.
VideoPlan model_plan(const std::filesystem::path& model, const std::string& level, int threads,
                     const std::string& device, const std::string& dtype);

}  // namespace tachy
