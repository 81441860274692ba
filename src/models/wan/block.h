// One Wan transformer block:
//   u = LN(x)(1 + M1) + M0;  x += SelfAttn(u)·M2          q, k RMS-normed over all channels, 3-D rope
//   x += CrossAttn(LN_affine(x))                          keys and values made once per prompt (see Context)
//   x += AudioAttn(LN_affine(x))                          InfiniteTalk's: a latent frame looks at its own audio tokens (WanAudio);
//                                                         of two speakers q and k are turned by where x looks (WanRegions)
//   x += Actions(x)                                       Matrix-Game 2's: keyboard and mouse (action.h)
//   u = LN(x)(1 + M4) + M3;  x += FFN(u)·M5               FFN: Linear, gelu(tanh), Linear
// with M = scale_shift_table + the time projection, rows shift, scale, gate of attention, then of the FFN.
#pragma once

#include <vector>

#include "models/wan/causal.h"
#include "models/wan/sparse.h"
#include "models/wan/wan_config.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "runtime/comm.h"

namespace tachy {

// Keys and values of one prompt (and image) for every block: constant during
// a run, so computed once (the text rows past the prompt are all equal after
// the text MLP: they are one key whose score carries ln(count)).
struct WanContext {
  Tensor k, v;              // [layers, keys, dim] f32 (on a GPU: the activations' dtype)
  Tensor key_bias;          // [1, keys] f32; undefined when no rows were collapsed
  Tensor image_k, image_v;  // [layers, image_keys, dim] f32, or undefined
};

// Where two speakers are in the picture: of each token of a latent frame whether it is the first one's, the second one's or of
// the background. `values` are what an attention gives the sum of whose weights on each region is wanted.
struct WanRegions {
  Tensor
      values;  // [tokens of a frame, dim] of the activations' dtype: a head's channels 0 to 2 are the masks, the others 0
  Tensor sizes;  // [3] f32: tokens of each
  bool defined() const { return values.defined(); }
};

// Keys and values of the audio tokens of a window's latent frames, for every block.
struct WanAudio {
  Tensor
      kv;  // [layers, frames·tokens a frame, 2·dim] of the activations' dtype: a token's key, then its value
  int64_t frames = 0;       // latent ones
  WanRegions regions = {};  // of two speakers, whose tokens lie one after the other in each frame
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
  WanKeys keys = {};                        // what self-attention attends to
  std::vector<const WanAudio*> audio = {};  // one a batch item, of a model with the audio branch
  // Of batch items with two speakers, one after the other: room for where their tokens look, each block anew.
  Tensor routes = {};  // [items, cos and sin, tokens, head_dim/2] f32, or undefined
  const WanCausal* causal =
      nullptr;                  // a block of a video: keys and values of earlier frames are looked at, too
  bool fill_only = false;       // with it: nothing is wanted but the block's keys and values
  bool keyboard_known = false;  // WanActionInput's
};

// What a norm of x is modulated by: LN(x)(1 + scale) + shift.
struct WanModulation {
  Tensor scale, shift;  // [R, dim] f32
};

class WanBlock {
 public:
  // table: [6·dim], the block's row of its model's tables, filled here.
  WanBlock(const Scope& scope, const WanConfig& config, int64_t index, const Tensor& table,
           nn::ParamStore& store);

  // Takes its first norm from in.u and leaves there x as `next` (the next block's first norm, or the head's)
  // wants it. After the last block x itself is not kept.
  void forward(const WanBlockInput& in, const WanModulation& next, int64_t index, Stream& stream) const;

  // Whether norms may write codes for the products behind them (WanBlockInput::codes).
  bool takes_codes(const Stream& stream) const;

  static WanModulation first_norm(const WanBlockInput& in, int64_t index);  // of block `index`

  // text [n, dim] after the text MLP → k, v [n, dim]; the same for the image tokens.
  void text_keys(const Tensor& text, const Tensor& k, const Tensor& v, Stream& stream) const;
  void image_keys(const Tensor& image, const Tensor& k, const Tensor& v, Stream& stream) const;
  void audio_keys(const Tensor& tokens, const Tensor& kv,
                  Stream& stream) const;  // [n, audio_dim] → [n, 2·dim]
  // Of two speakers also their places, by which keys are turned: cos, sin [n, head_dim/2] f32.
  void place_audio_keys(const Tensor& kv, const Tensor& cos, const Tensor& sin, Stream& stream) const;

 private:
  static Tensor block_modulation(const WanBlockInput& in, int64_t index);  // [R, 6, dim]
  // q of self-attention normed and turned in place, k likewise to to_k: in one pass, which also puts attention's scale into q.
  void norm_and_turn(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& to_k,
                     Stream& stream) const;
  void norm_queries(const Tensor& q, Stream& stream) const;  // those of the cross-attention
  // 1 / sqrt(head_dim) times log2(e): of queries whose scores are powers of two (ops::kPowersOfTwo).
  float query_scale() const;
  // Of an attention of such queries; of those that carry no scale 1 / sqrt(head_dim).
  float score_scale(const Stream& stream) const;
  // Attention of batch item b's q rows with the text's (and the image's) keys, into u's rows.
  void context_attention(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q, const Tensor& u,
                         Stream& stream) const;
  // Whether a pass that only fills ends in this block with its keys and values.
  bool filled_by(const WanBlockInput& in, int64_t index) const {
    return in.fill_only && index + 1 == config_.num_layers && !action_.defined();
  }
  void self_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index, Stream& stream) const;
  // q's attention with the keys that it may look at, into out [rows, dim]: k's, or what a ring has once they are there (k is
  // undefined where they are).
  void attend(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& out, int64_t index,
              Stream& stream) const;
  // x += y, the way out of the cross-attention, then what actions add; u: the norm before the feed-forward.
  void add_actions(const WanBlockInput& in, const Tensor& y, const Tensor& modulation, Stream& stream) const;
  void cross_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index,
                       Stream& stream) const;
  // Of two speakers (block_routes.cpp): from self-attention's q and k to in.routes, in the place of its values, which are done
  // with; and the audio attention's queries turned by them. Of one nothing.
  void make_routes(const WanBlockInput& in, const nn::Attention::Projected& made, Stream& stream) const;
  void turn_by_routes(const WanBlockInput& in, const Tensor& q, Stream& stream) const;
  // Attention of batch item b's q rows, each latent frame's with its own audio tokens, into u's rows.
  void audio_attention(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q, const Tensor& u,
                       Stream& stream) const;
  void feed_forward(const WanBlockInput& in, const Tensor& modulation, const WanModulation& next, bool last,
                    Stream& stream) const;

  WanConfig config_;
  nn::Attention self_, cross_;
  nn::Attention image_;  // keys and values of the image's tokens, for cross_'s queries
  nn::Norm cross_norm_;  // or undefined
  nn::Norm audio_norm_;  // of the audio branch, as these
  nn::Linear audio_q_, audio_kv_, audio_out_;
  WanAction action_;
  int64_t action_module_ = 0;  // its number among the model's
  nn::Mlp mlp_;
};

}  // namespace tachy
