// Models with the layers of sparse attention that was trained, whose values are random.
#pragma once

#include <deque>
#include <random>

#include "tiny_model.h"

namespace tachy::test {

// Adds the layers of Video Sparse Attention, or of Sparse-Linear Attention, to the transformer in `folder`.
inline void add_trained_layers(const std::filesystem::path& folder, TrainedSparse kind, int64_t blocks,
                               int64_t dim, int64_t head_dim) {
  const auto file = find_weights(folder / "transformer");
  const auto source = open_safetensors(file);
  const bool cubes = kind == TrainedSparse::cubes;
  const int64_t width = cubes ? dim : head_dim;
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 0.3f * std::sqrt(24.0f / static_cast<float>(width)));
  std::deque<std::vector<float>> added;
  std::vector<NamedTensor> all;
  for (const auto& entry : source->entries())
    all.push_back({entry.name, Tensor(const_cast<void*>(entry.data), entry.dtype, entry.dims)});
  for (int64_t block = 0; block < blocks; ++block)
    for (const bool weight : {true, false}) {
      auto& values = added.emplace_back(static_cast<size_t>(weight ? width * width : width));
      for (float& v : values) v = normal(random);
      const Tensor t = weight ? Tensor(values.data(), DType::f32, {width, width})
                              : Tensor(values.data(), DType::f32, {width});
      all.push_back({fmt::format("blocks.{}.{}.{}", block, cubes ? "to_gate_compress" : "attn1.proj_l",
                                 weight ? "weight" : "bias"),
                     t});
    }
  const auto made = folder / "transformer" / "made.safetensors";
  write_safetensors(made, std::move(all));
  std::filesystem::rename(made, file);
}

}  // namespace tachy::test
