#include "base/environment.h"

#include <fmt/format.h>

#include "base/env.h"

namespace tachy {
namespace {

constexpr Effect kSame = Effect::same_bits, kRecorded = Effect::recorded;

constexpr EnvironmentVariable kVariables[] = {
    // Variables that decide where a run computes and what it reads.
    {"TACHY_DEVICE", kRecorded, "device"},
    {"TACHY_MODEL_DIR", kRecorded},       // gives other weights to a run that names no model
    {"TACHY_CUDA_LIBRARIES", kRecorded},  // another version of a library has other kernels
    {"TACHY_CUDA_KERNELS", kRecorded},    // kernels for another architecture may round otherwise

    // Variables that decide which code multiplies, and in which order it adds up.
    {"TACHY_FORCE", kRecorded},
    {"TACHY_ISA", kRecorded},
    {"TACHY_BF16", kRecorded},
    {"TACHY_CONV", kRecorded},
    {"TACHY_TUNE", kRecorded},
    {"TACHY_CUDA_CAPABILITY", kRecorded},
    {"TACHY_PACE", kRecorded},  // flash_sm90 divides the keys differently for each number of heads in a call
    {"TACHY_CONV_NORM", kRecorded},    // a norm reads float32 sums, or rounded ones
    {"TACHY_CONV8_TILE", kRecorded},   // the order of a sum depends on the channels of a tile
    {"TACHY_RANK_DECODE", kRecorded},  // a GPU's kernels may add up otherwise for a band of rows
    {"TACHY_RESIDUAL", kRecorded, "residual"},
    // The folder of the algorithms that TACHY_TUNE measured, which later runs use
    // (cuda/vendor/kept_choices.h).
    {"XDG_CACHE_HOME", kRecorded, "kept_choices"},
    {"HOME", kRecorded, "kept_choices"},

    // Variables that decide how work is queued, copied and kept.
    {"TACHY_GRAPHS", kSame},
    {"TACHY_CUDA_OVERLAP", kSame},
    {"TACHY_HUGE_PAGES", kSame},
    {"TACHY_NORM_CODES", kSame},
    {"TACHY_ROUND_WEIGHTS", kSame},
    {"TACHY_STRESS", kSame},
    {"TACHY_RANK_GROUPS", kSame},
    {"TACHY_RANK_OWN", kSame},
    {"TACHY_LOG", kSame},
    {"XDG_DATA_HOME", kSame},  // where a server keeps its files
    // Variables of a server's store of finished videos (--store).
    {"AWS_ACCESS_KEY_ID", kSame},
    {"AWS_SECRET_ACCESS_KEY", kSame},
    {"AWS_SESSION_TOKEN", kSame},
    {"AWS_REGION", kSame},
    {"AWS_ENDPOINT_URL", kSame},
    // Variables of several processes that make one video (--distributed), our own and the launchers'.
    {"TACHY_RANK_SECRET", kSame},
    {"TACHY_RANK_INTERFACE", kSame},
    {"TACHY_RANK_SECONDS", kSame},
    {"RANK", kSame},
    {"WORLD_SIZE", kSame},
    {"LOCAL_RANK", kSame},
    {"LOCAL_WORLD_SIZE", kSame},
    {"MASTER_ADDR", kSame},
    {"MASTER_PORT", kSame},
    {"TORCHELASTIC_USE_AGENT_STORE", kSame},
    {"OMPI_COMM_WORLD_RANK", kSame},
    {"OMPI_COMM_WORLD_SIZE", kSame},
    {"OMPI_COMM_WORLD_LOCAL_RANK", kSame},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", kSame},
    {"PMI_RANK", kSame},
    {"PMI_SIZE", kSame},
    {"MPI_LOCALRANKID", kSame},
    {"MPI_LOCALNRANKS", kSame},
    {"PMIX_RANK", kSame},
    {"PMIX_NAMESPACE", kSame},
    {"SLURM_PROCID", kSame},
    {"SLURM_NTASKS", kSame},
    {"SLURM_LOCALID", kSame},
    {"SLURM_JOB_ID", kSame},
    {"SLURM_NODELIST", kSame},
    {"SLURM_STEP_NODELIST", kSame},
    {"JOB_COMPLETION_INDEX", kSame},
    // Variables that only affect the Python package, whose tensors belong to no run.
    {"WAN_ENABLE_FUSED_BLOCK", kSame},
    {"WAN_FORCE_SDPA", kSame},
    {"WAN_TORCH_COMPILE", kSame},

    // Variables that libraries read.
    {"ONEDNN_MAX_CPU_ISA", kRecorded, {}, "oneDNN"},
    {"DNNL_MAX_CPU_ISA", kRecorded, {}, "oneDNN"},
    {"ONEDNN_CPU_ISA_HINTS", kRecorded, {}, "oneDNN"},
    {"DNNL_CPU_ISA_HINTS", kRecorded, {}, "oneDNN"},
    {"ONEDNN_DEFAULT_FPMATH_MODE", kRecorded, {}, "oneDNN"},
    {"DNNL_DEFAULT_FPMATH_MODE", kRecorded, {}, "oneDNN"},
    {"NVIDIA_TF32_OVERRIDE", kRecorded, {}, "cuBLASLt, cuDNN"},
    {"CUBLAS_WORKSPACE_CONFIG", kRecorded, {}, "cuBLAS"},
    {"CUBLASLT_WORKSPACE_SIZE", kRecorded, {}, "cuBLASLt"},
    {"CUBLAS_EMULATE_SINGLE_PRECISION", kRecorded, {}, "cuBLASLt"},
    {"CUBLAS_EMULATION_STRATEGY", kRecorded, {}, "cuBLASLt"},
    // The C library's functions round differently with and without FMA.
    {"GLIBC_TUNABLES", kRecorded, {}, "the C library"},
};

std::string told(const Environment& all, const std::string& name) {
  const auto it = all.find(name);
  return it == all.end() ? "" : it->second;
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

Environment recorded_environment() {
  Environment out;
  for (const EnvironmentVariable& v : kVariables) {
    if (v.effect != Effect::recorded || !v.field.empty()) continue;
    const std::string name(v.name);
    if (std::string value = env_string(name.c_str(), ""); !value.empty()) out[name] = std::move(value);
  }
  return out;
}

std::string environment_difference(const Environment& then, const Environment& now) {
  Environment all = then;
  all.insert(now.begin(), now.end());
  std::string out;
  for (const auto& [name, value] : all) {
    const std::string before = told(then, name), after = told(now, name);
    if (before == after) continue;
    out += fmt::format("{}{} was {} and is {} now", out.empty() ? "" : ", ", name,
                       before.empty() ? "not set" : before, after.empty() ? "not set" : after);
  }
  return out;
}

}  // namespace tachy
