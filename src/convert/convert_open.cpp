// Opens the source of a conversion to a folder: a whole model, a transformer with the parts that can be
// found, or another part alone.
#include "base/error.h"
#include "catalog/model_bundle.h"
#include "catalog/model_defaults.h"
#include "convert/convert_plan.h"
#include "models/wan/infer_config.h"
#include "weights/names/rename.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

// Opens a part that may be missing; the notes then say so.
template <class Body>
void attempt(std::vector<std::string>& notes, bool named, Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    if (named || (e.code() != ErrorCode::not_found && e.code() != ErrorCode::invalid_argument)) throw;
    notes.push_back("left out: " + e.message());
  }
}

// Opens a single transformer with the other parts that are named or in ComfyUI's folders.
void open_parts(ModelBundle& m, const fs::path& in, const PartPaths& parts, std::vector<std::string>& notes) {
  m.files = {.layout = ModelFiles::Layout::single, .root = in, .transformer = transformer_at(in)};
  const TransformerFiles dit = read_transformer(m.files.transformer);
  m.transformer = dit.source, m.dit = dit.config, m.original = dit.original;
  attempt(notes, !parts.text_encoder.empty(), [&] {
    m.files.text_encoder =
        parts.text_encoder.empty() ? find_text_encoder(in, m.dit) : text_encoder_at(parts.text_encoder);
    const TextEncoderFiles text = read_text_encoder(m.files.text_encoder);
    m.text_encoder = text.source, m.text = text.config;
  });
  attempt(notes, !parts.vae.empty(), [&] {
    m.files.vae = parts.vae.empty() ? find_vae(in, m.dit) : vae_at(parts.vae);
    const VaeFiles vae = read_vae(m.files.vae);
    m.vae = vae.source, m.vae_config = vae.config;
  });
  if (seen_pictures(m.dit) > 0)
    attempt(notes, !parts.image_encoder.empty(), [&] {
      m.files.image_encoder =
          parts.image_encoder.empty() ? find_image_encoder(in, m.dit) : image_encoder_at(parts.image_encoder);
      const ImageEncoderFiles clip = read_image_encoder(m.files.image_encoder);
      m.image_encoder = clip.source, m.clip = clip.config, m.clip_preparation = clip.preparation;
    });
  if (!parts.tokenizer.empty())
    m.files.tokenizer = parts.tokenizer;
  else if (m.text_encoder && !carries_tokenizer(*m.text_encoder))
    m.files.tokenizer = tokenizer_beside(m.files.text_encoder.weights);
  m.family = &family_of(m.files, m.dit);
  m.defaults = default_request(m);
}

// Opens a text encoder or a VAE that was given alone.
bool open_other_part(ModelBundle& m, const fs::path& in) {
  const auto weights = open_weights(in);
  if (is_umt5_encoder(*umt5_source(weights).source)) {
    m.files.text_encoder = text_encoder_at(in);
    const TextEncoderFiles text = read_text_encoder(m.files.text_encoder);
    m.text_encoder = text.source, m.text = text.config;
    if (!carries_tokenizer(*m.text_encoder)) m.files.tokenizer = tokenizer_beside(in);
    return true;
  }
  if (!is_wan_vae(*vae_source(weights).source)) return false;
  m.files.vae = vae_at(in);
  const VaeFiles vae = read_vae(m.files.vae);
  m.vae = vae.source, m.vae_config = vae.config;
  return true;
}

}  // namespace

ModelBundle open_model_for(const fs::path& in, const PartPaths& parts, std::vector<std::string>& notes) {
  std::error_code ignored;
  const bool folder = fs::is_directory(in, ignored);
  if (folder && !is_component_folder(in)) return ModelBundle::open(in, FileAccess::map, parts);
  ModelBundle m;
  if (open_other_part(m, in)) return m;
  if (parts.transformer_2.empty() && (folder || !missing_parts(in, parts).empty()))
    open_parts(m, in, parts, notes);
  else
    m = ModelBundle::open(in, FileAccess::map, parts);
  return m;
}

}  // namespace tachy
