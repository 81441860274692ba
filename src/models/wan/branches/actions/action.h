// Matrix-Game 2's action module. It adds the effect of keyboard and mouse to the tokens of a latent frame,
// between cross-attention and feed-forward, without norm, modulation or gate. Frame τ follows w(τ), the 12
// actions of pixel frames 4τ - 12 to 4τ - 1.
//   m = LN(MLP([x_τ ‖ mouse w(τ)]));  q‖k‖v = T·m;  x += P·attention   the window's frames, each place by itself
//   k‖v = KV·(E(keys) over w(τ));     q = Q·x;      x += P'·attention  all places, with one key per frame
// q and k have an RMS norm of each head without a weight (the checkpoint's weight is not used), and a rope
// that turns the first channels of a head by the latent frame.
#pragma once

#include "models/wan/branches/actions/action_config.h"
#include "models/wan/clip_mask.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace tachy {

struct WanActionInput {
  Tensor x;                     // [frames·places, dim], the residual stream, updated in place
  int64_t frames = 0;           // frames of the block
  int64_t first = 0;            // the first frame of the block
  Tensor mouse, keyboard;       // [needed, mouse_dim], [needed, keyboard_dim] f32 (WanActionConfig::needed)
  Tensor mouse_cos, mouse_sin;  // [frames, heads, mouse_hidden / heads / 2] f32
  Tensor keyboard_cos, keyboard_sin;               // the same for the heads of the keyboard
  const runtime::KvRing* mouse_ring = nullptr;     // [modules, window, places, mouse_hidden]
  const runtime::KvRing* keyboard_ring = nullptr;  // [modules, window, 1, keyboard_hidden]
  std::span<const WanPart> parts = {};             // parts of the block; if empty, the block is one part
  // The keyboard's ring already has the block's keys and values, which depend only on the actions and not on
  // x.
  bool keyboard_known = false;
};

class WanAction {
 public:
  WanAction() = default;
  WanAction(const Scope& scope, const WanActionConfig& config, int64_t dim, nn::ParamStore& store);

  bool defined() const { return kv_.defined(); }
  // `module` is the index among the model's action modules.
  void operator()(const WanActionInput& in, int64_t module, Stream& stream) const;

 private:
  void follow_mouse(const WanActionInput& in, int64_t module, Stream& stream) const;
  // Puts the block's keys and values into the keyboard's ring.
  void keep_keyboard(const WanActionInput& in, int64_t module, Stream& stream) const;
  void follow_keyboard(const WanActionInput& in, int64_t module, Stream& stream) const;

  WanActionConfig config_;
  nn::Linear mouse_up_, mouse_down_, mouse_qkv_, mouse_out_;
  nn::Norm mouse_norm_;
  nn::Linear key_up_, key_down_, kv_, q_, out_;
};

// Fills cos and sin [frames, heads, channels/2] for a block. Pair p of a head turns by frame · theta^(−2p /
// turning); pairs past `turning` channels do not turn.
void fill_action_rope(const WanActionConfig& config, int64_t first, const Tensor& cos, const Tensor& sin);

}  // namespace tachy
