// The tiny model with many different blocks, so that they make up most of a run's memory.
#pragma once

#include <fstream>

#include "tiny_model.h"

namespace tachy::test {

inline constexpr int kLayers = 48;  // so many that the transformer's blocks make up most of a run's memory

// Makes the tiny model with `layers` different blocks in the transformer and the text encoder.
inline std::filesystem::path make_deep(const std::filesystem::path& folder, int layers,
                                       const std::filesystem::path& from = model_path()) {
  std::filesystem::copy(from, folder, std::filesystem::copy_options::recursive);
  for (const auto& [part, prefix] :
       {std::pair<std::string, std::string>{"transformer", "blocks."}, {"text_encoder", "encoder.block."}}) {
    const auto file = find_weights(folder / part);
    std::vector<std::vector<char>> storage;
    std::vector<NamedTensor> tensors;
    const auto source = open_safetensors(file);
    for (const auto& entry : source->entries()) {
      const Tensor t(const_cast<void*>(entry.data), entry.dtype, entry.dims);
      const std::string start = prefix + "0.";
      if (!entry.name.starts_with(prefix)) tensors.push_back({entry.name, t});
      if (!entry.name.starts_with(start)) continue;
      for (int i = 0; i < layers; ++i) {  // the sign of some values tells the blocks apart, in any dtype
        const auto* bytes = static_cast<const char*>(entry.data);
        auto& copy = storage.emplace_back(bytes, bytes + entry.bytes);
        const auto size = static_cast<size_t>(dtype_size(entry.dtype));
        for (size_t k = size - 1; k < copy.size(); k += size)
          if ((k / size + static_cast<size_t>(7 * i)) % 13 == 0) copy[k] = static_cast<char>(copy[k] ^ 0x80);
        tensors.push_back({prefix + std::to_string(i) + "." + entry.name.substr(start.size()),
                           Tensor(copy.data(), entry.dtype, entry.dims)});
      }
    }
    const auto other = file.string() + ".new";
    write_safetensors(other, tensors);
    std::filesystem::rename(other, file);
    nlohmann::json config = read_json(folder / part / "config.json");
    config["num_layers"] = layers;
    std::ofstream(folder / part / "config.json") << config;
  }
  return folder;
}

inline const std::string& deep_model() {
  static const ScratchFolder scratch;
  static const std::string path = make_deep(scratch.path / "model", kLayers).string();
  return path;
}

}  // namespace tachy::test
