// Writes a model, or only its transformer, in another form:
//
//   diffusers   a folder in diffusers' layout, with every part that is there; quantised weights become bfloat16
//   single      one safetensors file of the transformer as ComfyUI has it: original names behind
//               model.diffusion_model., the dtypes of the source
//   fp8         the same with the matrices of the blocks as e4m3 and a scale each (fp8_scaled)
//   int8        LightX2V's file: the matrices of the blocks as int8, a scale for each row
//   gguf:TYPE   a GGUF file of the transformer: TYPE is Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, BF16, F16 or F32
//
// Only a few MiB of tensors are in memory at a time. Nothing appears under the output's name before all of it
// is complete.
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
  // Anything that an Engine opens; if `to` is diffusers, also a text encoder or a VAE by itself.
  std::filesystem::path model;
  std::filesystem::path output;  // a folder (diffusers), or a file that ends in .safetensors or .gguf
  std::string to;                // one of the forms above
  PartPaths parts;               // parts of the model that lie elsewhere; only diffusers takes them
  std::string part;              // which transformer of a model with two: "transformer" or "transformer_2"
  bool overwrite = false;        // replace whatever has the output's name
  uint64_t max_shard_bytes = 10'000'000'000;      // diffusers: bytes of tensors in one file
  int threads = 0;                                // 0: as many as this process may use
  const std::atomic<bool>* cancel = nullptr;      // may be set from any thread
  std::function<void(const Progress&)> progress;  // stage "convert", in megabytes written
};

struct ConvertedModel {
  std::string output;
  uint64_t bytes = 0;  // size of all files together
  int64_t tensors = 0;
  std::vector<std::string> files;   // for a folder the paths relative to it, otherwise the output itself
  std::vector<std::string> dtypes;  // most frequent first: "bf16 (812 tensors)"
  std::vector<std::string> notes;   // what was left out, and anything else worth knowing
};

// Throws invalid_argument for settings that do not go together, not_found and corrupt for the model, io if
// the output cannot be written, numerical for values that the form cannot hold, and cancelled.
ConvertedModel convert(const Conversion& what);

}  // namespace tachy
