// The small model of tests/golden/adapters, and files that are made up in memory.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "adapters/match.h"
#include "adapters/merged.h"
#include "base/error.h"
#include "weights/names/rename.h"

namespace tachy::test {

namespace fs = std::filesystem;

inline fs::path golden(const std::string& name) {
  return fs::path(TACHY_SOURCE_DIR) / "tests/golden/adapters" / name;
}

// Tensors in memory under these names; they are zeros unless values are given.
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
  // Does the same with values of another dtype; `raw` holds as many as `dims` say.
  template <class T>
  MadeSource& add_raw(const std::string& name, std::vector<int64_t> dims, DType dtype,
                      const std::vector<T>& raw) {
    std::vector<float>& made = values.emplace_back((raw.size() * sizeof(T) + 3) / 4);
    std::memcpy(made.data(), raw.data(), raw.size() * sizeof(T));
    TensorSource::Entry& entry = entries.emplace_back();
    entry.name = entry.name_in_file = name, entry.dtype = dtype, entry.dims = std::move(dims);
    entry.data = made.data(), entry.bytes = raw.size() * sizeof(T);
    return *this;
  }
  std::shared_ptr<TensorSource> source() const {
    return std::make_shared<TensorSource>(
        entries, std::vector{std::make_shared<const MappedFile>(golden("base.safetensors"))}, metadata);
  }
};

inline AdapterFile made_adapter(const MadeSource& made, const std::string& path = "made.safetensors") {
  return read_adapter(path, made.source());
}

inline MadeSource pair_of(const std::string& stem, int64_t out = 24, int64_t in = 24, int64_t rank = 2) {
  MadeSource made;
  made.add(stem + ".lora_down.weight", {rank, in}).add(stem + ".lora_up.weight", {out, rank});
  return made;
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
