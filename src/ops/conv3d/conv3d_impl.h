// Entries of causal_conv3d's table, and where a tap finds its frame.
#pragma once

#include "ops/conv3d/conv3d.h"
#include "ops/impl_table.h"

namespace tachy::ops::conv3d_impl {

// Frame `index` of (front history frames ++ x): in x, in the cache, or nullptr where it is zero.
inline const float* input_frame(const CausalConv3dArgs& a, int64_t index) {
  const int64_t pixels = a.x.dim(1) * a.x.dim(2) * a.x.dim(3);
  const int64_t t = index - a.front;
  if (t >= 0) return a.x.as<float>() + t * pixels;
  if (-t > a.history) return nullptr;
  return a.cache.as<float>() + (a.cache.dim(0) + t) * pixels;
}

std::optional<std::string> why_not_onednn(const CausalConv3dArgs& args, const Stream& stream);
void run_onednn(const CausalConv3dArgs& args, Stream& stream);
void run_ref(const CausalConv3dArgs& args, Stream& stream);

}  // namespace tachy::ops::conv3d_impl
