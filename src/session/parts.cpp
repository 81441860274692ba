#include "session/parts.h"

#include <algorithm>
#include <atomic>

#include "base/memory_room.h"

namespace tachy {
namespace {

// Packing avoids widening weights in every step, at the price of a copy. Small models are always packed,
// others if the copy takes no more than a third of the available memory. This is decided once per process, so
// that a plan and its run agree.
constexpr uint64_t kPackAlwaysBytes = uint64_t{1} << 30;

bool packs_by_default(uint64_t bytes) {
  static const uint64_t room = memory_room().bytes;
  return bytes <= std::max(kPackAlwaysBytes, room == UINT64_MAX ? 0 : room / 3);
}

uint64_t float32_bytes(const TensorSource& source) {
  uint64_t total = 0;
  for (const auto& entry : source.entries()) {
    uint64_t count = 4;
    for (int64_t d : entry.dims) count *= static_cast<uint64_t>(d);
    total += count;
  }
  return total;
}

BlockPlan block_plan(const nn::ParamStore& store, int64_t streamed) {
  return {store.blocks(), streamed, store.block_bytes(), store.host_bytes()};
}

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// Makes the network, and returns the bytes of the tensors that its scope had to copy or make and keeps. They
// lie on the host, so a plan that counts a device's memory leaves them out.
template <class Network, class Make>
uint64_t load_network(Loaded<Network>& out, const std::shared_ptr<TensorSource>& source, const char* name,
                      const std::vector<std::string>& ignorable, const Stream& stream, const Make& make) {
  uint64_t copied = 0;
  const auto counted = [&](const Scope& scope) {
    auto made = make(scope);
    copied = scope.copied_bytes();
    return made;
  };
  out.model = load_component(source, name, ignorable, counted, stream.measuring());
  return stream.memory ? 0 : copied;
}

template <class Network>
std::shared_ptr<LoadedPart> shared(Loaded<Network> part) {
  return std::make_shared<Loaded<Network>>(std::move(part));
}

}  // namespace

LoadedPart::LoadedPart() : serial(next_serial()) {}

const char* part_name(Part part) { return load_range(part) + std::string_view("load ").size(); }

const char* load_range(Part part) {
  switch (part) {
    case Part::text:
      return "load text encoder";
    case Part::image_encoder:
      return "load image encoder";
    case Part::audio_encoder:
      return "load audio encoder";
    case Part::vae_encoder:
      return "load vae encoder";
    case Part::transformer:
      return "load transformer";
    case Part::transformer_2:
      return "load transformer_2";
    case Part::vae_decoder:
      return "load vae decoder";
  }
  return "load ";
}

const TensorSource& part_file(const ModelBundle& model, Part part) {
  const auto file = [&]() -> const std::shared_ptr<TensorSource>& {
    switch (part) {
      case Part::text:
        return model.text_encoder;
      case Part::image_encoder:
        return model.image_encoder;
      case Part::audio_encoder:
        return model.audio_encoder;
      case Part::transformer:
        return model.transformer;
      case Part::transformer_2:
        return model.transformer_2;
      case Part::vae_encoder:
      case Part::vae_decoder:
        break;
    }
    return model.vae;
  }();
  check(file != nullptr, ErrorCode::internal, "parts: this model has no file of part {}",
        static_cast<int>(part));
  return *file;
}

LoadedText load_text(const ModelBundle& model, Stream& stream, int64_t streamed) {
  part_file(model, Part::text).check_files();
  // A prompt is encoded once: packing its weights first would only add a copy.
  nn::ParamStore store({.pack_weights = false, .streamed = streamed}, stream);
  LoadedText out;
  const uint64_t copied = load_network(
      out, model.text_encoder, "text encoder", {"encoder.embed_tokens.", "spiece_model"}, stream,
      [&](const Scope& scope) { return std::make_unique<Umt5Encoder>(scope, model.text, store); });
  out.bytes = store.bytes() + copied, out.blocks = block_plan(store, streamed);
  out.memory = store.keep();
  return out;
}

LoadedImageEncoder load_image_encoder(const ModelBundle& model, Stream& stream) {
  part_file(model, Part::image_encoder).check_files();
  // One or two pictures are encoded once: as for a prompt, packing would only add a copy.
  nn::ParamStore store({.pack_weights = false}, stream);
  LoadedImageEncoder out;
  const uint64_t copied = load_network(
      out, model.image_encoder, "image encoder", ClipVision::ignorable(model.clip), stream,
      [&](const Scope& scope) { return std::make_unique<ClipVision>(scope, model.clip, store); });
  out.bytes = store.bytes() + copied;
  out.memory = store.keep();
  return out;
}

LoadedAudioEncoder load_audio_encoder(const ModelBundle& model, Stream& given) {
  Stream stream = given;
  stream.precision = audio_encoder_precision(given.precision);
  model.audio_encoder->check_files();
  nn::ParamStore store({.pack_weights = false}, stream);
  LoadedAudioEncoder out;
  const uint64_t copied =
      load_network(out, model.audio_encoder, "audio encoder", Wav2Vec2::ignorable(), stream,
                   [&](const Scope& scope) { return std::make_unique<Wav2Vec2>(scope, model.audio, store); });
  out.bytes = store.bytes() + copied;
  out.memory = store.keep();
  return out;
}

LoadedVaeEncoder load_vae_encoder(const ModelBundle& model, Stream& given, Products products) {
  Stream stream = given;
  stream.precision.products = products;
  model.vae->check_files();
  LoadedVaeEncoder out;
  const uint64_t copied =
      load_network(out, model.vae, "vae", {"decoder.", "post_quant_conv."}, stream, [&](const Scope& scope) {
        return std::make_unique<VaeEncoder>(scope, model.vae_config,
                                            VaeEncoderOptions{.normalised = true, .logvar = false}, stream);
      });
  out.bytes = out.model->buffer_bytes() + copied;
  return out;
}

LoadedDit load_dit(const ModelBundle& model, int expert, const LoadHow& how, Stream& stream) {
  const auto& weights = model.transformer_of(expert);
  weights->check_files();
  const bool pack = how.weights == WeightMode::packed ||
                    (how.weights == WeightMode::automatic && packs_by_default(float32_bytes(*weights)));
  nn::ParamStore store({.pack_weights = pack,
                        .streamed = how.streamed,
                        .visits = !how.keys_stay,
                        .progress = how.progress,
                        .twin = how.twin},
                       stream);
  LoadedDit out;
  const uint64_t copied =
      load_network(out, weights, ModelBundle::transformer_name(expert), {}, stream,
                   [&](const Scope& scope) { return std::make_unique<WanDit>(scope, model.dit, store); });
  out.bytes = store.bytes() + copied, out.blocks = block_plan(store, how.streamed);
  out.memory = store.keep();
  return out;
}

LoadedVae load_vae(const ModelBundle& model, Stream& given, Products products,
                   std::shared_ptr<const nn::KeptParams> twin) {
  Stream stream = given;
  stream.precision.products = products;
  model.vae->check_files();
  LoadedVae out;
  const uint64_t copied =
      load_network(out, model.vae, "vae", {"encoder.", "quant_conv."}, stream, [&](const Scope& scope) {
        return std::make_unique<VaeDecoder>(scope, model.vae_config,
                                            VaeDecoderOptions{.normalised = true, .twin = twin}, stream);
      });
  out.bytes = out.model->buffer_bytes() + copied, out.memory = out.model->memory();
  return out;
}

std::shared_ptr<LoadedPart> load_part(const ModelBundle& model, Part part, const LoadHow& how,
                                      Stream& stream) {
  const auto transformer = [&](int expert) { return shared(load_dit(model, expert, how, stream)); };
  switch (part) {
    case Part::text:
      return shared(load_text(model, stream, how.streamed));
    case Part::image_encoder:
      return shared(load_image_encoder(model, stream));
    case Part::audio_encoder:
      return shared(load_audio_encoder(model, stream));
    case Part::vae_encoder:
      return shared(load_vae_encoder(model, stream, how.vae));
    case Part::transformer:
      return transformer(0);
    case Part::transformer_2:
      return transformer(1);
    case Part::vae_decoder:
      return shared(load_vae(model, stream, how.vae, how.twin));
  }
  fail(ErrorCode::internal, "parts: no way to load part {}", static_cast<int>(part));
}

}  // namespace tachy
