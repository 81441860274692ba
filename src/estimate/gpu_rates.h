// How fast kinds of GPUs do what a run consists of: the one table by which `--plan --gpu` predicts. A rate is what is reached
// within a run, from the least to the most, and its source says who has seen that. A rate of 0 to 0 is not known: then
// nothing is predicted, rather than something wrong.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cuda/gpu.h"
#include "tensor/work_tally.h"

namespace tachy {

struct Rate {
  double least, most;  // a second: TFLOP of products, TB of memory
  const char* source;
  bool known() const { return least > 0; }
};

struct GpuRates {
  const char* name;   // "a100"
  const char* title;  // "NVIDIA A100, 80 GB"
  int capability;     // a row of a lower one is of the same GPU under TACHY_CUDA_CAPABILITY
  bool seen;          // this project has run there
  int multiprocessors;
  double memory_gib;
  Rate product, product_fp8, product_f32;  // linear layers in 16 bits, in e4m3, in float32
  Rate attention, attention_int8;          // in 16 bits; by attention in 8 bits
  Rate convolution, convolution_fp8;
  Rate memory;    // passes that only read and write
  Rate transfer;  // from page-locked host memory
};

std::span<const GpuRates> gpu_rates();
// By its name; with TACHY_CUDA_CAPABILITY the newest row that is not newer. Throws invalid_argument, with the names.
const GpuRates& find_gpu_rates(std::string_view name);
cuda::GpuInfo facts_of(const GpuRates& rates);

// Of what it multiplies, or moves.
const Rate& rate_of(const GpuRates& rates, WorkKind kind, DType numbers);

}  // namespace tachy
