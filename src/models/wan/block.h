// One Wan transformer block:
//   u = LN(x)(1 + M1) + M0;  x += SelfAttn(u)·M2          q, k RMS-normed over all channels, 3-D rope
//   x += CrossAttn(LN_affine(x))                          keys and values made once per prompt (see WanContext)
//   u = LN(x)(1 + M4) + M3;  x += FFN(u)·M5               FFN: Linear, gelu(tanh), Linear
// with M = scale_shift_table + the time projection, rows shift, scale, gate of attention, then of the FFN. What variants do
// between these lines is their branches' (branch.h).
#pragma once

#include <span>
#include <vector>

#include "models/wan/branch.h"
#include "models/wan/causal.h"
#include "models/wan/sparse.h"
#include "models/wan/wan_config.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "runtime/comm.h"

namespace tachy {

// Keys and values of one prompt for every block: constant during a run, so computed once (the text rows past
// the prompt are all equal after the text MLP: they are one key whose score carries ln(count)).
struct WanContext {
  Tensor k, v;      // [layers, keys, dim] f32 (on a GPU: the activations' dtype)
  Tensor key_bias;  // [1, keys] f32; undefined when no rows were collapsed
  WanExtras more;   // of branches: keys of a picture
};

struct WanBlockInput {
  int64_t batch = 1, tokens = 0;
  Tensor x;           // [batch·tokens, dim], the residual stream, updated in place
  Tensor modulation;  // [layers, R, 6·dim] f32: each block's table + the time projection of R timesteps
  Tensor row;         // [batch·tokens] i32, or undefined: row 0
  Tensor cos, sin;    // [tokens, head_dim/2] f32
  std::vector<const WanContext*> contexts;  // one a batch item
  Tensor
      u;  // [batch·tokens, dim] of the activations' dtype: x normed and modulated for the block that is next
  // In place of u where norms write codes: then u holds what attention leaves, and after the last block x's norm.
  nn::RowCodes codes = {};
  const Tensor& normed() const { return codes.defined() ? codes.values : u; }
  // The ranks that tokens are divided among: `tokens` and all that is counted by them are this rank's, all_tokens those of
  // every rank; contexts are whole on each. Null: one rank has all.
  runtime::Comm* comm = nullptr;
  int64_t all_tokens = 0;
  WanKeys keys = {};  // what self-attention attends to
  const WanCausal* causal =
      nullptr;             // a block of a video: keys and values of earlier frames are looked at, too
  bool fill_only = false;  // with it: nothing is wanted but the block's keys and values
  WanExtras more = {};     // what branches are given of the pass, and what they made when it began
};

// What a norm of x is modulated by: LN(x)(1 + scale) + shift.
struct WanModulation {
  Tensor scale, shift;  // [R, dim] f32
};

class WanBlock {
 public:
  // table: [6·dim], the block's row of its model's tables, filled here. branches: the model's, which load their parameters of
  // the block and must outlive it.
  WanBlock(const Scope& scope, const WanConfig& config, int64_t index, const Tensor& table,
           nn::ParamStore& store, std::span<const std::unique_ptr<WanBranch>> branches = {});

  // Takes its first norm from in.u and leaves there x as `next` (the next block's first norm, or the head's)
  // wants it. After the last block x itself is not kept. Without `next` x is all that it leaves.
  void forward(const WanBlockInput& in, const WanModulation& next, int64_t index, Stream& stream) const;

  // Whether norms may write codes for the products behind them (WanBlockInput::codes).
  bool takes_codes(const Stream& stream) const;

  static WanModulation first_norm(const WanBlockInput& in, int64_t index);  // of block `index`

  // text [n, dim] after the text MLP → k, v [n, dim].
  void text_keys(const Tensor& text, const Tensor& k, const Tensor& v, Stream& stream) const;

  // The scale of scores whose queries a block's fused norms made; that of others is 1 / sqrt(head_dim).
  static float score_scale(const WanConfig& config, const Stream& stream);

 private:
  static Tensor block_modulation(const WanBlockInput& in, int64_t index);  // [R, 6, dim]
  void check_ranks(const WanBlockInput& in) const;
  // q of self-attention normed and turned in place, k likewise to to_k: in one pass, which also puts attention's scale into q.
  void norm_and_turn(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& to_k,
                     Stream& stream) const;
  void norm_queries(const Tensor& q, Stream& stream) const;  // those of the cross-attention
  // 1 / sqrt(head_dim) times log2(e): of queries whose scores are powers of two (ops::kPowersOfTwo).
  float query_scale() const;
  // Attention of batch item b's q rows with the text's keys, and with what branches have beside them, into u's rows.
  void context_attention(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q, const Tensor& u,
                         Stream& stream) const;
  // Whether a pass that only fills ends in this block with its keys and values.
  bool filled_by(const WanBlockInput& in, int64_t index) const;
  void self_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index, Stream& stream) const;
  // q's attention with the keys that it may look at, into out [rows, dim]: k's, or what a ring has once they are there (k is
  // undefined where they are).
  void attend(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& out, int64_t index,
              Stream& stream) const;
  // The pending sum goes to x, and u is x as `to` wants it. head: u is for the head, and x is not kept.
  void add_and_norm(const WanBlockInput& in, const WanPending& sum, const WanModulation& to, bool head,
                    Stream& stream) const;
  void cross_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index,
                       Stream& stream) const;
  void feed_forward(const WanBlockInput& in, const Tensor& modulation, const WanModulation& next,
                    int64_t index, Stream& stream) const;

  WanConfig config_;
  nn::Attention self_, cross_;
  nn::Norm cross_norm_;                     // or undefined
  std::vector<const WanBranch*> branches_;  // those that act in it
  nn::Mlp mlp_;
};

}  // namespace tachy
