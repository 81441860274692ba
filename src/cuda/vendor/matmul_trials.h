// The tensors of a trial product, with device memory of their own. It is run to find out whether, and how
// fast, it runs.
#pragma once

#include <algorithm>
#include <vector>

#include "cuda/gpu.h"
#include "cuda/vendor/cublaslt.h"

namespace tachy::cuda {

// Its memory is filled with numbers of magnitude 1/2 to 2 (zeros would run too fast). `data` has the worst
// alignment that the product's tensors may have.
struct Trial {
  Gpu& gpu;
  size_t bytes;
  void *begin, *data;
  Trial(Gpu& g, int64_t count, DType type, int alignment)
      : gpu(g), bytes(static_cast<size_t>(count * dtype_size(type)) + 16) {
    begin = gpu.allocate(bytes);
    data = static_cast<char*>(begin) + std::max(alignment, static_cast<int>(dtype_size(type))) % 16;
    std::vector<uint32_t> words(std::min<size_t>(bytes / 4 + 1, 1 << 18));
    uint64_t state = 1;
    for (auto& word : words) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto r = static_cast<uint32_t>(state >> 32);
      word = type == DType::f16       ? 0x38003800u | (r & 0x87ff87ffu)
             : type == DType::bf16    ? 0x3f003f00u | (r & 0x80ff80ffu)
             : type == DType::f8_e4m3 ? 0x38383838u | (r & 0x87878787u)
                                      : 0x3f000000u | (r & 0x80ffffffu);
    }
    for (size_t at = 0; at < bytes; at += words.size() * 4)
      gpu.upload(static_cast<char*>(begin) + at, words.data(), std::min(bytes - at, words.size() * 4));
  }
  ~Trial() { gpu.release(begin, bytes); }
  Trial(const Trial&) = delete;
};

// The tensors of a trial product.
struct Trials {
  Trial x, w, y, bias, c, workspace, scales;
  MatmulTensors tensors;
  Trials(Gpu& gpu, const MatmulShape& s)
      : x(gpu, s.m * s.x_row, s.type, s.alignment),
        w(gpu, (s.w_is_nk ? s.n : s.k) * s.w_row, s.type, s.alignment),
        y(gpu, s.m * s.y_row, s.out, s.alignment),
        bias(gpu, s.n, s.out, s.alignment),
        c(gpu, s.c ? s.m * s.c_row : 1, s.out, s.alignment),
        workspace(gpu, static_cast<int64_t>(kMatmulWorkspaceBytes / 4), DType::f32, 16),
        scales(gpu, s.scales ? std::max(s.m, s.n) : 1, DType::f32, 16),
        tensors{.x = x.data, .w = w.data, .y = y.data, .workspace = workspace.data} {
    if (s.bias) tensors.bias = bias.data;
    if (s.c) tensors.c = c.data;
    if (s.scales) tensors.x_scale = tensors.w_scale = scales.data;
  }
};

}  // namespace tachy::cuda
