// What a model folder holds, without loading it: kind, layout, dims, dtypes, sizes, defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tachy {

struct ComponentInfo {
  std::string name;  // "transformer"
  std::string file;  // where its weights lie
  uint64_t parameters = 0;
  uint64_t bytes = 0;  // on disk
  int64_t tensors = 0;
  std::vector<std::string> dtypes;                           // most frequent first, "bf16 (812 tensors)"
  std::vector<std::pair<std::string, std::string>> options;  // dims as name and value
};

struct ModelInfo {
  std::string path, kind, layout;
  std::vector<ComponentInfo> components;
  std::vector<std::pair<std::string, std::string>> defaults;  // of generate's options
};

ModelInfo describe_model(const std::filesystem::path& path);

}  // namespace tachy
