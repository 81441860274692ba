// A file of adapters (LoRA and its relatives) as its trainer wrote it: tensors gathered by layer, and what
// metadata says of their scales. Nothing here knows a model.
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
  std::string stem;  // as the file spells it, without wrappers (weights/names/wrapper_names.h)
  std::map<AdapterRole, const TensorSource::Entry*> tensors;
  std::string suffix;  // of one of them, for reports: ".lora_down.weight"
  std::optional<PeftScale> peft;
};

struct AdapterFile {
  std::filesystem::path path;
  std::shared_ptr<TensorSource> source;
  std::vector<AdapterLayer> layers;  // in the order of their names
  std::vector<std::string> unknown;  // keys of tensors that are no adapter's
};

// A weights file of any format, or a folder with one (adapter_model, pytorch_lora_weights or alone). Throws
// what open_weights throws; corrupt when a layer has two tensors of one role.
AdapterFile open_adapter(const std::filesystem::path& path);
// The same of tensors that are open already.
AdapterFile read_adapter(const std::filesystem::path& path, std::shared_ptr<TensorSource> source);

// The factor of B·A of a layer of this rank (0: its tensors have none), strength aside, and what says so:
// "alpha of the file", "adapter_config.json", "no alpha".
struct AdapterScale {
  double value = 1;
  std::string from;
};
AdapterScale adapter_scale(const AdapterFile& file, const AdapterLayer& layer, int64_t rank);

}  // namespace tachy
