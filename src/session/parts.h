// The parts of a model: text encoder, image encoder, audio encoder, VAE encoder, transformers, VAE decoder.
// Once loaded, a part never changes, and any number of threads may compute with it (except one whose blocks
// are streamed through slots of a device, runtime/block_stream.h: that one belongs to the session that loaded
// it).
#pragma once

#include <functional>
#include <memory>

#include "catalog/model_bundle.h"
#include "models/clip_vision/clip_vision.h"
#include "models/umt5/umt5_encoder.h"
#include "models/wan/dit.h"
#include "models/wan_vae/wan_vae.h"
#include "models/wav2vec2/wav2vec2.h"

namespace tachy {

enum class Part { text, image_encoder, audio_encoder, vae_encoder, transformer, transformer_2, vae_decoder };

const char* part_name(Part part);   // for example "text encoder", "transformer_2"
const char* load_range(Part part);  // in profiles: "load text encoder"
const TensorSource& part_file(const ModelBundle& model, Part part);
// With two experts, 0 is the high-noise one and 1 the low-noise one.
inline Part transformer_part(int expert) { return expert == 0 ? Part::transformer : Part::transformer_2; }

// The audio encoder computes in float32 even if nothing else does: a whole video depends on its states, and
// it takes hardly any time.
inline Precision audio_encoder_precision(const Precision& of_request) {
  return {.definitions = of_request.definitions};
}

// Of `blocks` equal blocks of block_bytes each, `streamed` do not stay on the device but lie on the host.
struct BlockPlan {
  int64_t blocks = 0, streamed = 0;
  uint64_t block_bytes = 0, host_bytes = 0;
};

// Members that all loaded parts have.
struct LoadedPart {
  LoadedPart();
  std::shared_ptr<void> device;  // on a GPU: keeps the device whose memory it lies in
  std::shared_ptr<const nn::KeptParams>
      memory;          // the Buffers of its weights, if the network does not own them
  uint64_t bytes = 0;  // size of all its Buffers
  BlockPlan blocks;
  // Identifies the part's files as they were before loading, if files on disk are named by this fingerprint.
  std::string fingerprint;
  uint64_t serial;  // unique among the parts of this process: addresses may be reused
};
template <class Network>
struct Loaded : LoadedPart {
  std::unique_ptr<Network> model;
};
using LoadedText = Loaded<Umt5Encoder>;
using LoadedImageEncoder = Loaded<ClipVision>;
using LoadedAudioEncoder = Loaded<Wav2Vec2>;
using LoadedVaeEncoder = Loaded<VaeEncoder>;
using LoadedDit = Loaded<WanDit>;
using LoadedVae = Loaded<VaeDecoder>;

enum class WeightMode { automatic, packed, mapped };

// Reports how many blocks are loaded, and how many there are.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

// Options for load_part.
struct LoadHow {
  WeightMode weights = WeightMode::automatic;
  int64_t streamed = 0;
  bool keys_stay = false;  // as Placement::keys_stay
  LoadProgress progress;
  Products vae = Products::as_activations;
  // The weights of the same transformer or VAE's decoder on another GPU of the same kind, from where they are copied.
  std::shared_ptr<const nn::KeptParams> twin = nullptr;
};

// With a measuring arena these load nothing and only count. `products` is how the VAE's residual blocks
// multiply, whatever the stream says (session/vae_math.h).
LoadedText load_text(const ModelBundle& model, Stream& stream, int64_t streamed = 0);
LoadedImageEncoder load_image_encoder(const ModelBundle& model, Stream& stream);
LoadedAudioEncoder load_audio_encoder(const ModelBundle& model, Stream& stream);
LoadedVaeEncoder load_vae_encoder(const ModelBundle& model, Stream& stream,
                                  Products products = Products::as_activations);
LoadedDit load_dit(const ModelBundle& model, int expert, const LoadHow& how, Stream& stream);
LoadedVae load_vae(const ModelBundle& model, Stream& stream, Products products = Products::as_activations,
                   std::shared_ptr<const nn::KeptParams> twin = nullptr);

// Loads any of them.
std::shared_ptr<LoadedPart> load_part(const ModelBundle& model, Part part, const LoadHow& how,
                                      Stream& stream);

}  // namespace tachy
