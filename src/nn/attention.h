// The layers of a multi-head attention: q, k and v, each a product of its own or the three as one, perhaps
// norms of q and k over all channels (before the heads part), and the way out.
#pragma once

#include "nn/linear.h"
#include "nn/norm.h"
#include "ops/attention/attention.h"

namespace tachy::nn {

// An attention whose heads may be computed some at a time (runtime/pace.h): heads know nothing of one another. Of one range
// of keys, all or listed blocks of it, without masks and biases.
void attention_in_pieces(const ops::AttentionArgs& args, Stream& stream);

// What a self-attention is told besides its input; see ops/attention/attention.h.
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
  // q, k and v [rows, heads·head_dim] in the arena's memory; the rows of one may have the others' between them.
  struct Projected {
    Tensor q, k, v;
  };

  Linear q, k, v;
  Linear qkv;  // in place of the three where they are joined
  Linear out;
  Norm norm_q, norm_k;  // undefined: none
  int64_t heads = 1, head_dim = 1;

  Attention() = default;
  Attention(const Scope& scope, ParamStore& store, const Layers& layers);

  // [rows, heads·head_dim] as [batch, rows / batch, heads, head_dim], and as [batch, rows / batch, heads·head_dim].
  Tensor by_heads(const Tensor& t, int64_t batch) const;
  static Tensor by_batch(const Tensor& t, int64_t batch);

  // Not normed. `codes`: of x, which is not read where they are given (Linear::takes_codes).
  Projected project(const Tensor& x, Stream& stream, const RowCodes& codes = {}) const;
  // Keys and values of rows that queries of another input will look at; the keys normed.
  void keys(const Tensor& x, const Tensor& to_k, const Tensor& to_v, Stream& stream) const;

  // y = residual + out(the attention of x's rows among themselves); y may be the residual.
  void operator()(const Tensor& x, const Tensor& y, const Tensor& residual, const AttentionInput& in,
                  Stream& stream) const;
};

}  // namespace tachy::nn
