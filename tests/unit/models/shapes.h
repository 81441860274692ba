// Sources of tensors that have names and shapes but no values: enough to infer configs.
#pragma once

#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy::test {

using Shapes = std::map<std::string, std::vector<int64_t>>;

inline std::shared_ptr<TensorSource> source_of(const Shapes& shapes) {
  std::vector<TensorSource::Entry> entries;
  for (const auto& [name, dims] : shapes)
    entries.push_back({.name = name, .name_in_file = name, .dims = dims});
  return std::make_shared<TensorSource>(std::move(entries), std::vector<std::shared_ptr<const MappedFile>>{});
}

inline std::string golden_weights(const std::string& name) {
  return std::string(TACHY_SOURCE_DIR) + "/tests/golden/weights/" + name;
}

// Reads the shapes from a golden file that has a line "name <tab> [dims]" for each tensor.
inline Shapes listed(const std::string& file) {
  Shapes out;
  std::ifstream in(golden_weights(file));
  for (std::string line; std::getline(in, line);) {
    const size_t tab = line.find('\t');
    out[line.substr(0, tab)] = nlohmann::json::parse(line.substr(tab + 1)).get<std::vector<int64_t>>();
  }
  return out;
}

}  // namespace tachy::test
