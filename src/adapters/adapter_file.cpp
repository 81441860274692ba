#include "adapters/adapter_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "weights/entry_values.h"
#include "weights/names/wrapper_names.h"
#include "weights/quantized/quantized_source.h"
#include "weights/quote.h"

namespace tachy {
namespace fs = std::filesystem;
namespace {

fs::path adapter_file_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"adapter_model.safetensors", "pytorch_lora_weights.safetensors",
                           "adapter_model.bin", "pytorch_lora_weights.bin"})
    if (fs::is_regular_file(path / name, ignored)) return path / name;
  return path;  // the only weights file there, if there is one
}

// Reads a number that a trainer may have stored as an integer or in double precision, because it made the
// tensor from a Python number. The bytes may be unaligned.
double number_in(const TensorSource::Entry& entry) {
  int64_t whole = 0;
  int32_t half = 0;
  if (entry.dtype == DType::i64) std::memcpy(&whole, entry.data, sizeof whole);
  if (entry.dtype == DType::i32) std::memcpy(&half, entry.data, sizeof half);
  if (!has_values(entry)) return static_cast<double>(whole + half);
  float value = 0;
  entry_values(entry, 0, {&value, 1});
  return value;
}

double read_scalar(const AdapterFile& file, const TensorSource::Entry& entry) {
  uint64_t count = 1;
  for (const int64_t d : entry.dims) count *= static_cast<uint64_t>(d);
  const bool number = has_values(entry) || entry.dtype == DType::i64 || entry.dtype == DType::i32;
  check(count == 1 && entry.unusable.empty() && number, ErrorCode::corrupt,
        "{}: tensor {}: expected one number, got {} {}", file.source->file_of(entry),
        in_quotes(entry.name_in_file), dtype_name(entry.dtype), shape_string(entry.dims));
  const double value = number_in(entry);
  check(std::isfinite(value), ErrorCode::corrupt, "{}: tensor {}: expected a finite number, got {}",
        file.source->file_of(entry), in_quotes(entry.name_in_file), value);
  return value;
}

AdapterScale from_alpha(double alpha, double rank, bool rslora, const std::string& where) {
  return {alpha / (rslora ? std::sqrt(rank) : rank), fmt::format("{}{}", where, rslora ? " (rslora)" : "")};
}

using Layers = std::map<std::string, AdapterLayer, std::less<>>;

// Handles a tensor of an unknown name in a known layer. It may affect a pair, so it is not ignored: a scale
// is an error, and other tensors of adapters make the layer unsupported. Trained biases and the like are
// handled separately.
bool take_beside(const TensorSource& source, const TensorSource::Entry& entry, Layers& layers) {
  const std::string name = without_wrappers(entry.name);
  for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    const auto found = layers.find(std::string_view(name).substr(0, dot));
    if (found == layers.end()) continue;
    const std::string_view rest = std::string_view(name).substr(dot);
    const auto has = [&](std::string_view piece) { return rest.find(piece) != rest.npos; };
    check(!has("scal") && !has("zero_point") && !has("quant"), ErrorCode::unsupported,
          "{}: tensor {}: it belongs to the adapter of {} and is of a kind that is not known; without it the "
          "adapter would mean something else",
          source.file_of(entry), in_quotes(entry.name_in_file), in_quotes(found->first));
    for (const std::string_view part :
         {".lora", ".lokr_", ".hada_", ".dora", ".oft", ".boft", ".q_layer", ".p_layer"})
      if (rest.starts_with(part))
        return found->second.tensors.emplace(AdapterRole::unsupported, &entry).second;
    return false;
  }
  return false;
}

}  // namespace

AdapterFile open_adapter(const fs::path& path) {
  const fs::path file = adapter_file_of(path);
  return read_adapter(file, open_weights(file));
}

AdapterFile read_adapter(const fs::path& path, std::shared_ptr<TensorSource> source) {
  AdapterFile file;
  file.path = path;
  file.source = dequantized(source);  // joins 8-bit values and their scales
  Layers layers;
  std::vector<const TensorSource::Entry*> others;
  for (const TensorSource::Entry& entry : file.source->entries()) {
    const std::string name = without_wrappers(entry.name);
    const AdapterKey key = parse_adapter_key(name);
    if (key.role == AdapterRole::none) {
      others.push_back(&entry);
      continue;
    }
    AdapterLayer& layer = layers[std::string(key.stem)];
    layer.stem = key.stem;
    if (layer.suffix.empty() || key.role == AdapterRole::down) layer.suffix = key.suffix;
    const bool added = layer.tensors.emplace(key.role, &entry).second;
    check(added || key.role == AdapterRole::unsupported, ErrorCode::corrupt,
          "{}: layer {} has two tensors of the kind {}; the file seems to hold more than one adapter",
          file.path.string(), in_quotes(key.stem), in_quotes(key.suffix));
  }
  for (const TensorSource::Entry* entry : others)
    if (!take_beside(*file.source, *entry, layers)) file.unknown.push_back(entry->name);
  std::vector<std::string> stems;
  for (auto& [stem, layer] : layers) stems.push_back(stem), file.layers.push_back(std::move(layer));
  const auto scales = peft_scales(path, *file.source, stems);
  for (size_t i = 0; i < scales.size(); ++i) file.layers[i].peft = scales[i];
  return file;
}

AdapterScale adapter_scale(const AdapterFile& file, const AdapterLayer& layer, int64_t rank) {
  if (const auto alpha = layer.tensors.find(AdapterRole::alpha); alpha != layer.tensors.end() && rank > 0)
    return from_alpha(read_scalar(file, *alpha->second), static_cast<double>(rank), false,
                      "alpha of the file");
  if (layer.peft)
    return from_alpha(layer.peft->alpha, rank > 0 ? static_cast<double>(rank) : layer.peft->rank,
                      layer.peft->rslora, layer.peft->from);
  return {1, "no alpha"};
}

}  // namespace tachy
