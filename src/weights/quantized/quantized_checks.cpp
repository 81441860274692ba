#include "weights/quantized/quantized_checks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "weights/quote.h"

namespace tachy {
namespace {

using Entry = TensorSource::Entry;

bool is_8_bit_float(const Entry& entry) {
  return entry.dtype == DType::f8_e4m3 || entry.dtype == DType::f8_e5m2;
}

// Returns the prefix that names of the same part share, or "" if names begin with the model's own modules.
// One file may contain several parts of a model, only some of which are scaled.
std::string_view part_of(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kParts = {
      "model.",         "diffusion_model.",  "transformer.",  "vae.",         "first_stage_model.",
      "text_encoders.", "cond_stage_model.", "text_encoder.", "clip_vision.", "conditioner."};
  for (const std::string_view part : kParts)
    if (name.starts_with(part)) return part;
  return "";
}

// Embedding tables are looked up and not multiplied, and ComfyUI, musubi-tuner and LightX2V scale only linear
// layers.
bool is_embedding(std::string_view layer) {
  const std::string_view leaf = layer.substr(layer.rfind('.') + 1);
  return leaf == "shared" || leaf.find("embed") != leaf.npos || leaf.find("embd") != leaf.npos ||
         leaf == "relative_attention_bias" || leaf == "attn_rel_b";
}

bool needs_scale(const Entry& entry) {
  constexpr std::string_view kWeight = ".weight";
  if (entry.derived || !is_8_bit_float(entry) || entry.dims.size() != 2 || !entry.name.ends_with(kWeight))
    return false;
  return !is_embedding(std::string_view(entry.name).substr(0, entry.name.size() - kWeight.size()));
}

std::string tensor_text(const TensorSource& source, const Entry& entry) {
  return fmt::format("{}: tensor {}", source.file_of(entry), in_quotes(entry.name_in_file));
}

// Says whether rows [first, first + rows) contain anything but zeros.
bool has_values(const QuantizedWeight& w, int64_t first, int64_t rows) {
  const int64_t row_bytes = w.dtype == DType::u8 ? w.width / 2 : w.width;  // a byte holds two 4-bit values
  const std::byte sign =
      w.dtype == DType::f8_e4m3 || w.dtype == DType::f8_e5m2 ? std::byte{0x80} : std::byte{0};
  const std::byte* begin = w.data + first * row_bytes;
  return std::any_of(begin, begin + rows * row_bytes,
                     [&](std::byte code) { return (code & ~sign) != std::byte{0}; });
}

}  // namespace

void refuse_lost_scales(const TensorSource& source, const QuantizedLayers& layers) {
  std::map<std::string_view, const Entry*> scaled;  // an example of a scale for each part
  for (const auto& [name, layer] : layers.layers)
    if (layer.weight && layer.scale && is_8_bit_float(*layer.weight))
      scaled.emplace(part_of(name), layer.scale);
  if (scaled.empty()) return;
  for (const Entry& entry : source.entries()) {
    if (!needs_scale(entry) || layers.layer_of(entry) != layers.layers.end()) continue;
    const auto other = scaled.find(part_of(entry.name));
    check(other == scaled.end(), ErrorCode::corrupt,
          "{}: it is {} and has no scale, while other weights of the file have one ({}): its scale was lost "
          "when the file was made, and without it the values are wrong. Get the file again from where it was "
          "made",
          tensor_text(source, entry), dtype_name(entry.dtype),
          other == scaled.end() ? "" : in_quotes(other->second->name_in_file));
  }
}

void check_scale_values(const TensorSource& source, const QuantizedLayer& layer, const QuantizedWeight& w) {
  const auto finite = [&](const Entry& scale, float value, int64_t i) {
    check(std::isfinite(value), ErrorCode::corrupt, "{}: value {} of this scale is {}: the file is damaged",
          tensor_text(source, scale), i, value);
  };
  const Entry& scale = layer.scale_2 ? *layer.scale_2 : *layer.scale;
  if (w.scale.data && w.scale_blocks == 1) {
    const int64_t rows = w.scale_rows == 1 ? w.rows : 1;
    for (int64_t i = 0; i < w.scale_rows; ++i) {
      finite(scale, w.scale[i], i);
      check(w.scale[i] != 0 || !has_values(w, i * rows, rows), ErrorCode::corrupt,
            "{}: value {} of this scale is 0, but what it scales is not: {} would be lost",
            tensor_text(source, scale), i, in_quotes(layer.weight->name_in_file));
    }
  }
  if (!w.column_scale.data) return;
  for (int64_t i = 0; i < w.width; ++i) {
    finite(*layer.column_scale, w.column_scale[i], i);
    check(w.column_scale[i] != 0, ErrorCode::corrupt, "{}: factor {} is 0: the column would be lost",
          tensor_text(source, *layer.column_scale), i);
  }
}

}  // namespace tachy
