// The stable C++ interface of Tachyscope: open a model, plan, generate, cancel, look inside.
//
//   tachy::Engine engine("models/sprites");
//   engine.generate({.prompt = "a red circle moves right"},
//                   {.frame = [](const tachy::RgbImage& image, int64_t index) { … }});
//
// Errors are tachy::Error (base/error.h) with a code and a text for people. An Engine may be used by one
// thread at a time; `cancel` may be set from any thread or a signal handler.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "inspect/info.h"
#include "inspect/stage.h"
#include "pipelines/request.h"

namespace tachy {

struct EngineOptions {
  int threads = 0;               // 0: all processors this process may use
  std::string weights = "auto";  // "packed" (float32 copies, faster), "mapped" (used in the file), "auto"
  bool keep_loaded = false;      // keep the model in memory between calls of generate
};

class Engine {
 public:
  explicit Engine(const std::filesystem::path& model, const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  int threads() const;
  const VideoRequest& defaults() const;  // every optional filled, from the model

  // The request with every default filled in and checked; runs nothing.
  ResolvedRequest resolve(const VideoRequest& request) const;
  // Exact memory and predicted time of a request, before anything is loaded.
  VideoPlan plan(const VideoRequest& request);
  // Runs it; returns the request with every default filled in.
  ResolvedRequest generate(const VideoRequest& request, const VideoCallbacks& callbacks = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string version();  // "0.1.0"

// The model that ships with the project: $TACHY_MODEL_DIR/sprites, or beside the executable. Throws
// not_found, naming the places looked at.
std::filesystem::path shipped_model();

// Latents [z, T, h, w] (or [1, z, T, h, w]) float32, in a .safetensors file under the name "latents".
struct LatentFile {
  std::vector<float> values;
  std::vector<int64_t> shape;
};
LatentFile read_latents(const std::filesystem::path& path);
void write_latents(const std::filesystem::path& path, std::span<const float> values,
                   std::span<const int64_t> shape);

}  // namespace tachy
