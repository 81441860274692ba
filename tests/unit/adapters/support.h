// The small model of tests/golden/adapters, and files made up on the spot.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "adapters/match.h"
#include "adapters/merged.h"
#include "base/error.h"
#include "weights/rename.h"

namespace tachy::test {

namespace fs = std::filesystem;

inline fs::path golden(const std::string& name) {
  return fs::path(TACHY_SOURCE_DIR) / "tests/golden/adapters" / name;
}

// Tensors in memory under these names, zeros unless said.
struct MadeSource {
  std::deque<std::vector<float>> values;
  std::vector<TensorSource::Entry> entries;
  std::map<std::string, std::string> metadata;

  MadeSource& add(const std::string& name, std::vector<int64_t> dims, float value = 0.25f) {
    size_t count = 1;
    for (const int64_t d : dims) count *= static_cast<size_t>(d);
    const auto& made = values.emplace_back(count, value);
    entries.push_back({.name = name,
                       .name_in_file = name,
                       .dtype = DType::f32,
                       .dims = std::move(dims),
                       .data = made.data(),
                       .bytes = 4 * count});
    return *this;
  }
  std::shared_ptr<TensorSource> source() const {
    return std::make_shared<TensorSource>(entries, std::vector<std::shared_ptr<const MappedFile>>{},
                                          metadata);
  }
};

inline AdapterFile made_adapter(const MadeSource& made, const std::string& path = "made.safetensors") {
  return read_adapter(path, made.source());
}

struct Model {
  std::shared_ptr<TensorSource> source;
  TargetNames names;
  explicit Model(std::shared_ptr<TensorSource> from)
      : source(std::move(from)), names(*source, dit_to_original) {}
  Model() : Model(open_weights(golden("base.safetensors"))) {}

  AdapterMatch match(const AdapterFile& file) const {
    return match_adapter(file, {.transformers = {{"transformer", &names}}});
  }
};

inline std::vector<float> values_of(const TensorSource& source, const std::string& name) {
  const TensorSource::Entry* entry = source.find(name);
  EXPECT_NE(entry, nullptr) << name;
  if (!entry) return {};
  size_t count = 1;
  for (const int64_t d : entry->dims) count *= static_cast<size_t>(d);
  std::vector<float> out(count);
  const Tensor to(out.data(), DType::f32, {static_cast<int64_t>(count)});
  if (entry->derived)
    decode_values(*entry->derived, static_cast<int64_t>(count) / entry->dims[0], 0, to);
  else
    std::copy_n(static_cast<const float*>(entry->data), count, out.begin());
  return out;
}

}  // namespace tachy::test
