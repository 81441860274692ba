// A file of adapters (LoRA and related kinds) as its trainer wrote it: tensors grouped by layer, and what its
// metadata says about their scales. This code knows nothing about models.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/adapter_key.h"
#include "adapters/peft_config.h"
#include "weights/tensor_source.h"

namespace tachy {

struct AdapterLayer {
  std::string stem;  // in the file's spelling, without wrappers (weights/names/wrapper_names.h)
  std::map<AdapterRole, const TensorSource::Entry*> tensors;
  std::string suffix;  // the ending of one of its tensors, for reports: ".lora_down.weight"
  std::optional<PeftScale> peft;
};

struct AdapterFile {
  std::filesystem::path path;
  std::shared_ptr<TensorSource> source;
  std::vector<AdapterLayer> layers;  // in the order of their names
  std::vector<std::string> unknown;  // keys of tensors that belong to no adapter
};

// Opens a weights file of any format, or a folder that contains one (adapter_model, pytorch_lora_weights, or
// the only file). Throws what open_weights throws, and corrupt if a layer has two tensors with the same role.
AdapterFile open_adapter(const std::filesystem::path& path);
// Does the same for tensors that are already open.
AdapterFile read_adapter(const std::filesystem::path& path, std::shared_ptr<TensorSource> source);

// The factor of B·A in a layer of this rank (0 if its tensors do not tell the rank), without the strength,
// and its source: "alpha of the file", "adapter_config.json" or "no alpha".
struct AdapterScale {
  double value = 1;
  std::string from;
};
AdapterScale adapter_scale(const AdapterFile& file, const AdapterLayer& layer, int64_t rank);

}  // namespace tachy
