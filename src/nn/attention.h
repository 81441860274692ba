// The layers of a multi-head attention: q, k and v, either three products or joined into one, optional norms
// of q and k over all channels (before they are split into heads), and the output layer.
#pragma once

#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/attention/attention.h"

namespace tachy::nn {

// An attention that may be computed a few heads at a time (runtime/pace.h), since heads do not depend on one
// another. It attends to one range of keys, all of them or listed blocks, without masks and biases.
void attention_in_pieces(const ops::AttentionArgs& args, Stream& stream);

// Inputs of a self-attention besides x; see ops/attention/attention.h.
struct AttentionInput {
  int64_t batch = 1;
  Tensor key_bias, bias;
  float scale = 1;
};

struct Attention {
  // Names below the scope, and sizes. Joined: q, k and v are one product.
  struct Layers {
    const char *q, *k, *v, *out;
    int64_t channels, heads, head_dim;
    bool biases = true, joined = false;
  };
  // q, k and v [rows, heads·head_dim] in the arena's memory. If they are joined, each one's rows have the
  // others' between them.
  struct Projected {
    Tensor q, k, v;
  };

  Linear q, k, v;
  Linear qkv;  // used in place of the three when they are joined
  Linear out;
  Norm norm_q, norm_k;  // undefined if there are none
  int64_t heads = 1, head_dim = 1;

  Attention() = default;
  Attention(const Scope& scope, ParamStore& store, const Layers& layers);

  // Views t [rows, heads·head_dim] as [batch, rows / batch, heads, head_dim], and as
  // [batch, rows / batch, heads·head_dim].
  Tensor by_heads(const Tensor& t, int64_t batch) const;
  static Tensor by_batch(const Tensor& t, int64_t batch);

  // The result is not normed. If `codes` of x are given, x itself is not read (Linear::takes_codes).
  Projected project(const Tensor& x, Stream& stream, const RowCodes& codes = {}) const;
  // Makes keys (normed) and values of rows that the queries of another input will look at.
  void keys(const Tensor& x, const Tensor& to_k, const Tensor& to_v, Stream& stream) const;

  // y = residual + out(the self-attention of x's rows); y may be the residual.
  void operator()(const Tensor& x, const Tensor& y, const Tensor& residual, const AttentionInput& in,
                  Stream& stream) const;
};

}  // namespace tachy::nn
