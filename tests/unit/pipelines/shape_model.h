// For plans: Wan2.1's text-to-video models in their true shapes but without values. This is the shipped model
// with sparse files in place of transformer and VAE, which take a few kilobytes on the disk.
#pragma once

#include <fstream>

#include "tiny_model.h"

namespace tachy::test {

using Shapes = std::map<std::string, std::vector<int64_t>>;

// Writes a safetensors file of zeros that take no space on the disk.
inline void write_sparse(const std::filesystem::path& path, const Shapes& shapes, DType dtype) {
  nlohmann::json header;
  uint64_t offset = 0;
  for (const auto& [name, dims] : shapes) {
    uint64_t bytes = static_cast<uint64_t>(dtype_size(dtype));
    for (const int64_t d : dims) bytes *= static_cast<uint64_t>(d);
    header[name] = {{"dtype", dtype == DType::bf16 ? "BF16" : "F32"},
                    {"shape", dims},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(&size), 8);
  file << text;
  file.close();
  std::filesystem::resize_file(path, 8 + size + offset);
}

inline Shapes transformer_shapes(int64_t dim, int64_t ffn, int64_t layers, int64_t text) {
  Shapes out;
  const auto linear = [&](const std::string& name, int64_t rows, int64_t columns) {
    out[name + ".weight"] = {rows, columns}, out[name + ".bias"] = {rows};
  };
  out["patch_embedding.weight"] = {dim, 16, 1, 2, 2}, out["patch_embedding.bias"] = {dim};
  linear("condition_embedder.time_embedder.linear_1", dim, 256);
  linear("condition_embedder.time_embedder.linear_2", dim, dim);
  linear("condition_embedder.time_proj", 6 * dim, dim);
  linear("condition_embedder.text_embedder.linear_1", dim, text);
  linear("condition_embedder.text_embedder.linear_2", dim, dim);
  out["scale_shift_table"] = {1, 2, dim};
  linear("proj_out", 64, dim);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    for (const char* attention : {"attn1.", "attn2."}) {
      for (const char* part : {"to_q", "to_k", "to_v", "to_out.0"})
        linear(block + attention + part, dim, dim);
      for (const char* norm : {"norm_q.weight", "norm_k.weight"}) out[block + attention + norm] = {dim};
    }
    out[block + "norm2.weight"] = out[block + "norm2.bias"] = {dim};
    linear(block + "ffn.net.0.proj", ffn, dim);
    linear(block + "ffn.net.2", dim, ffn);
    out[block + "scale_shift_table"] = {1, 6, dim};
  }
  return out;
}

struct ShapeModel {
  // `shape` is "1.3B" or "14B".
  explicit ShapeModel(const std::string& shape) : folder(scratch.path / "model") {
    namespace fs = std::filesystem;
    const int64_t heads = shape == "14B" ? 40 : 12, ffn = shape == "14B" ? 13824 : 8960,
                  layers = shape == "14B" ? 40 : 30;
    fs::copy(std::string(TACHY_TEST_MODELS) + "/sprites", folder, fs::copy_options::recursive);
    nlohmann::json config = read_json(folder / "transformer/config.json");
    config["num_attention_heads"] = heads, config["ffn_dim"] = ffn, config["num_layers"] = layers;
    write(config, "transformer", transformer_shapes(128 * heads, ffn, layers, config["text_dim"]),
          DType::bf16);
    nlohmann::json vae = read_json(folder / "vae/config.json");
    vae["base_dim"] = 96;
    write(vae, "vae", read_json(golden_path("vae/names_wan21.json")).get<Shapes>(), DType::f32);
  }

  ScratchFolder scratch;
  std::filesystem::path folder;

 private:
  void write(const nlohmann::json& config, const char* part, const Shapes& shapes, DType dtype) const {
    for (const auto& item : std::filesystem::directory_iterator(folder / part))
      std::filesystem::remove(item.path());
    std::ofstream(folder / part / "config.json") << config;
    write_sparse(folder / part / "diffusion_pytorch_model.safetensors", shapes, dtype);
  }
};

}  // namespace tachy::test
