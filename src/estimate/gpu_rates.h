// How fast kinds of GPUs do the work of a run: the one table from which `--plan --gpu` predicts. A rate is
// what a run reaches, from the least to the most, and its source says where that was seen. A rate of 0 to 0
// is unknown: nothing is predicted then, rather than something wrong.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cuda/gpu.h"
#include "tensor/work_tally.h"

namespace tachy {

struct Rate {
  double least, most;  // per second: TFLOP of products, TB of memory
  const char* source;
  bool known() const { return least > 0; }
};

struct GpuRates {
  const char* name;   // "a100"
  const char* title;  // "NVIDIA A100, 80 GB"
  int capability;     // a row with a lower one is for the same GPU under TACHY_CUDA_CAPABILITY
  bool seen;          // this project has run on it
  int multiprocessors;
  double memory_gib;
  Rate product, product_fp8, product_f32;  // linear layers in 16 bits, in e4m3, in float32
  Rate attention, attention_int8;          // in 16 bits; attention_int8: attention in 8 bits
  Rate convolution, convolution_fp8;
  Rate memory;    // passes that only read and write
  Rate transfer;  // from page-locked host memory
};

std::span<const GpuRates> gpu_rates();
// Finds a GPU by its name; with TACHY_CUDA_CAPABILITY, the newest row that does not exceed it. Throws
// invalid_argument, with the names.
const GpuRates& find_gpu_rates(std::string_view name);
cuda::GpuInfo facts_of(const GpuRates& rates);

// The rate for this kind of work and this dtype.
const Rate& rate_of(const GpuRates& rates, WorkKind kind, DType numbers);

}  // namespace tachy
