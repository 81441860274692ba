// A model, or its transformer, written in another form:
//
//   diffusers   a folder in diffusers' layout, with every part that is there; quantised weights become bfloat16
//   single      one safetensors file of the transformer as ComfyUI has it: original names behind
//               model.diffusion_model., the dtypes of the source
//   fp8         the same with the matrices of the blocks as e4m3 and a scale each (fp8_scaled)
//   int8        LightX2V's file: the matrices of the blocks as int8, a scale for each row
//   gguf:TYPE   a GGUF file of the transformer: TYPE is Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, BF16, F16 or F32
//
// Tensors go through a few MiB at a time. Nothing lies under the output's name before all of it is complete.
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

struct Conversion {
  std::filesystem::path
      model;  // what an Engine opens; where `to` is diffusers also a text encoder or a VAE by itself
  std::filesystem::path output;  // a folder (diffusers), or a file that ends in .safetensors or .gguf
  std::string to;                // one of the forms above
  PartPaths parts;               // of the model that lie elsewhere; diffusers alone takes them
  std::string part;              // of a model with two: "transformer" or "transformer_2"
  bool overwrite = false;        // take the place of what lies under the output's name
  uint64_t max_shard_bytes = 10'000'000'000;      // diffusers: of the tensors in one file
  int threads = 0;                                // 0: all that this process may use
  const std::atomic<bool>* cancel = nullptr;      // set it from any thread
  std::function<void(const Progress&)> progress;  // stage "convert", in megabytes of what is written
};

struct ConvertedModel {
  std::string output;
  uint64_t bytes = 0;  // of all files
  int64_t tensors = 0;
  std::vector<std::string> files;   // of a folder, from there; otherwise the output itself
  std::vector<std::string> dtypes;  // most frequent first: "bf16 (812 tensors)"
  std::vector<std::string> notes;   // what was left out, and what else one should know
};

// Throws invalid_argument for what does not go together, not_found and corrupt for the model, io where the output cannot be
// written, numerical for values that the form cannot hold, and cancelled.
ConvertedModel convert(const Conversion& what);

}  // namespace tachy
