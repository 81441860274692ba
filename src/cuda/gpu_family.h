// The numbers that differ from GPU to GPU: from which size on one implementation of an op is faster than
// another, and how much of a product is kept in the cache. One row a family, chosen by compute capability;
// what a kernel can do at all (shared memory, instructions) is asked of the GPU itself instead.
//
// Rows marked as measured are (bench/NOTES.md); the others are guesses: the measured row's numbers, until
// somebody measures there. An implementation that a family lacks says so itself, whatever its row holds.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/gpu.h"

namespace tachy::cuda {

struct GpuFamily {
  const char* name;
  const char* gpus;
  int capability;  // the lowest one of the family: 75, 80, 86, 90, 100
  bool measured;
  // Attention without a bias: from so many keys on our kernel (flash_sm90) rather than cuDNN's; the same where the
  // scores are powers of two.
  int64_t flash_keys, flash_keys_of_powers;
  // Attention with a bias for each key: up to so many keys our kernel (few_keys) rather than cuDNN's.
  int64_t few_keys;
  // Attention as products: bytes of scores that are made at a time.
  int64_t score_bytes;
  // A product whose epilogue the library lacks: bytes of float32 sums that are made at a time.
  int64_t product_bytes;
};

std::span<const GpuFamily> gpu_families();  // oldest first
const GpuFamily& family_of(const GpuInfo& gpu);

}  // namespace tachy::cuda
