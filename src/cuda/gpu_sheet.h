// GPUs by their makers' data sheets: what each could multiply and move at most. Predictions for GPUs that are not
// here are a kernel's share of such a ceiling (estimate/gpu_rates.h), and `doctor` shows the row of the GPU that it
// finds.
#pragma once

#include <span>
#include <string_view>

#include "cuda/gpu.h"

namespace tachy::cuda {

struct GpuSheet {
  const char* name;   // "a100"
  const char* title;  // "NVIDIA A100, SXM, 80 GB"
  const char* known;  // the end of the driver's name for it
  int capability, multiprocessors;
  double memory_gib;       // what a program can have of it
  int shared_kib, l2_mib;  // shared memory that a block may have; second-level cache
  // TFLOP/s or TOP/s of tensor cores without sparsity: 16 bits with float32 sums, f16 with f16 sums, int8, e4m3 with
  // float32 sums (0 where there is none), and float32 without tensor cores.
  double half, half_sums, int8, fp8, single;
  double memory;  // TB/s
  double link;    // TB/s from the host, one way
  int watts;
  const char* source;
};

std::span<const GpuSheet> gpu_sheets();
// Both return null where there is no such row.
const GpuSheet* find_gpu_sheet(std::string_view name);
const GpuSheet* sheet_of(const GpuInfo& gpu);

}  // namespace tachy::cuda
