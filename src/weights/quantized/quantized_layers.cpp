#include "weights/quantized/quantized_layers.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "weights/json_file.h"
#include "weights/quote.h"

namespace tachy {
namespace {

using Entry = TensorSource::Entry;

constexpr uint64_t kMostMarkerBytes = 64 << 10;

struct Role {
  std::string_view leaf;  // the last piece of the name
  const Entry* QuantizedLayer::*member;
};
constexpr Role kRoles[] = {
    {"scale_weight", &QuantizedLayer::scale},      {"weight_scale", &QuantizedLayer::scale},
    {"weight_scale_2", &QuantizedLayer::scale_2},  {"pre_quant_scale", &QuantizedLayer::column_scale},
    {"scale_input", &QuantizedLayer::input_scale}, {"input_scale", &QuantizedLayer::input_scale},
    {"comfy_quant", &QuantizedLayer::marker},
};

// A name that only other quantisations use.
struct Foreign {
  std::string_view leaf, name;
};
constexpr Foreign kForeign[] = {
    {"wscales", "nunchaku (SVDQuant)"},
    {"smooth_factor", "nunchaku (SVDQuant)"},
    {"qzeros", "GPTQ or AWQ"},
    {"g_idx", "GPTQ"},
    {"absmax", "bitsandbytes"},
    {"quant_map", "bitsandbytes"},
    {"SCB", "bitsandbytes"},
    {"weight_scale_inv", "fp8 in square blocks"},
    {"weight_scalar", "hybrid mxfp8"},
    {"qweight", "packed integers (GPTQ, AWQ, nunchaku)"},
};

struct Split {
  std::string_view stem, leaf;
};
Split split_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? Split{"", name} : Split{name.substr(0, dot), name.substr(dot + 1)};
}

bool is_quantised(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::i8 || dtype == DType::u8;
}

// Says whether this describes a quantised weight in an unknown way, so that its values would be read without
// it.
bool describes_unknown(const TensorSource& source, const Split& name) {
  if (name.leaf.find("scale") == name.leaf.npos && name.leaf.find("zero_point") == name.leaf.npos &&
      name.leaf.find("quant") == name.leaf.npos)
    return false;
  const Entry* weight = source.find(std::string(name.stem) + ".weight");
  return weight && is_quantised(weight->dtype);
}

void refuse_foreign(const TensorSource& source, const Entry& entry) {
  const Split name = split_name(entry.name);
  for (const auto& [leaf, what] : kForeign)
    check(name.leaf != leaf, ErrorCode::unsupported,
          "{}: tensor {}: the file is quantised by {}, which is not read; GGUF, fp8_scaled, int8 with "
          "scales, mxfp8 and nvfp4 files of the same model are",
          source.file_of(entry), in_quotes(entry.name_in_file), what);
  check(!describes_unknown(source, name), ErrorCode::unsupported,
        "{}: tensor {}: it describes the quantised {} in a way that is not known", source.file_of(entry),
        in_quotes(entry.name_in_file), in_quotes(std::string(name.stem) + ".weight"));
}

QuantizedLayer& layer_named(const TensorSource& source, QuantizedLayers& out, std::string_view name) {
  QuantizedLayer& layer = out.layers[std::string(name)];
  if (!layer.name.empty()) return layer;
  layer.name = name;
  layer.weight = source.find(layer.name + ".weight");
  if (layer.weight) out.names[layer.weight] = layer.name;
  return layer;
}

// Adds the entry to its layer if it describes the layer.
bool take_part(const TensorSource& source, const Entry& entry, QuantizedLayers& out) {
  const Split name = split_name(entry.name);
  for (const Role& role : kRoles) {
    if (name.leaf != role.leaf || name.stem.empty()) continue;
    QuantizedLayer& layer = layer_named(source, out, name.stem);
    const Entry*& member = layer.*role.member;
    check(!member, ErrorCode::corrupt, "{}: tensors {} and {} both are a scale of {}", source.file_of(entry),
          member ? in_quotes(member->name_in_file) : "", in_quotes(entry.name_in_file),
          in_quotes(layer.name + ".weight"));
    member = &entry;
    out.names[&entry] = layer.name;
    return true;
  }
  return false;
}

// Returns the format that `json` states. Refuses unknown settings that change the values.
std::string format_in(const nlohmann::json& json, const std::string& where) {
  return naming(where, [&] {
    const std::string format = json_string(json, "format", "");
    check(!format.empty(), ErrorCode::corrupt, "expected a \"format\"");
    check(!json_bool(json, "convrot", false), ErrorCode::unsupported, "{} rotated by convrot is not read",
          printable(format, 60));
    return format;
  });
}

void read_marker(const TensorSource& source, QuantizedLayer& layer) {
  const Entry& entry = *layer.marker;
  const std::string where =
      fmt::format("{}: tensor {}", source.file_of(entry), in_quotes(entry.name_in_file));
  check(entry.unusable.empty(), ErrorCode::unsupported, "{}: {}", where, entry.unusable);
  check(entry.dtype == DType::u8 && !entry.derived && entry.bytes <= kMostMarkerBytes, ErrorCode::corrupt,
        "{}: expected at most {} bytes of JSON, got {} {}", where, kMostMarkerBytes, dtype_name(entry.dtype),
        shape_string(entry.dims));
  const std::string_view text(static_cast<const char*>(entry.data), static_cast<size_t>(entry.bytes));
  layer.format = format_in(parse_json(text, where), where);
}

// Layers have the file's names, or the file's names without its prefix.
std::string in_file(const TensorSource& source, const std::string& name) {
  for (const std::string_view prefix :
       {"", "model.diffusion_model.", "diffusion_model.", "model.", "transformer."})
    if (source.has(std::string(prefix) + name + ".weight")) return std::string(prefix) + name;
  return name;
}

void read_metadata(const TensorSource& source, QuantizedLayers& out) {
  const auto text = source.metadata().find("_quantization_metadata");
  if (text == source.metadata().end()) return;
  const std::string where = source.files_text() + ": its metadata _quantization_metadata";
  check(text->second.size() <= kMaxJsonBytes, ErrorCode::corrupt, "{}: {} bytes, the limit is {}", where,
        text->second.size(), kMaxJsonBytes);
  const nlohmann::json json = parse_json(text->second, where);
  const auto layers = json.find("layers");
  check(layers != json.end() && layers->is_object(), ErrorCode::corrupt, "{}: expected an object \"layers\"",
        where);
  for (const auto& [name, about] : layers->items()) {
    const std::string layer_text = fmt::format("{}: {}", where, in_quotes(name));
    check(about.is_object() && !name.empty(), ErrorCode::corrupt, "{}: expected an object", layer_text);
    const std::string format = format_in(about, layer_text);
    QuantizedLayer& layer = layer_named(source, out, in_file(source, name));
    if (layer.format.empty()) layer.format = format;  // a layer's own tensor has precedence
  }
}

}  // namespace

const Entry* QuantizedLayer::any() const {
  for (const Entry* entry : {scale, scale_2, column_scale, input_scale, marker})
    if (entry) return entry;
  return nullptr;
}

QuantizedLayers quantized_layers(const TensorSource& source) {
  QuantizedLayers out;
  for (const Entry& entry : source.entries()) {
    if (entry.derived) continue;
    if (split_name(entry.name).leaf == "scaled_fp8")
      out.markers.insert(&entry);
    else if (!take_part(source, entry, out))
      refuse_foreign(source, entry);
  }
  for (auto& [name, layer] : out.layers)
    if (layer.marker) read_marker(source, layer);
  read_metadata(source, out);
  return out;
}

}  // namespace tachy
