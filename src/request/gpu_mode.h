// The optimisations that each level turns on on a GPU (level.h has the CPU's side of the same names).
//
//   none        float32 activations and products (IEEE, no TF32), every launch by itself: for comparison
//   safe        bf16 activations and products; sums, statistics, softmax, modulation and the residual stream
//               in float32; a step's transformer pass is a CUDA graph; every kernel adds in a fixed order, so
//               that a repeated run gives the same bits (the default)
//   aggressive  + the residual stream in the activations' dtype, as diffusers has it
//   extreme     + the step cache, and from compute capability 8.9 on linear layers in e4m3
//
// Each optimisation can be switched by itself: `dtype`, `step_cache`, `graphs` (TACHY_GRAPHS=off), `residual`
// (TACHY_RESIDUAL=f32 or low), `math`. No level turns on attention in 8 bits or products in TF32: `attention`
// and `math` do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/precision.h"

namespace tachy {

struct GpuMode {
  DType activation = DType::bf16;                // dtype of activations and of the products' operands
  DType residual = DType::f32;                   // dtype of the transformer's residual stream
  bool attention_int8 = false;                   // computes self-attention's products in 8 bits
  Products products = Products::as_activations;  // products of the transformer's blocks; tf32 is for all
                                                 // layers
  bool graphs = true;                            // denoising steps are captured and replayed
  double step_cache = 0;
  bool operator==(const GpuMode&) const = default;
};

struct GpuLevel {
  const char* name;
  GpuMode mode;
  const char* means;
};
const std::vector<GpuLevel>& gpu_levels();  // under the names of levels()

// `dtype` is f32, f16 or bf16 in place of the level's, or "". `residual` is f32, the same as dtype, or "".
// `attention` is auto, bf16 or int8. `math` is auto, bf16, fp8, int8 or tf32. Throws invalid_argument or
// unsupported, naming the argument (or `level`). `capability` is the GPU's, if it is known. Below 8.0 there
// are no bf16 products: f16 is the default there, and bf16 is unsupported.
GpuMode gpu_mode(std::string_view level, std::string_view dtype = {}, int capability = 80,
                 std::string_view residual = {}, std::string_view attention = "auto",
                 std::string_view math = "auto");

}  // namespace tachy
