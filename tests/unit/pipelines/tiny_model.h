// The tiny model of tests/golden/pipeline in both layouts, damaged copies of it, and a run whose results are
// collected in memory.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "../models/golden.h"
#include "engine/text_to_video.h"

namespace tachy::test {

inline std::string model_path(bool original = false) {
  return golden_path(original ? "pipeline/original" : "pipeline/model");
}

// Returns the request in tests/golden/pipeline/run.json.
inline VideoRequest golden_request() {
  const auto j = read_json(golden_path("pipeline/run.json"));
  VideoRequest r;
  r.prompt = j.at("prompt").get<std::string>();
  r.negative_prompt = j.at("negative_prompt").get<std::string>();
  r.width = j.at("width").get<int>(), r.height = j.at("height").get<int>();
  r.frames = j.at("num_frames").get<int>(), r.steps = j.at("num_inference_steps").get<int>();
  r.guidance = j.at("guidance_scale").get<double>(), r.shift = j.at("flow_shift").get<double>();
  r.seed = j.at("seed").get<uint64_t>();
  return r;
}

inline constexpr size_t kPlenty = size_t{1} << 30;  // bytes of a device that holds any of these models
// The amount that memory_plan.cpp counts for CUDA's libraries.
inline constexpr uint64_t kLibraries = uint64_t{400} << 20;

// Requests a short run with the model's own defaults: 5 frames of 32x16, 2 steps.
inline VideoRequest short_request() {
  VideoRequest r;
  r.prompt = "a red cat";
  r.width = 32, r.height = 16, r.frames = 5, r.steps = 2;
  return r;
}

struct Result {
  std::vector<uint8_t> rgb;    // all frames
  std::vector<float> latents;  // the final ones
  std::vector<int64_t> shape;
  int frames = 0, previews = 0;
};

// Adds callbacks that collect frames and latents in `out`.
inline VideoCallbacks collecting(Result& out, VideoCallbacks callbacks) {
  callbacks.frame = [&out](const RgbImage& image, int64_t index) {
    require(index == out.frames, "frames out of order");
    out.rgb.insert(out.rgb.end(), image.rgb.begin(), image.rgb.end());
    ++out.frames;
  };
  callbacks.latents = [&out](std::span<const float> values, std::span<const int64_t> shape) {
    out.latents.assign(values.begin(), values.end());
    out.shape.assign(shape.begin(), shape.end());
  };
  return callbacks;
}

inline Result run(TextToVideo& pipeline, const VideoRequest& request, VideoCallbacks callbacks = {}) {
  Result out;
  pipeline.generate(request, collecting(out, std::move(callbacks)));
  return out;
}

inline Result run(const std::string& model, const VideoRequest& request, TextToVideo::Options options = {}) {
  if (options.threads == 0) options.threads = 2;
  TextToVideo pipeline(ModelBundle::open(model), options);
  return run(pipeline, request);
}

// Returns the largest difference between two runs' latents.
inline double furthest(const std::vector<float>& a, const std::vector<float>& b) {
  require(a.size() == b.size(), "latents of two sizes: {} and {}", a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

// A folder that is removed with its owner.
struct ScratchFolder {
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tachyscope-test-XXXXXX").string();
    check(mkdtemp(name.data()) != nullptr, ErrorCode::io, "mkdtemp failed");
    path = name;
  }
  ~ScratchFolder() {
    std::error_code ec;
    std::filesystem::remove_all(path, ec);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  std::filesystem::path path;
};

// Rewrites one component of the model copy in `folder`; edit() sees each tensor's name and bytes and says
// whether to keep it.
inline void edit_weights(const std::filesystem::path& folder, const std::string& part,
                         const std::function<bool(const std::string&, Tensor)>& edit) {
  const auto file = find_weights(folder / part);
  std::vector<std::vector<char>> storage;
  std::vector<NamedTensor> kept;
  {
    const auto source = open_safetensors(file);
    for (const auto& entry : source->entries()) {
      const auto* data = static_cast<const char*>(entry.data);
      auto& bytes = storage.emplace_back(data, data + entry.bytes);
      const Tensor t(bytes.data(), entry.dtype, entry.dims);
      if (edit(entry.name, t)) kept.push_back({entry.name, t});
    }
  }
  write_safetensors(file, std::move(kept));
}

inline std::filesystem::path model_copy(const ScratchFolder& scratch) {
  const auto folder = scratch.path / "model";
  std::filesystem::copy(model_path(), folder, std::filesystem::copy_options::recursive);
  return folder;
}

// Turns the model with one transformer in `folder` into one with two experts: the low-noise one predicts the
// opposite.
inline void make_two_experts(const std::filesystem::path& folder) {
  std::filesystem::copy(folder / "transformer", folder / "transformer_2",
                        std::filesystem::copy_options::recursive);
  edit_weights(folder, "transformer_2", [](const std::string& name, Tensor t) {
    if (name != "proj_out.weight") return true;
    auto* bytes = static_cast<char*>(t.data);
    const int64_t size = dtype_size(t.dtype);
    for (int64_t i = size - 1; i < t.bytes(); i += size) bytes[i] = static_cast<char>(bytes[i] ^ 0x80);
    return true;
  });
  nlohmann::json index = read_json(folder / "model_index.json");
  index["transformer_2"] = index["transformer"], index["boundary_ratio"] = 0.875;
  std::ofstream(folder / "model_index.json") << index;
}

// Returns the message of the error that `body` must throw.
inline std::string refusal(const std::function<void()>& body, ErrorCode code) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message();
  }
  ADD_FAILURE() << "it was accepted";
  return "(no error)";
}

inline void fill_nan(const Tensor& t) {  // every byte 0xff is a NaN in float32 and bfloat16
  std::memset(t.data, 0xff, static_cast<size_t>(t.bytes()));
}

}  // namespace tachy::test
