// Sources of tensors that have names and shapes but no values: what configs are inferred from.
#pragma once

#include <map>
#include <memory>
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

}  // namespace tachy::test
