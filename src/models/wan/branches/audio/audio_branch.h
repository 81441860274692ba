// InfiniteTalk's audio branch. After the cross-attention, the tokens of each latent frame attend to the audio
// tokens of this frame:
//   x += W_o·Attn(W_q·LN_affine(x), W_kv·tokens)
// With two speakers, q and k are turned according to the speaker that x looks at (branches/speakers).
#pragma once

#include <memory>

#include "models/wan/branch.h"
#include "models/wan/branches/audio/audio_projection.h"

namespace tachy {

class AudioBranch : public WanBranch {
 public:
  AudioBranch(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

  const AudioProjection& projection() const { return projection_; }
  // Makes kv [n, 2·dim] for block `index` from tokens [n, audio_dim].
  void make_keys(int64_t index, const Tensor& tokens, const Tensor& kv, Stream& stream) const;

  bool load(const Scope& block, int64_t index, nn::ParamStore& store) override;
  bool multiplies_in_eight_bits(std::string_view layer) const override;
  bool makes_keys(std::string_view layer) const override;
  const char* needs_all_tokens() const override { return nullptr; }
  bool takes(std::type_index type) const override;
  void expect(const WanInput& in) const override;
  void after_cross_attention(const WanBlockInput& in, int64_t index, WanPending& sum,
                             Stream& stream) const override;

 private:
  struct Block {
    nn::Norm norm;
    nn::Linear q, kv, out;
  };
  // Lets the q rows of batch item b attend to audio tokens, each latent frame's rows to those of this frame.
  // The result is written to the rows of u.
  void attend(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q, Stream& stream) const;

  WanConfig config_;
  AudioProjection projection_;
  std::vector<Block> blocks_;
};

std::unique_ptr<WanBranch> make_audio_branch(const Scope& scope, const WanConfig& config,
                                             nn::ParamStore& store);

}  // namespace tachy
