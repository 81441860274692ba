// Writes a model, or only its transformer, in another form (`tachyscope convert`):
//
//   diffusers   a folder in diffusers' layout with every part that the model has; quantised weights become
//               bfloat16
//   single      one safetensors file of the transformer as ComfyUI has it: original names behind
//               model.diffusion_model., the dtypes of the source
//   fp8         the same with the matrices of the blocks as e4m3 and a scale each (fp8_scaled)
//   int8        LightX2V's file: the matrices of the blocks as int8, a scale for each row
//   gguf:TYPE   a GGUF file of the transformer: TYPE is Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, BF16, F16 or F32
//
// Only a few MiB of tensors are in memory at a time. The output gets its name only when all of it is
// complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "catalog/part_paths.h"
#include "request/request.h"

namespace tachy {

struct ConvertOptions {
  std::string to;          // one of the forms above
  std::string part;        // "transformer" or "transformer_2", for a model with two transformers
  bool overwrite = false;  // replaces whatever has the output's name
  uint64_t max_shard_bytes = 10'000'000'000;  // for diffusers: bytes of tensors in one file
  int threads = 0;                            // 0 means as many as this process may use
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const Progress&)> progress;  // reports stage "convert" in megabytes written
};

struct ConvertReport {
  std::string output;
  uint64_t bytes = 0;  // total size of all files
  int64_t tensors = 0;
  std::vector<std::string> files;   // for a folder, paths relative to it; otherwise the output itself
  std::vector<std::string> dtypes;  // most frequent first: "bf16 (812 tensors)"
  std::vector<std::string> notes;   // what was left out, and other remarks
};

// `in` is anything that the engine opens; if `to` is diffusers, it may also be a text encoder or a VAE alone.
// `parts` are as for ModelBundle::open; only diffusers takes other parts than the transformer.
ConvertReport convert_model(const std::filesystem::path& in, const std::filesystem::path& out,
                            const PartPaths& parts, const ConvertOptions& options);

}  // namespace tachy
