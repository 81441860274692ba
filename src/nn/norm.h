// A norm over the channels of each row, with the weights of the checkpoint: RMSNorm (weight) or LayerNorm
// (weight and bias).
#pragma once

#include "nn/params.h"
#include "ops/add_norm/add_norm.h"
#include "weights/scope.h"

namespace tachy::nn {

struct Norm {
  ops::NormKind kind = ops::NormKind::rms;
  Tensor weight, bias;  // [channels] f32; the bias only of a LayerNorm
  float eps = 1e-6f;

  // `scope` is where `weight` (and `bias`) lie.
  static Norm rms(const Scope& scope, ParamStore& store, int64_t channels, float eps);
  static Norm layer(const Scope& scope, ParamStore& store, int64_t channels, float eps);
  bool defined() const { return weight.defined(); }

  // x [M, channels] → y, which may be x.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream) const;
};

// ops::add_norm or, on a stream without fused norms, the residual add and then the norm. It is for a
// LayerNorm whose sum is stored.
void add_norm(const ops::AddNormArgs& args, Stream& stream);

}  // namespace tachy::nn
