// The numbers that differ from GPU to GPU, such as the size from which one implementation of an op is faster
// than another, and how much of a product is kept in the cache. There is one row per family, chosen by
// compute capability. Whether a kernel can run at all (shared memory, instructions) depends on the GPU
// itself, not on this table.
//
// Rows marked as measured were measured (bench/NOTES.md); the others are guesses, with the measured row's
// numbers, until somebody measures there. An implementation that a family lacks refuses by itself, whatever
// its row holds.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/gpu.h"

namespace tachy::cuda {

struct GpuFamily {
  const char* name;
  const char* gpus;
  int capability;  // the lowest one of the family: 75, 80, 86, 90, 100, 120
  bool measured;
  // For attention without a bias: with at least this many keys our kernel (flash_sm90) is used rather than
  // cuDNN's; the second number is for scores that are powers of two.
  int64_t flash_keys, flash_keys_of_powers;
  // For attention with a bias for each key: with up to this many keys our kernel (few_keys) is used rather
  // than cuDNN's.
  int64_t few_keys;
  // For attention as products: bytes of scores that are computed at a time.
  int64_t score_bytes;
  // For a product whose epilogue the library lacks: bytes of float32 sums that are computed at a time.
  int64_t product_bytes;
  // Whether a convolution by mma.sync also normalises what it makes, which costs instructions and saves a pass
  // over memory. An H200 as 8.0 loses 0.8 % of a decode by it (bench/notes/vae.md). The rows of cards with
  // slower memory for their instructions are a prediction from data sheets.
  bool conv_norms;
};

std::span<const GpuFamily> gpu_families();  // oldest first
const GpuFamily& family_of(const GpuInfo& gpu);

}  // namespace tachy::cuda
