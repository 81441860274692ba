#include "adapters/adapter_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "cpu/widen.h"
#include "weights/json_file.h"
#include "weights/quote.h"

namespace tachy {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostPatterns = 4096;
constexpr const char* kDiffusersMetadata = "lora_adapter_metadata";

fs::path adapter_file_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"adapter_model.safetensors", "pytorch_lora_weights.safetensors",
                           "adapter_model.bin", "pytorch_lora_weights.bin"})
    if (fs::is_regular_file(path / name, ignored)) return path / name;
  return path;  // the only weights file there, if there is one
}

// Keys of `json` that begin with `prefix`, which is "" or "transformer.".
PeftConfig peft_config(const nlohmann::json& json, const std::string& prefix, const std::string& where) {
  PeftConfig out{.where = where};
  const std::string patterns = prefix + "alpha_pattern";
  for (const std::string& alpha : {prefix + "lora_alpha", prefix + "alpha"})  // LoHa and LoKr have the second
    if (!out.alpha && json.contains(alpha) && !json[alpha].is_null())
      out.alpha = json_double(json, alpha, 0, -1e6, 1e6);
  if (json.contains(prefix + "r") && !json[prefix + "r"].is_null())
    out.rank = json_double(json, prefix + "r", 0, 1, 1 << 20);
  out.rslora = json_bool(json, prefix + "use_rslora", false);
  if (!json.contains(patterns) || json[patterns].is_null()) return out;
  const nlohmann::json& all = json[patterns];
  check(all.is_object() && all.size() <= kMostPatterns, ErrorCode::corrupt,
        "{}: '{}': expected an object of at most {} numbers", where, patterns, kMostPatterns);
  for (const auto& [name, value] : all.items()) {
    check(value.is_number(), ErrorCode::corrupt, "{}: '{}': expected numbers, got {} for {}", where, patterns,
          value.type_name(), in_quotes(name));
    out.alpha_pattern[name] = value.get<double>();
  }
  return out;
}

void read_peft(AdapterFile& file) {
  const auto add = [&](const nlohmann::json& json, const std::string& where) {
    for (const std::string prefix : {"", "transformer.", "transformer_2."}) {
      PeftConfig config = peft_config(json, prefix, where);
      if (config.alpha || config.rslora || !config.alpha_pattern.empty())
        file.peft.emplace(prefix, std::move(config));
    }
  };
  if (const auto text = file.source->metadata().find(kDiffusersMetadata);
      text != file.source->metadata().end())
    add(parse_json(text->second, file.path.string() + ": " + kDiffusersMetadata), kDiffusersMetadata);
  const fs::path beside = file.path.parent_path() / "adapter_config.json";
  std::error_code ignored;
  if (file.path.stem() == "adapter_model" && fs::is_regular_file(beside, ignored))
    add(read_json(beside), "adapter_config.json");
}

// PEFT means names that end in the pattern's, whole pieces of them.
bool ends_in(std::string_view stem, std::string_view pattern) {
  if (!stem.ends_with(pattern)) return false;
  return stem.size() == pattern.size() || stem[stem.size() - pattern.size() - 1] == '.';
}

template <class T>
double number_at(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof value);  // perhaps unaligned
  return static_cast<double>(value);
}

// Trainers that make a tensor of a Python number keep it as a whole number or in double precision.
double number_in(const TensorSource::Entry& entry) {
  if (entry.dtype == DType::f64) return number_at<double>(entry.data);
  if (entry.dtype == DType::i64) return number_at<int64_t>(entry.data);
  if (entry.dtype == DType::i32) return number_at<int32_t>(entry.data);
  float value = 0;
  cpu::widen(entry.data, entry.dtype, 1, &value);
  return value;
}

double read_scalar(const AdapterFile& file, const TensorSource::Entry& entry) {
  uint64_t count = 1;
  for (const int64_t d : entry.dims) count *= static_cast<uint64_t>(d);
  const bool number = cpu::widens(entry.dtype) || entry.dtype == DType::f64 || entry.dtype == DType::i64 ||
                      entry.dtype == DType::i32;
  check(count == 1 && entry.data && entry.unusable.empty() && number, ErrorCode::corrupt,
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

}  // namespace

AdapterFile open_adapter(const fs::path& path) {
  const fs::path file = adapter_file_of(path);
  return read_adapter(file, open_weights(file));
}

AdapterFile read_adapter(const fs::path& path, std::shared_ptr<TensorSource> source) {
  AdapterFile file;
  file.path = path;
  file.source = std::move(source);
  std::map<std::string, AdapterLayer, std::less<>> layers;
  for (const TensorSource::Entry& entry : file.source->entries()) {
    const AdapterKey key = parse_adapter_key(entry.name);
    if (key.role == AdapterRole::none) {
      file.unknown.push_back(entry.name);
      continue;
    }
    AdapterLayer& layer = layers[std::string(key.stem)];
    layer.stem = key.stem;
    if (layer.suffix.empty() || key.role == AdapterRole::down) layer.suffix = key.suffix;
    const bool added = layer.tensors.emplace(key.role, &entry).second;
    check(added || key.role == AdapterRole::unsupported, ErrorCode::corrupt,
          "{}: layer {} has two tensors of the kind {}; is this one adapter?", file.path.string(),
          in_quotes(key.stem), in_quotes(key.suffix));
  }
  for (auto& [stem, layer] : layers) file.layers.push_back(std::move(layer));
  read_peft(file);
  return file;
}

AdapterScale adapter_scale(const AdapterFile& file, const AdapterLayer& layer, int64_t rank) {
  if (const auto alpha = layer.tensors.find(AdapterRole::alpha); alpha != layer.tensors.end() && rank > 0)
    return from_alpha(read_scalar(file, *alpha->second), static_cast<double>(rank), false,
                      "alpha of the file");
  for (auto at = file.peft.rbegin(); at != file.peft.rend(); ++at) {  // the longest prefix first
    const auto& [prefix, config] = *at;
    if (!layer.stem.starts_with(prefix)) continue;
    const double own = rank > 0 ? static_cast<double>(rank) : config.rank.value_or(0);
    if (own == 0) continue;
    for (const auto& [pattern, alpha] : config.alpha_pattern)
      if (ends_in(layer.stem, pattern)) return from_alpha(alpha, own, config.rslora, config.where);
    if (config.alpha) return from_alpha(*config.alpha, own, config.rslora, config.where);
  }
  return {1, "no alpha"};
}

}  // namespace tachy
