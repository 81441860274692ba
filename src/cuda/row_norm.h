// Launches device/row_norm.cuh for the .cu files of rmsnorm, layernorm_modulate, add_norm and channel_norm.
#pragma once

#include <bit>
#include <limits>
#include <type_traits>

#include "cuda/overlap.h"
#include "cuda/row_plan.h"
#include "device/row_norm.cuh"

namespace tachy::cuda {

template <device::RowNorm kKind, bool Add, device::Act kAct, class X, class U, class Y, class W>
void launch_row_norm(const char* op, device::RowNormParams<X, U, Y, W> p, bool packs_fit,
                     const Stream& stream) {
  constexpr bool kLayer = kKind == device::RowNorm::layer;
  constexpr int kValues = device::kPack<X, Y>;
  if (p.rows == 0 || p.c == 0) return;
  // The last block's row numbers must be ints, too.
  constexpr int64_t kMostRows = std::numeric_limits<int>::max() - 512;
  const RowPlan plan =
      packs_fit && p.rows <= kMostRows ? plan_row(p.c / kValues, p.rows, stream, Add ? 5 : 6) : RowPlan{};
  p.inverse_c = 1.0f / static_cast<float>(p.c);
  p.streaming = streams(stream, p.rows * p.c * static_cast<int64_t>(sizeof(X) + sizeof(Y)));
  if (!plan.chunks) {
    const LaunchShape shape{persistent_grid(stream, p.rows, 16), 256};
    return launch(op, device::row_norm_any_kernel<kKind, Add, kAct, X, U, Y, W>, shape, stream, p);
  }
  p.log2_width = std::countr_zero(static_cast<unsigned>(plan.width));
  using device::Parts;
  const bool usual = !p.bias && (kLayer ? p.scale && !p.weight : p.weight && !p.scale);
  const auto run = [&]<int Chunks, Parts kParts>() {
    const int each = plan.threads / plan.width;
    launch_overlapping(op, device::row_norm_kernel<kKind, Add, kAct, kParts, kValues, Chunks, X, U, Y, W>,
                       {blocks_for(p.rows, each), static_cast<unsigned>(plan.threads)}, stream, p);
  };
  dispatch_chunks(plan.chunks, [&]<int Chunks>() {
    // Combinations that cannot occur are not compiled: a LayerNorm with the usual parts has no weight, and
    // only RMSNorm rounds twice.
    if constexpr (kKind == device::RowNorm::rms && sizeof(Y) == 2)
      if (p.round_twice) return run.template operator()<Chunks, Parts::twice>();
    if constexpr (!kLayer || sizeof(W) == 4)
      if (usual) return run.template operator()<Chunks, Parts::usual>();
    run.template operator()<Chunks, Parts::any>();
  });
}

// Whether a [C] or [R, C] table of float32 parameters can be read in packs.
inline bool fits_param(int pack, const Tensor& t) { return fits_packs(pack, {&t}); }

// Calls run<W>() with the dtype of a norm's weight and bias: X if they are 16-bit
// like x and y, otherwise float.
template <class X, class Y, class Body>
void dispatch_weight(const Tensor& weight, const Tensor& bias, Body&& run) {
  if constexpr (sizeof(X) == 2 && std::is_same_v<X, Y>) {
    const Tensor& t = weight.defined() ? weight : bias;
    if (t.defined() && t.dtype != DType::f32) return run.template operator()<X>();
  }
  run.template operator()<float>();
}

template <class T>
T* data_of(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.data) : nullptr;
}
inline int64_t stride_of(const Tensor& t) { return t.defined() && t.rank > 1 ? t.strides[0] : 0; }

}  // namespace tachy::cuda
