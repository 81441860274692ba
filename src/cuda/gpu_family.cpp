#include "cuda/gpu_family.h"

namespace tachy::cuda {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

constexpr GpuFamily kFamilies[] = {
    {"Turing", "T4, RTX 20", 75, false, 2048, 256, 80, 160 * kMiB, 64 * kMiB, false},
    {"Ampere", "A100", 80, false, 2048, 256, 80, 160 * kMiB, 64 * kMiB, false},
    {"Ampere and Ada, smaller", "A10, L4, L40S, RTX 30 and 40", 86, false, 2048, 256, 80, 160 * kMiB,
     64 * kMiB, true},
    {"Hopper", "H100, H200", 90, true, 2048, 256, 80, 160 * kMiB, 64 * kMiB, true},
    {"Blackwell", "B200", 100, false, 2048, 256, 80, 160 * kMiB, 64 * kMiB, false},
    {"Blackwell, GeForce", "RTX 50", 120, false, 2048, 256, 80, 160 * kMiB, 64 * kMiB, true},
};

}  // namespace

std::span<const GpuFamily> gpu_families() { return kFamilies; }

const GpuFamily& family_of(const GpuInfo& gpu) {
  const GpuFamily* best = &kFamilies[0];
  for (const GpuFamily& family : kFamilies)
    if (gpu.capability() >= family.capability) best = &family;
  return *best;
}

}  // namespace tachy::cuda
