// Random numbers equal to PyTorch's, so that a seed gives the starting noise PyTorch users know.
//
// CPU: equal to torch 2.11's bit for bit, as it computes on processors with AVX2 or AVX-512
// (both give the same; torch's plain build for older processors differs from it by up to
// 2.2e-6). Every FMA is explicit, so the result is the same on any machine here. CUDA: the
// integers are exact; the Box-Muller transform uses the C library's logf and sine where the
// GPU has its approximate ones, so values agree to 4e-6 absolute, not to the bit.
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

  // torch.randn(n, generator=this): for fewer than 16 values a double Box-Muller whose second value is kept
  // for the next call; from 16 on blocks of 16 uniforms, where the last block is redrawn if n % 16 != 0.
  void normal(std::span<float> out);
  // Skips as many values as if they had been drawn at once, in whole blocks of 16.
  void skip(size_t n);

  // torch.randperm(n, generator=this)
  std::vector<int64_t> permutation(int64_t n);

  // Everything that the next values depend on, as bytes: the state's 624 words, how many of them are used up,
  // and the value that was kept. restore throws `corrupt` for bytes that save cannot make.
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
  size_t position_ = kStateSize;  // all used up: the first call renews the state
  std::optional<double> kept_;
};

// torch.Generator("cuda").manual_seed(seed): Philox4x32-10 and cuRAND's Box-Muller. It uses 256 threads per
// block and at most 8 blocks per multiprocessor (2048 threads); each thread writes every (threads in the
// grid)-th value. The values depend on the GPU's number of multiprocessors once n > multiprocessors * 2048
// (270336 for 132, an H100 or H200 SXM).
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

// The first draw of a fresh generator.
void torch_cpu_normal(uint64_t seed, std::span<float> out);
void torch_cuda_normal(uint64_t seed, std::span<float> out, int multiprocessors = 132);

// Ten rounds of Philox4x32 (Salmon et al. 2011).
std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

}  // namespace tachy
