// The Wan video autoencoder, streaming: a clip of any length passes in chunks through causal networks, which
// keep the last input frames of each convolution (VaeState). Activations are channels-last [T, H, W, C] f32.
//
//   encode: video [T, H, W, 3] in [−1, 1] → mean, logvar [z, T', H/8, W/8],  T' = 1 + ⌊(T − 1)/4⌋
//   decode: latents [z, T', h, w] → frames [n, 8h, 8w, 3] in [−1, 1], n = 1 for the first latent, then 4 each
//
// Weights are packed into Buffers at construction (those of 1x1 convolutions also stay mapped). An object
// that is made on a measuring stream knows the Buffers' size without reading any data, and can only be
// measured. The state is one more Buffer for the length of a call. All other memory comes from stream.arena,
// and a measure run of the same calls tells its exact peak. Encoder and decoder are separate objects, so that
// only one need be in memory at a time.
//
// With a Comm the rows of the picture are divided among its ranks (runtime/bands.h): all of them make the same
// calls. Rank 0 alone has the latents and the frames; of those of the others only the shape is read, and their
// sinks and sources are not called.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "models/wan_vae/vae_config.h"
#include "runtime/bands.h"
#include "tensor/stream.h"
#include "weights/scope.h"

namespace tachy {

namespace nn {
struct KeptParams;
}
namespace wan_vae {
class Network;
}

// What a network keeps between chunks: the last input frames of each causal convolution.
struct VaeState {
  struct Cache {
    Tensor frames;        // [1 or 2, H, W, C] f32, newest last; undefined if the clip is a single chunk
    int64_t history = 0;  // how many of them are valid, counted from the end
  };
  std::vector<Cache> caches;      // in the order of execution
  int64_t height = 0, width = 0;  // size of the network's input
  runtime::Bands bands;           // the rows of it that this rank has
  int64_t next_frame = 0;         // index in the network's input; 0 before the first chunk
  size_t bytes = 0;               // size of the Buffer (0 for a single chunk); exact also in a measure run
  Buffer buffer;                  // empty in a measure run
  // [1] i32 on the decoder's device, set when frames are not finite. Code that shows frames must read it
  // first. If it is undefined, the decoder waits for each chunk and throws an error. If the rows are divided, it is the
  // first rank's, and the others, which get it all the same, leave it alone.
  Tensor mark;
};

struct VaeDecoderOptions {
  // If true, latents are the DiT's (z·std + mean is folded into the first layer); otherwise they are as
  // diffusers' decode takes them.
  bool normalised = true;
  // The weights of the same decoder on another device, from where they are copied (nn::ParamStore::Options::twin).
  std::shared_ptr<const nn::KeptParams> twin = nullptr;
};

class VaeDecoder {
 public:
  // `scope` is the root of diffusers' names (decoder.…, post_quant_conv.…). The stream is only used for
  // packing.
  VaeDecoder(const Scope& scope, const VaeConfig& config, const VaeDecoderOptions& options, Stream& stream);
  ~VaeDecoder();
  VaeDecoder(VaeDecoder&&) noexcept;
  VaeDecoder& operator=(VaeDecoder&&) noexcept;

  const VaeConfig& config() const { return config_; }
  // Returns the error's text for frames from `first` on that are not finite.
  static std::string not_finite(int64_t first);
  size_t buffer_bytes() const;  // size of the weights; exact for loaded and for planned objects
  const std::shared_ptr<const nn::KeptParams>& memory() const;  // which keeps them
  // The bytes of all ranks' states, each rounded up as a Buffer is if there are several.
  size_t state_bytes(int64_t h, int64_t w, int64_t latent_frames, int ranks = 1) const;

  // Gets frames [n, H, W, 3] in [−1, 1], contiguous and only valid during the call, in f32 (on a GPU in the
  // activations' dtype). `first` is the index of the first of them.
  using Sink = std::function<void(const Tensor& frames, int64_t first)>;

  // Decodes latents [z, T, h, w] f32 with any strides. The first latent frame is decoded alone, then two, four and so on
  // up to `chunk` at a time, so that whoever encodes the frames can begin soon (any chunk gives the same frames; 1 needs
  // the least memory). A measure run calls the sink, too, with frames without storage (Device::null). Throws numerical if
  // a frame contains NaN or Inf, and cancelled if the run is told to stop; with a mark it notes NaN and Inf there instead
  // (VaeState::mark).
  void decode(const Tensor& latents, const Sink& sink, Stream& stream, int64_t chunk = 1,
              runtime::Comm* comm = nullptr, const Tensor& mark = {}) const;

