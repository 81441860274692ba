// The layers of a multi-head attention: q, k and v as three products or one joined product, optional norms of
// q and k over all channels (before they are split into heads), and the output layer.
#pragma once

#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/attention/attention.h"

namespace tachy::nn {

// Computes an attention a few heads at a time (runtime/pace.h), which is possible because heads do not depend
// on one another. It attends to all keys or to listed blocks of keys, without masks or biases.
void attention_in_pieces(const ops::AttentionArgs& args, Stream& stream);

// Inputs of a self-attention besides x; see ops/attention/attention.h.
struct AttentionInput {
  int64_t batch = 1;
  Tensor key_bias, bias;
  float scale = 1;
};

struct Attention {
  // The layers' names below the scope, and sizes. If `joined`, q, k and v are one product.
  struct Layers {
    const char *q, *k, *v, *out;
    int64_t channels, heads, head_dim;
    bool biases = true, joined = false;
  };
  // q, k and v [rows, heads·head_dim] in the arena's memory. If they are joined, a row of q is followed by
  // the same row of k and of v.
  struct Projected {
    Tensor q, k, v;
  };

  Linear q, k, v;
  Linear qkv;  // used in place of the three when they are joined
  Linear out;
  Norm norm_q, norm_k;  // undefined if the model has none
  int64_t heads = 1, head_dim = 1;

  Attention() = default;
  Attention(const Scope& scope, ParamStore& store, const Layers& layers);

  // These view t [rows, heads·head_dim] as [batch, rows / batch, heads, head_dim] and as [batch, rows /
  // batch, heads·head_dim].
  Tensor by_heads(const Tensor& t, int64_t batch) const;
  static Tensor by_batch(const Tensor& t, int64_t batch);

  // The results are not normed yet. If `codes` of x are given, x itself is not read (Linear::takes_codes).
  Projected project(const Tensor& x, Stream& stream, const RowCodes& codes = {}) const;
  // Makes normed keys, and values, for the queries of another input.
  void keys(const Tensor& x, const Tensor& to_k, const Tensor& to_v, Stream& stream) const;

  // Computes y = residual + out(self-attention of x's rows); y may be the residual.
  void operator()(const Tensor& x, const Tensor& y, const Tensor& residual, const AttentionInput& in,
                  Stream& stream) const;
};

}  // namespace tachy::nn
