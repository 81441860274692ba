// Random numbers equal to PyTorch's, so that a seed gives the starting noise that PyTorch users know.
//
// On the CPU they equal torch 2.11's bit for bit, as it computes on processors with AVX2 or AVX-512 (torch's
// plain build for older processors differs by up to 2.2e-6). Every FMA is explicit, so all supported machines
// give the same result. For CUDA the integers are exact, but the Box-Muller transform uses the C library's
// logf and sine where the GPU has approximate ones, so values agree only to 4e-6 absolute.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tensor/mersenne.h"

namespace tachy {

// torch.Generator("cpu").manual_seed(seed): mt19937, seeded from the low 32 bits.
class TorchCpuGenerator {
 public:
  explicit TorchCpuGenerator(uint64_t seed);

  // Gives torch.randn(n, generator=this). Fewer than 16 values are made by Box-Muller in double, whose second
  // value is kept for the next call. 16 or more are made in blocks of 16 uniforms, where the last block is
  // redrawn if n % 16 != 0.
  void normal(std::span<float> out);
  // Skips n values as if they had been drawn in one call, in whole blocks of 16.
  void skip(size_t n);

  // Gives torch.randperm(n, generator=this).
  std::vector<int64_t> permutation(int64_t n);

  // Everything that determines the next values, as bytes: the 624 words of the state, how many of them are
  // used up, and the kept value. restore throws `corrupt` for bytes that save cannot have made.
  std::vector<uint8_t> save() const;
  void restore(std::span<const uint8_t> bytes);

 private:
  void renew();
  uint32_t next();
  void uniform24(std::span<float> out);
  double uniform53();
  double normal_scalar();

  static constexpr size_t kStateSize = mersenne::kWords;

  std::array<uint32_t, kStateSize> state_;
  size_t position_ = kStateSize;  // all words are used up, so the first call renews the state
  std::optional<double> kept_;
};

// torch.Generator("cuda").manual_seed(seed): Philox4x32-10 with cuRAND's Box-Muller. It uses 256 threads per
// block and at most 8 blocks per multiprocessor (2048 threads). Each thread writes every k-th value, where k
// is the number of threads in the grid. For n > multiprocessors * 2048 (270336 for the 132 of an H100 or H200
// SXM) the values depend on the number of multiprocessors.
class TorchCudaGenerator {
 public:
  explicit TorchCudaGenerator(uint64_t seed, int multiprocessors = 132);
  void normal(std::span<float> out);  // torch.randn(n, generator=this, device="cuda")
  std::vector<uint8_t> save() const;
  void restore(std::span<const uint8_t> bytes);

 private:
  uint64_t seed_, counter_ = 0;
  int64_t grid_limit_;  // in blocks
};

// The first values that a fresh generator draws.
void torch_cpu_normal(uint64_t seed, std::span<float> out);
void torch_cuda_normal(uint64_t seed, std::span<float> out, int multiprocessors = 132);

// Ten rounds of Philox4x32 (Salmon et al. 2011).
std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace tachy
