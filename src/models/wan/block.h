// One Wan transformer block:
//   u = LN(x)(1 + M1) + M0;  x += SelfAttn(u)·M2          q, k RMS-normed over all channels, 3-D rope
//   x += CrossAttn(LN_affine(x))                          keys and values made once per prompt (see WanContext)
//   u = LN(x)(1 + M4) + M3;  x += FFN(u)·M5               FFN: Linear, gelu(tanh), Linear
// Here M is scale_shift_table plus the time projection. Its rows are shift, scale and gate, first for
// attention and then for the FFN. What variants of Wan add between these lines is in their branches
// (branch.h).
#pragma once

#include <span>
#include <vector>

#include "models/wan/branch.h"
#include "models/wan/causal.h"
#include "models/wan/sparse.h"
#include "models/wan/wan_config.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "runtime/attend_by_heads.h"

namespace tachy {

// The keys and values that every block makes of a prompt. They do not change during a run, so they are
// computed once. (After the text MLP all rows past the prompt are equal; they become one key whose score gets
// ln(count) added.)
struct WanContext {
  Tensor k, v;      // [layers, keys, dim] f32 (on a GPU: the activations' dtype)
  Tensor key_bias;  // [1, keys] f32; undefined if no rows were merged
  WanExtras more;   // added by branches, such as the keys of a picture
};

struct WanBlockInput {
  int64_t batch = 1, tokens = 0;
  Tensor x;           // [batch·tokens, dim], the residual stream, updated in place
  Tensor modulation;  // [layers, R, 6·dim] f32: a block's table plus the time projection, for R timesteps
  Tensor row;         // [batch·tokens] i32: a token's row of `modulation`; if undefined, row 0
  Tensor cos, sin;    // [tokens, head_dim/2] f32
  std::vector<const WanContext*> contexts;  // one per batch item
  Tensor u;  // [batch·tokens, dim] of the activations' dtype: x normed and modulated for the next block
  // Used instead of u if norms write codes. u then holds the result of attention and, after the last block,
  // the norm of x.
  nn::RowCodes codes = {};
  const Tensor& normed() const { return codes.defined() ? codes.values : u; }
  // The ranks that share the tokens. `tokens`, and all sizes that follow from it, count only this rank's
  // tokens; `spread` is about those of all ranks. Each rank has the whole contexts. If null, a single rank
  // has all tokens.
  runtime::Comm* comm = nullptr;
  runtime::Spread spread = {};
  WanKeys keys = {};  // the keys to which self-attention attends
  // Set for a block of a video, which also uses the keys and values of earlier frames.
  const WanCausal* causal = nullptr;
  bool fill_only = false;  // with `causal`: only the block's keys and values are needed
  WanExtras more = {};     // what branches get for the pass, and what they made when it began
};

// Scale and shift that modulate a norm of x: LN(x)(1 + scale) + shift.
struct WanModulation {
  Tensor scale, shift;  // [R, dim] f32
};

class WanBlock {
 public:
  // `table` [6·dim] is the block's row in the model's tables, and is filled in here. The model's `branches`
  // load their parameters for this block, and must outlive it.
  WanBlock(const Scope& scope, const WanConfig& config, int64_t index, const Tensor& table,
           nn::ParamStore& store, std::span<const std::unique_ptr<WanBranch>> branches = {});

  // Takes its first norm from in.u. Leaves in in.u the norm of x that `next` describes (the next block's
  // first norm, or the head's). x itself is not kept after the last block. Without `next`, x is the only
  // result.
  void forward(const WanBlockInput& in, const WanModulation& next, int64_t index, Stream& stream) const;

  // Says whether norms may write codes for the products after them (WanBlockInput::codes).
  bool takes_codes(const Stream& stream) const;

  static WanModulation first_norm(const WanBlockInput& in, int64_t index);  // the first norm of block `index`

  // Computes k, v [n, dim] from text [n, dim], the result of the text MLP.
  void text_keys(const Tensor& text, const Tensor& k, const Tensor& v, Stream& stream) const;

  // The scale of attention's scores for queries from a block's fused norms. Other queries have 1 /
  // sqrt(head_dim).
  static float score_scale(const WanConfig& config, const Stream& stream);

 private:
  static Tensor block_modulation(const WanBlockInput& in, int64_t index);  // [R, 6, dim]
  void check_ranks(const WanBlockInput& in) const;
  // Norms self-attention's q and turns it by the rope in place; does the same with k, and writes the result
  // to to_k. Both happen in one pass, which also multiplies q by attention's scale.
  void norm_and_turn(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& to_k,
                     Stream& stream) const;
  void norm_queries(const Tensor& q, Stream& stream) const;  // norms the queries of the cross-attention
  // Returns 1 / sqrt(head_dim) times log2(e), the scale of queries if scores are exponents of two
  // (ops::kPowersOfTwo).
  float query_scale() const;
  // Lets the q rows of batch item b attend to the text's keys and to those of branches. The result is written
  // to the rows of u.
  void context_attention(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q, const Tensor& u,
                         Stream& stream) const;
  // Says whether a `fill_only` pass ends in this block when its keys and values have been made.
  bool filled_by(const WanBlockInput& in, int64_t index) const;
  void self_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index, Stream& stream) const;
  // Lets q attend to all keys that it may see, and writes out [rows, dim]. The keys are k of this pass, or,
  // if k is undefined, those of the ring, which then holds them already.
  void attend(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& out, int64_t index,
              Stream& stream) const;
  void attend_to_ring(const WanBlockInput& in, const runtime::HeadTensors& t, int64_t index,
                      Stream& stream) const;
  // Adds `sum` to x, and writes to u the norm of x with the modulation `to`. With `head`, u is for the head,
  // and x is not kept.
  void add_and_norm(const WanBlockInput& in, const WanPending& sum, const WanModulation& to, bool head,
                    Stream& stream) const;
  void cross_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index,
                       Stream& stream) const;
  void feed_forward(const WanBlockInput& in, const Tensor& modulation, const WanModulation& next,
                    int64_t index, Stream& stream) const;

  WanConfig config_;
  nn::Attention self_, cross_;
  nn::Norm cross_norm_;                     // undefined if the model has none
  std::vector<const WanBranch*> branches_;  // those that act in this block
  nn::Mlp mlp_;
};

}  // namespace tachy
