// Adapters with random values for the tiny models.
#pragma once

#include <deque>
#include <random>

#include "tiny_model.h"
#include "weights/names/rename.h"

namespace tachy::test {

struct LoraFile {
  std::vector<NamedTensor> tensors;
  std::deque<std::vector<float>> values;
  std::mt19937 random;
  explicit LoraFile(unsigned seed) : random(seed) {}

  void add(const std::string& name, std::vector<int64_t> dims, float scale) {
    std::normal_distribution<float> normal(0, scale);
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    auto& v = values.emplace_back(static_cast<size_t>(count));
    for (float& x : v) x = normal(random);
    tensors.push_back({name, Tensor(v.data(), DType::f32, dims)});
  }
};

inline constexpr int64_t kRank = 3;

// Makes a pair for each matrix of the blocks, under the original's names, with alpha 6: their scale is 2.
inline std::string make_lora(const std::string& model_folder, const ScratchFolder& scratch,
                             const std::string& name, unsigned seed, bool delta = false) {
  const ModelBundle model = ModelBundle::open(model_folder);
  LoraFile file(seed);
  for (const auto& entry : model.transformer->entries()) {
    const bool of_block = entry.name.starts_with("blocks.") || entry.name.starts_with("vace_blocks.");
    if (!of_block || entry.dims.size() != 2 || !entry.name.ends_with(".weight")) continue;
    std::string stem = "diffusion_model." + dit_to_original(entry.name);
    stem.resize(stem.size() - std::string(".weight").size());
    file.add(stem + ".lora_down.weight", {kRank, entry.dims[1]}, 0.2f);
    file.add(stem + ".lora_up.weight", {entry.dims[0], kRank}, 0.2f);
    file.values.emplace_back(1, 6.0f);
    file.tensors.push_back({stem + ".alpha", Tensor(file.values.back().data(), DType::f32, {1})});
  }
  if (delta) {
    const auto* table = model.transformer->find("blocks.0.scale_shift_table");
    file.add("diffusion_model.blocks.0.diff_m", table->dims, 0.1f);
  }
  const auto path = scratch.path / name;
  write_safetensors(path, file.tensors);
  return path.string();
}

inline VideoRequest with_loras(std::vector<std::string> loras, const char* mode = "merge") {
  VideoRequest r = short_request();
  r.loras = std::move(loras), r.lora_mode = mode;
  return r;
}

}  // namespace tachy::test
