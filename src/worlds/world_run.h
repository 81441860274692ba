// A world in memory: transformer and VAE decoder, which stay and which it shares with all who compute on the same Model, what a
// session is conditioned on, what its blocks remember.
// Made with a measuring stream it loads and computes nothing, and tells by bytes() what it would hold.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "denoise/block_frames.h"
#include "denoise/causal_denoiser.h"
#include "denoise/denoise_loop.h"
#include "denoise/noise_source.h"
#include "session/model.h"
#include "tensor/buffer_shelf.h"
#include "worlds/world_config.h"

namespace tachy {

// What a session begins with, prepared. In a measure run it may be empty.
struct WorldInput {
  std::vector<float> picture;       // [height, width, 3] in [-1, 1]
  std::vector<float> clip_pixels;   // [3, side, side]
  std::vector<float> image_embeds;  // [n, width], in place of the image encoder
  std::vector<int64_t> text;        // token ids
};

class WorldRun {
 public:
  struct Setup {
    Model* model = nullptr;  // whose loaded parts it shares with all who compute on it
    const WorldConfig* config = nullptr;
    SamplerConfig sampler;
    int64_t longest = 0;                      // latent frames of a session; 0: no end
    bool graphs = true;                       // on a GPU: passes may be captured
    Products vae = Products::as_activations;  // of the VAE's residual blocks
    // Told of each block's latents [z, frames, h, w] before they are decoded, on the host; null: nobody. It costs a wait for the GPU.
    std::function<void(std::span<const float>)> latents;
  };
  static constexpr int64_t kTextRows = 512;
  // Rows of image embeddings: the image encoder's, and where there is none at most the published one's.
  static int64_t most_image_rows(const ModelBundle& model) {
    return model.image_encoder ? model.clip.tokens() : 257;
  }

  // gpu: the stream's, which nobody else computes on; null: on the CPU.
  WorldRun(const Setup& setup, std::shared_ptr<cuda::Gpu> gpu, Stream& stream);

  void begin(const WorldInput& input);  // from a picture or a prompt to the session's first block
  void rewind();                        // to the first block of what began last
  using Frame = BlockFrames::Frame;
  // Sleeps until the last block is remembered. An action that is asked for then is one that counts at once.
  void settle() {
    if (frames_) frames_->settle();
  }
  // The next block; its frames leave before it is remembered, on a GPU while it is. noise: null to measure.
  void block(const WanScript& script, NoiseSource* noise, const Frame& frame);
  int64_t latent_frames() const { return denoiser_ ? denoiser_->end() : 0; }  // of the blocks so far
  int64_t next_block_frames() const;                                          // latent frames of the next one

  uint64_t bytes() const { return most_; }    // of its Buffers, at the worst moment so far
  std::map<PartKey, uint64_t> parts() const;  // that it holds from start to end, with their bytes

 private:
  template <class Network>
  std::shared_ptr<const Network> loaded(Part part, bool stays = false);
  const ModelBundle& model() const { return setup_.model->bundle(); }
  PartKey key(Part part) const { return {part, stream_.precision, {}, setup_.vae}; }
  void draw_ahead(NoiseSource& noise) const;
  void encode_text(const std::vector<int64_t>& ids);
  void encode_picture(const WorldInput& input);
  void held(uint64_t more) { most_ = std::max(most_, resident_ + more); }

  Setup setup_;
  const WorldConfig& config_;
  std::shared_ptr<cuda::Gpu> gpu_;
  Stream& stream_;
  Sampler sampler_;
  std::shared_ptr<const LoadedDit> transformer_;
  std::shared_ptr<const LoadedVae> decoder_;
  nn::ParamStore store_;
  Tensor text_, image_embeds_, channels_;
  Tensor noise_state_;  // of a generator on the GPU
  int64_t text_rows_ = 0, image_rows_ = 0;
  int64_t rows_ = 0, columns_ = 0;  // of the latents
  std::optional<CausalDenoiser> denoiser_;
  std::optional<BlockFrames> frames_;
  BufferShelf loop_;
  uint64_t resident_ = 0, most_ = 0;
};

}  // namespace tachy
