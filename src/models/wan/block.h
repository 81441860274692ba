// One Wan transformer block:
//   u = LN(x)(1 + M1) + M0;  x += SelfAttn(u)·M2          q, k RMS-normed over all channels, 3-D rope
//   x += CrossAttn(LN_affine(x))                          keys and values made once per prompt (see WanContext)
//   u = LN(x)(1 + M4) + M3;  x += FFN(u)·M5               FFN: Linear, gelu(tanh), Linear
// Here M = scale_shift_table + the time projection. Its rows are the shift, scale and gate of attention, then
// those of the FFN. Whatever variants of Wan do between these lines is done by their branches (branch.h).
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

// A prompt's keys and values for every block. They are constant during a run, so they are computed
// once. (The text rows past the prompt are all equal after the text MLP: they become one key whose
// score carries ln(count).)
struct WanContext {
  Tensor k, v;      // [layers, keys, dim] f32 (on a GPU: the activations' dtype)
  Tensor key_bias;  // [1, keys] f32; undefined when no rows were collapsed
  WanExtras more;   // added by branches: the keys of a picture
};

struct WanBlockInput {
  int64_t batch = 1, tokens = 0;
  Tensor x;           // [batch·tokens, dim], the residual stream, updated in place
  Tensor modulation;  // [layers, R, 6·dim] f32: each block's table + the time projection of R timesteps
  Tensor row;         // [batch·tokens] i32, or undefined: row 0
  Tensor cos, sin;    // [tokens, head_dim/2] f32
  std::vector<const WanContext*> contexts;  // one per batch item
  Tensor u;  // [batch·tokens, dim] of the activations' dtype: x normed and modulated for the next block
  // Used in place of u when norms write codes. Then u holds the result of attention and, after the last
  // block, x's norm.
  nn::RowCodes codes = {};
  const Tensor& normed() const { return codes.defined() ? codes.values : u; }
  // The ranks that share the tokens. `tokens`, and all sizes that follow from it, count this rank's own;
  // all_tokens counts those of every rank. Contexts are whole on each rank. Null: there is one rank, which
  // has all tokens.
  runtime::Comm* comm = nullptr;
  int64_t all_tokens = 0;
  WanKeys keys = {};  // which keys self-attention attends to
  // Set for a block of a video: keys and values of earlier frames are used, too.
  const WanCausal* causal = nullptr;
  bool fill_only = false;  // with `causal`: only the block's keys and values are needed
  WanExtras more = {};     // what branches are given for the pass, and what they made when it began
};

// Scale and shift that modulate a norm of x: LN(x)(1 + scale) + shift.
struct WanModulation {
  Tensor scale, shift;  // [R, dim] f32
};

class WanBlock {
 public:
  // `table` [6·dim] is the block's row in its model's tables, and is filled in here. `branches` are the
  // model's: they load their parameters for this block, and must outlive it.
  WanBlock(const Scope& scope, const WanConfig& config, int64_t index, const Tensor& table,
           nn::ParamStore& store, std::span<const std::unique_ptr<WanBranch>> branches = {});

  // Takes its first norm from in.u, and leaves in in.u the norm of x that `next` asks for (the next
  // block's first norm, or the head's). After the last block x itself is not kept. Without
  // `next`, x is the only result.
  void forward(const WanBlockInput& in, const WanModulation& next, int64_t index, Stream& stream) const;

  // Whether norms may write codes for the products after them (WanBlockInput::codes).
  bool takes_codes(const Stream& stream) const;

  static WanModulation first_norm(const WanBlockInput& in, int64_t index);  // the one in block `index`

  // text [n, dim] after the text MLP → k, v [n, dim].
  void text_keys(const Tensor& text, const Tensor& k, const Tensor& v, Stream& stream) const;

  // Scale of attention's scores if the queries come from a block's fused norms. For other queries it is
  // 1 / sqrt(head_dim).
  static float score_scale(const WanConfig& config, const Stream& stream);

 private:
  static Tensor block_modulation(const WanBlockInput& in, int64_t index);  // [R, 6, dim]
  void check_ranks(const WanBlockInput& in) const;
  // Norms self-attention's q and turns it by the rope in place, and does the same with k, whose result goes
  // to to_k. It is one pass, which also puts attention's scale into q.
  void norm_and_turn(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& to_k,
                     Stream& stream) const;
  void norm_queries(const Tensor& q, Stream& stream) const;  // in the cross-attention
  // 1 / sqrt(head_dim) times log2(e): the scale of queries whose scores are powers of two
  // (ops::kPowersOfTwo).
  float query_scale() const;
  // Lets batch item b's q rows attend to the text's keys, and to those that branches add. The result goes
  // into u's rows.
  void context_attention(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q, const Tensor& u,
                         Stream& stream) const;
  // Whether a pass that is `fill_only` ends in this block, once its keys and values are made.
  bool filled_by(const WanBlockInput& in, int64_t index) const;
  void self_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index, Stream& stream) const;
  // Lets q attend to the keys that it may see, into out [rows, dim]: either to the k of this pass, or, when
  // the ring already holds them, to the ring's keys (k is undefined then).
  void attend(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& out, int64_t index,
              Stream& stream) const;
  // Adds the pending sum to x and writes to u the norm of x with the modulation `to`. With `head`, u is for
  // the head, and x is not kept.
  void add_and_norm(const WanBlockInput& in, const WanPending& sum, const WanModulation& to, bool head,
                    Stream& stream) const;
  void cross_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index,
                       Stream& stream) const;
  void feed_forward(const WanBlockInput& in, const Tensor& modulation, const WanModulation& next,
                    int64_t index, Stream& stream) const;

  WanConfig config_;
  nn::Attention self_, cross_;
  nn::Norm cross_norm_;                     // undefined in models without it
  std::vector<const WanBranch*> branches_;  // those that act in this block
  nn::Mlp mlp_;
};

}  // namespace tachy
