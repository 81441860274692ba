// A norm over the channels of each row: RMSNorm (weight) or LayerNorm (weight and bias), with the
// checkpoint's values.
#pragma once

#include "nn/params.h"
#include "ops/add_norm/add_norm.h"
#include "weights/scope.h"

namespace tachy::nn {

struct Norm {
  ops::NormKind kind = ops::NormKind::rms;
  Tensor weight, bias;  // [channels] f32; the bias only of a LayerNorm
  float eps = 1e-6f;

  // The tensors `weight` and `bias` are in `scope`.
  static Norm rms(const Scope& scope, ParamStore& store, int64_t channels, float eps);
  static Norm layer(const Scope& scope, ParamStore& store, int64_t channels, float eps);
  bool defined() const { return weight.defined(); }

  // Computes x [M, channels] → y, which may be x.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream) const;
};

// Runs ops::add_norm, or the residual add and then the norm if the stream has fused norms switched off. It
// only serves LayerNorms whose sum is stored.
void add_norm(const ops::AddNormArgs& args, Stream& stream);

}  // namespace tachy::nn
