#include "session/fingerprint.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "session/request_adapters.h"
#include "weights/gguf/gguf.h"

namespace tachy {
namespace {

constexpr uint64_t kWhole = 8u << 20, kEnd = 1u << 20, kSample = 4096, kSamples = 64;
constexpr std::streamsize kTokenizerCap = 64 << 20;

void add_weights(Sha256& hash, const TensorSource& source) {
  for (const auto& file : source.files()) {
    const auto bytes =
        std::span(reinterpret_cast<const uint8_t*>(file->data()), static_cast<size_t>(file->size()));
    hash.add(fmt::format("file of {} bytes\n", file->size()));
    if (bytes.size() <= kWhole) {
      hash.add(bytes);
      continue;
    }
    hash.add(bytes.first(kEnd));
    hash.add(bytes.last(kEnd));
    const uint64_t stride = (bytes.size() - 2 * kEnd) / kSamples;
    for (uint64_t i = 0; i < kSamples; ++i) hash.add(bytes.subspan(kEnd + i * stride, kSample));
  }
}

void add_json(Sha256& hash, const std::shared_ptr<const nlohmann::json>& json) {
  hash.add(json ? json->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) : "none");
  hash.add("\n");
}

void add_file(Sha256& hash, const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> block(1 << 16);
  for (std::streamsize total = 0; in && total < kTokenizerCap; total += in.gcount()) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    hash.add(std::string_view(block.data(), static_cast<size_t>(in.gcount())));
  }
}

// Adds the tokenizer's files, or the data of the tokenizer that the text encoder's file carries: otherwise
// only samples of a large file would be hashed.
void add_tokenizer(Sha256& hash, const ModelBundle& m) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(m.files.tokenizer, ignored)) return add_file(hash, m.files.tokenizer);
  for (const char* name : {"tokenizer.json", "spiece.model"})
    if (!m.files.tokenizer.empty()) add_file(hash, m.files.tokenizer / name);
  if (!m.files.tokenizer.empty()) return;
  if (!m.text_encoder) return;
  const TensorSource::Entry* entry = carried_tokenizer(*m.text_encoder);
  if (entry && entry->data)
    hash.add(std::span(static_cast<const uint8_t*>(entry->data), static_cast<size_t>(entry->bytes)));
  if (const auto vocabulary = gguf_vocabulary(*m.text_encoder))
    for (size_t i = 0; i < vocabulary->pieces.size(); ++i)
      hash.add(fmt::format("{} {} {}\n", vocabulary->pieces[i], vocabulary->scores[i], vocabulary->types[i]));
}

// Adds an adapter's tensors, and the config beside them that gives their multipliers.
void add_adapter(Sha256& hash, const std::string& text) {
  const AdapterFile file = open_adapter(parse_lora(text).path);
  add_weights(hash, *file.source);
  if (file.path.stem() == "adapter_model") add_file(hash, file.path.parent_path() / "adapter_config.json");
}

}  // namespace

std::string fingerprint(const ModelBundle& m, std::span<const std::string> loras) {
  Sha256 hash;
  for (const ComponentFiles* part : {&m.files.transformer, &m.files.text_encoder, &m.files.vae})
    add_json(hash, part->config);
  add_json(hash, m.files.scheduler);
  if (!m.step_caches.coefficients.empty() || !m.step_caches.ratios.empty())
    add_json(hash, m.files.generation_config);  // the steps that a step cache skips depend on it
  add_tokenizer(hash, m);
  for (const TensorSource* source : {m.transformer.get(), m.text_encoder.get(), m.vae.get()})
    if (source) add_weights(hash, *source);
  if (m.transformer_2) {
    add_json(hash, m.files.transformer_2.config);
    add_weights(hash, *m.transformer_2);
    hash.add(fmt::format("boundary {}", m.boundary));
  }
  if (m.image_encoder) {
    add_json(hash, m.files.image_encoder.config);
    add_weights(hash, *m.image_encoder);
    const ClipPreparation& p = m.clip_preparation;
    hash.add(fmt::format("pictures {} {} {} {} {}\n", p.shortest_edge, p.side, p.rescale,
                         fmt::join(p.mean, " "), fmt::join(p.deviation, " ")));
  }
  if (m.audio_encoder) {
    add_weights(hash, *m.audio_encoder);
    hash.add(fmt::format("sound {}\n", m.audio_standardised));
  }
  for (const std::string& text : loras) add_adapter(hash, text);
  return hash.hex();
}

}  // namespace tachy
