// A golden case of tests/golden/vae: config, reference outputs, and the weights and inputs that its maker
// computed from a hash instead of storing them.
#pragma once

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/wan_vae/wan_vae.h"
#include "weights/json_file.h"
#include "weights/safetensors.h"

namespace tachy::test {

inline const std::string kVaeGolden = std::string(TACHY_SOURCE_DIR) + "/tests/golden/vae/";

// Computes centre + bound·(2u − 1) with u from the top 24 bits of splitmix64, like hashed() in make.py.
inline std::vector<float> hashed(const nlohmann::json& tensor) {
  int64_t count = 1;
  for (const auto& extent : tensor.at("shape")) count *= extent.get<int64_t>();
  const auto seed = tensor.at("seed").get<uint64_t>();
  const auto bound = tensor.at("bound").get<float>(), centre = tensor.at("centre").get<float>();
  std::vector<float> out(static_cast<size_t>(count));
  for (uint64_t i = 0; i < out.size(); ++i) {
    uint64_t z = (seed << 32) + (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    out[i] = centre + bound * (static_cast<float>(z >> 40) * 0x1p-23f - 1.0f);
  }
  return out;
}

struct Named {
  std::vector<float> values;
  std::vector<int64_t> dims;
  Tensor tensor() { return Tensor(values.data(), DType::f32, dims); }
};

struct VaeCase {
  explicit VaeCase(const std::string& name)
      : json(read_json(kVaeGolden + name + ".json")), config(VaeConfig::from_json(json.at("config"))) {
    for (const auto& t : json.at("tensors"))
      weights[t.at("name")] = {hashed(t), t.at("shape").get<std::vector<int64_t>>()};
    for (const auto& t : json.at("inputs"))
      inputs[t.at("name")] = {hashed(t), t.at("shape").get<std::vector<int64_t>>()};
    golden = open_safetensors(kVaeGolden + name + ".safetensors");
  }

  // Returns the weights as a file would; the case still owns them.
  std::shared_ptr<TensorSource> source(const std::string& without = "") {
    std::vector<TensorSource::Entry> entries;
    for (auto& [name, w] : weights)
      if (name != without)
        entries.push_back({.name = name,
                           .name_in_file = name,
                           .dtype = DType::f32,
                           .dims = w.dims,
                           .data = w.values.data(),
                           .bytes = w.values.size() * 4});
    return std::make_shared<TensorSource>(std::move(entries),
                                          std::vector<std::shared_ptr<const MappedFile>>{});
  }
  Tensor input(const std::string& name) { return inputs.at(name).tensor(); }
  Tensor expected(const std::string& name) const {
    const auto* entry = golden->find(name);
    return Tensor(const_cast<void*>(entry->data), entry->dtype, entry->dims);
  }

  nlohmann::json json;
  VaeConfig config;
  std::map<std::string, Named> weights, inputs;
  std::shared_ptr<TensorSource> golden;
};

// A pool and an arena, which first measures and then has exactly the measured size.
struct Runner {
  explicit Runner(int threads = 2) : pool(threads) {}
  Stream measuring() {
    arena = Arena();
    return {.arena = &arena, .pool = &pool};
  }
  Stream sized(size_t bytes) {
    arena = Arena(bytes);
    return {.arena = &arena, .pool = &pool};
  }
  ThreadPool pool;
  Arena arena;
};

inline size_t offset_of(const Tensor& t, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) at += index[i] * t.strides[i];
  return static_cast<size_t>(at);
}

// Returns max|y − r| / max|r| over two rank-4 tensors of any strides; infinite if shapes differ or y holds a
// NaN.
inline double error_of(const Tensor& y, const Tensor& r) {
  if (!same_shape(y, r) || y.numel() == 0) return INFINITY;
  double worst = 0, scale = 0;
  for (int64_t a = 0; a < r.dims[0]; ++a)
    for (int64_t b = 0; b < r.dims[1]; ++b)
      for (int64_t c = 0; c < r.dims[2]; ++c)
        for (int64_t d = 0; d < r.dims[3]; ++d) {
          const double want = static_cast<const float*>(r.data)[offset_of(r, {a, b, c, d})];
          const double got = static_cast<const float*>(y.data)[offset_of(y, {a, b, c, d})];
          if (!std::isfinite(got)) return INFINITY;
          worst = std::max(worst, std::abs(got - want));
          scale = std::max(scale, std::abs(want));
        }
  return worst / scale;
}

constexpr double kVaeBound = 1e-5;

}  // namespace tachy::test
