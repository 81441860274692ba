// Describes the contents of a model folder or a single file without loading it: kind, layout, dims, dtypes,
// sizes, defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "catalog/part_paths.h"

namespace tachy {

struct ComponentInfo {
  std::string name;       // "transformer"
  std::string file;       // the file with its weights
  std::string container;  // "safetensors", "GGUF", "PyTorch"
  uint64_t parameters = 0;
  uint64_t bytes = 0;  // on disk
  int64_t tensors = 0;
  std::vector<std::string> dtypes;  // most frequent first, "bf16 (812 tensors)", "f8_e4m3 with scales (9 …"
  std::vector<std::pair<std::string, std::string>> options;  // dims as name and value
};

struct ModelInfo {
  std::string path, kind, layout;
  std::vector<ComponentInfo> components;
  std::vector<std::pair<std::string, std::string>> defaults;  // of generate's options
  // Each part that a single file lacks to make a video, and why the part was not found.
  std::vector<std::string> missing;
};

// A single file may be a transformer (with or without its other parts), a text encoder or a VAE.
ModelInfo describe_model(const std::filesystem::path& path, const PartPaths& parts = {});

}  // namespace tachy