  // Decodes in steps, for callers that make latents one by one: make_state once (latent_frames 1 means a
  // still image, without caches), then decode_chunk for each chunk [z, n, h, w], where n = 1 for the first. Ranks on
  // GPUs exchange rows sooner where n is at most `chunk`.
  VaeState make_state(int64_t h, int64_t w, int64_t latent_frames, const Stream& stream,
                      runtime::Comm* comm = nullptr, int64_t chunk = 1) const;
  void decode_chunk(VaeState& state, const Tensor& latents, const Sink& sink, Stream& stream) const;
  // Decodes blocks of latents [z, n, h, w] of a video that may have no end: the very first latent frame gives
  // one frame, and each later one gives four. (Self-Forcing's own page begins with zeros in its caches, which
  // gives other frames.)
  void decode_block(VaeState& state, const Tensor& latents, const Sink& sink, Stream& stream,
                    int64_t chunk = 1) const;

 private:
  Tensor whole_frames(const VaeState& state, const Tensor& out, int64_t first, Stream& stream) const;

  VaeConfig config_;
  std::unique_ptr<wan_vae::Network> network_;
};

// Frames of a clip, the first one and the one after the last, that are all equal. After some of them most of the work on
// the next ones is the same again, and an encoder leaves it out: the bits do not change.
struct EqualFrames {
  int64_t begin = 0, end = 0;
};

struct VaeEncoderOptions {
  bool normalised = false;  // mean becomes (mean − latents_mean)/latents_std; logvar does not change
  bool logvar = true;       // if false, only the mean is computed
};

class VaeEncoder {
 public:
  // `scope` is the root of diffusers' names (encoder.…, quant_conv.…).
  VaeEncoder(const Scope& scope, const VaeConfig& config, const VaeEncoderOptions& options, Stream& stream);
  ~VaeEncoder();
  VaeEncoder(VaeEncoder&&) noexcept;
  VaeEncoder& operator=(VaeEncoder&&) noexcept;

  const VaeConfig& config() const { return config_; }
  size_t buffer_bytes() const;
  size_t state_bytes(int64_t height, int64_t width, int64_t frames, int ranks = 1) const;

  // Encodes video [T, H, W, 3] f32 in [−1, 1] with any strides (channels_last_view makes it of a [3, T, H, W]
  // tensor). mean and logvar [z, T', h, w] are f32, contiguous, and equal diffusers' latent_dist, with logvar
  // clamped to [−30, 20]; logvar is undefined if the options exclude it. As in the reference, frames beyond 1
  // + 4(T' − 1) are not read.
  void encode(const Tensor& video, const Tensor& mean, const Tensor& logvar, Stream& stream) const;

  // Asks for frames when it needs them, so that a long clip is never in memory as a whole: for the first one alone, and
  // then for those of `chunk` latent frames at a time (any chunk gives the same latents). source(first, count) returns
  // [count, H, W, 3], valid until its next call. Measure runs call it, too.
  static constexpr int64_t kChunkFrames = 4;  // the frames of a latent frame after the first
  using Source = std::function<Tensor(int64_t first, int64_t count)>;
  // Not all frames that are said to be equal are asked for. Where some are left out, each chunk is one latent frame.
  void encode(std::array<int64_t, 3> frames_height_width, const Source& source, const Tensor& mean,
              const Tensor& logvar, Stream& stream, runtime::Comm* comm = nullptr, EqualFrames equal = {},
              int64_t chunk = 1) const;

 private:
  using Size = std::array<int64_t, 3>;
  void check_moments(const Size& size, const Tensor& mean, const Tensor& logvar) const;
  void read(const Size& size, const Source& source, int64_t from, const VaeState& state, const Tensor& input,
            Stream& stream) const;
  void write(const VaeState& state, const Tensor& out, int64_t from, const Tensor& mean, const Tensor& logvar,
             Stream& stream) const;

  VaeConfig config_;
  bool logvar_ = true;
  std::unique_ptr<wan_vae::Network> network_;
};

// Views [C, T, H, W] as [T, H, W, C] without moving data.
inline Tensor channels_last_view(const Tensor& x) {
  return x.transpose(0, 1).transpose(1, 2).transpose(2, 3);
}

}  // namespace tachy
