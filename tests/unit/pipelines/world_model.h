// A tiny Matrix-Game 2 in a folder: the transformer of tests/golden/causal, with as many channels as the VAE
// and CLIP of tests/golden/image_pipeline need, and those two under the original layout's names.
#pragma once

#include <unistd.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>

#include "../models/golden.h"
#include "tensor/random.h"
#include "weights/tensor_source.h"

namespace tachy::test {

struct WorldModelOptions {
  std::string golden = "universal";  // or templerun
  std::string world;                 // for generation_config.json; "": there is no such file
  bool broken = false;               // whether a weight of the head is NaN
  // Whether the model lies in base_distilled_model/, like the download, whose only config is in the file's
  // header.
  bool published = false;
};

class WorldModel {
 public:
  explicit WorldModel(const WorldModelOptions& options = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "tachyscope-world-XXXXXX").string();
    check(mkdtemp(name.data()) != nullptr, ErrorCode::io, "{}: cannot be made", name);
    path_ = name;
    const std::filesystem::path golden = golden_path("causal/" + options.golden);
    auto config = read_json(golden / "config.json");
    config["in_dim"] = 12;
    if (options.published)
      std::filesystem::create_directory(path() / "base_distilled_model");
    else
      std::ofstream(path() / "config.json") << config.dump();
    const auto file = options.published ? path() / "base_distilled_model" / "base_distill.safetensors"
                                        : path() / "diffusion_pytorch_model.safetensors";
    write_transformer(golden, options.broken, file, config.dump());
    if (!options.world.empty())
      std::ofstream(path() / "generation_config.json") << "{\"world\": " << options.world << "}";
    const std::filesystem::path image = golden_path("image_pipeline");
    rewrite(image / "i2v/vae", "diffusion_pytorch_model.safetensors", "Wan2.1_VAE.safetensors");
    rewrite(image / "flf2v_clip/image_encoder", "model.safetensors", "models_clip_tiny.safetensors");
  }
  ~WorldModel() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  WorldModel(const WorldModel&) = delete;
  WorldModel& operator=(const WorldModel&) = delete;
  const std::filesystem::path& path() const { return path_; }

  // Describes the universal model with blocks of 3 (or `block`) latent frames, a window of 6, three steps,
  // and 48x32 pixels.
  static std::string world(int block = 3, int window = 6) {
    return fmt::format(
        R"({{"kind": "universal", "fps": 12, "width": 48, "height": 32, "timesteps": [1000, 666, 333], "shift": 5,
            "block": {0}, "first_block": {0}, "window": {1}}})",
        block, window);
  }

 private:
  void write_transformer(const std::filesystem::path& golden, bool broken, const std::filesystem::path& file,
                         const std::string& config) {
    const auto source = open_safetensors(golden / "diffusion_pytorch_model.safetensors");
    for (const auto& entry : source->entries()) {
      std::vector<int64_t> dims(entry.dims.begin(), entry.dims.end());
      const bool input = entry.name == "patch_embedding.weight",
                 image = entry.name.starts_with("img_emb.proj.");
      if (input) dims[1] = 12;
      for (int64_t& d : dims)
        if (image && d == 10) d = 12;
      if (!input && !image) {
        tensors_.push_back(
            {"model." + entry.name, Tensor(const_cast<void*>(entry.data), entry.dtype, entry.dims)});
        if (!broken || entry.name != "head.head.bias") continue;
        tensors_.pop_back();
      }
      int64_t count = 1, row = 1;
      for (size_t i = 0; i < dims.size(); ++i) count *= dims[i], row *= i > 0 ? dims[i] : 1;
      std::vector<float>& values = storage_.emplace_back(static_cast<size_t>(count));
      TorchCpuGenerator(static_cast<uint64_t>(storage_.size())).normal(values);
      for (float& v : values) v = dims.size() > 1 ? v / std::sqrt(static_cast<float>(row)) : 0.3f * v + 0.5f;
      if (broken && entry.name == "head.head.bias") values[0] = NAN;
      tensors_.push_back(
          {"model." + entry.name, Tensor(values.data(), DType::f32, std::span<const int64_t>(dims))});
    }
    write_safetensors(file, std::move(tensors_), {{"config", config}});
  }

  // Rewrites a component's file so that its config is in the header.
  void rewrite(const std::filesystem::path& folder, const char* from, const char* to) {
    const auto source = open_safetensors(folder / from);
    std::vector<NamedTensor> tensors;
    for (const auto& entry : source->entries())
      tensors.push_back({entry.name, Tensor(const_cast<void*>(entry.data), entry.dtype, entry.dims)});
    write_safetensors(path() / to, std::move(tensors),
                      {{"config", read_json(folder / "config.json").dump()}});
  }

  std::filesystem::path path_;
  std::deque<std::vector<float>> storage_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace tachy::test
