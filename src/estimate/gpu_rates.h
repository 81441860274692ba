// The speed of GPUs in the work of a run: `--plan --gpu` predicts only from this table. A rate is what a run
// reaches, from the least to the most, and its source says where this was observed. A rate of 0 to 0 is
// unknown; it gives no prediction rather than a wrong one.
//
// GPUs on which nothing was run have a share of their data sheet's ceiling (cuda/gpu_sheet.h): the one that the same
// kernel reaches of mma.sync's ceiling on an H100.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cuda/gpu.h"
#include "tensor/work_tally.h"

namespace tachy {

struct Rate {
  double least, most;  // per second, in TFLOP for products and TB for memory
  const char* source;
  bool known() const { return least > 0; }
};

struct GpuRates {
  const char* name;   // "a100"
  const char* title;  // "NVIDIA A100, 80 GB"
  int capability;     // with a lower one than its GPU's, the row is for that GPU under TACHY_CUDA_CAPABILITY
  bool seen;          // says whether this project has run on it
  int multiprocessors;
  double memory_gib;
  Rate product, product_fp8, product_int8, product_f32;  // linear layers in 16 bits, e4m3, int8 and float32
  Rate attention, attention_int8;                        // attention in 16 bits and in 8 bits
  Rate convolution, convolution_fp8, convolution_int8;
  Rate memory;    // passes that only read and write
  Rate transfer;  // copies from page-locked host memory
  Rate link;      // what a card sends to others of its host while they send, too
};

std::span<const GpuRates> gpu_rates();
// Finds a GPU by its name; if TACHY_CUDA_CAPABILITY is set, takes the newest row that does not exceed it.
// Throws invalid_argument with the known names.
const GpuRates& find_gpu_rates(std::string_view name);
cuda::GpuInfo facts_of(const GpuRates& rates);

// Returns the rate for this kind of work and this dtype.
const Rate& rate_of(const GpuRates& rates, WorkKind kind, DType numbers);

}  // namespace tachy
