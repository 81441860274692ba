// A world in memory: transformer and VAE decoder, which stay loaded and are shared with all who compute on
// the same Model; the condition of a session; and what its blocks remember.
// Made with a measuring stream it loads and computes nothing, and bytes() tells what it would hold.
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

// The prepared inputs with which a session begins. They may be empty in a measure run.
struct WorldInput {
  std::vector<float> picture;       // [height, width, 3] in [-1, 1]
  std::vector<float> clip_pixels;   // [3, side, side]
  std::vector<float> image_embeds;  // [n, width], replaces the image encoder
  std::vector<int64_t> text;        // token ids
};

class WorldRun {
 public:
  struct Setup {
    Model* model = nullptr;  // the model whose loaded parts it shares with all who compute on it
    const WorldConfig* config = nullptr;
    SamplerConfig sampler;
    int64_t longest = 0;                      // latent frames of a session; 0: no end
    bool graphs = true;                       // on a GPU: passes may be captured
    Products vae = Products::as_activations;  // products of the VAE's residual blocks
    // Receives each block's latents [z, frames, h, w] on the host, before they are decoded; null: nobody
    // does. This makes the host wait for the GPU.
    std::function<void(std::span<const float>)> latents;
  };
  static constexpr int64_t kTextRows = 512;
  // Returns the rows of image embeddings: the image encoder's number, or without an encoder at most the
  // published one's.
  static int64_t most_image_rows(const ModelBundle& model) {
    return model.image_encoder ? model.clip.tokens() : 257;
  }

  // `gpu` is the stream's, on which nobody else computes; it is null on the CPU.
  WorldRun(const Setup& setup, std::shared_ptr<cuda::Gpu> gpu, Stream& stream);

  void begin(const WorldInput& input);  // begins with a picture or a prompt, and prepares the session's first
                                        // block
  void rewind();                        // goes back to the first block of the session that began last
  using Frame = BlockFrames::Frame;
  // Sleeps until the last block is remembered. An action that is read after this takes effect at once.
  void settle() {
    if (frames_) frames_->settle();
  }
  // Makes the next block. Its frames are handed out before it is remembered, on a GPU while it is remembered.
  // `noise` is null in a measure run.
  void block(const WanScript& script, NoiseSource* noise, const Frame& frame);
  // Returns the number of latent frames that were made so far.
  int64_t latent_frames() const { return denoiser_ ? denoiser_->end() : 0; }
  int64_t next_block_frames() const;  // latent frames of the next block

  uint64_t bytes() const { return most_; }    // size of its Buffers at their peak so far
  std::map<PartKey, uint64_t> parts() const;  // parts that are held from start to end, with their bytes

 private:
  template <class Network>
  std::shared_ptr<const Network> loaded(Part part, bool stays = false);
  const ModelBundle& model() const { return setup_.model->bundle(); }
  // As in the jobs of a model that stays loaded (Placement::keys_stay), so that both have one transformer.
  bool keys_stay() const { return stream_.gpu && setup_.model->options().keep_loaded; }
  PartKey key(Part part) const { return {part, stream_.precision, {}, setup_.vae, keys_stay()}; }
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
  Tensor noise_state_;  // state of a generator on the GPU
  int64_t text_rows_ = 0, image_rows_ = 0;
  int64_t rows_ = 0, columns_ = 0;  // of the latents
  std::optional<CausalDenoiser> denoiser_;
  std::optional<BlockFrames> frames_;
  BufferShelf loop_;
  uint64_t resident_ = 0, most_ = 0;
};

}  // namespace tachy
