// Random numbers equal to PyTorch's, so that a seed gives the starting noise PyTorch users know.
#pragma once

#include <cstdint>
#include <span>

namespace tachy {

// torch.randn(n, generator=torch.Generator("cpu").manual_seed(seed)): mt19937; the scalar Box-Muller path
// below 16 values, the vectorised one from 16 on (blocks of 16, the last block redrawn when n % 16 != 0).
void torch_cpu_normal(uint64_t seed, std::span<float> out);

// torch.randn(n, generator=torch.Generator("cuda").manual_seed(seed), device="cuda"): Philox4x32-10 and
// cuRAND's Box-Muller. The grid, and so the values, depend on the GPU's number of multiprocessors once n is
// above multiprocessors * 2048 * 4 or so; 132 is an H100 or H200 SXM.
void torch_cuda_normal(uint64_t seed, std::span<float> out, int multiprocessors = 132);

}  // namespace tachy
