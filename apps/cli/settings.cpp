#include "settings.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "media/metadata.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

template <class T>
void put(json& j, const char* key, const std::optional<T>& value) {
  if (value) j[key] = *value;
}

// The value of a key as T; the file may hold anything.
template <class T>
T value(const json& v, const char* key) {
  if constexpr (std::is_same_v<T, std::string>) {
    check(v.is_string(), ErrorCode::corrupt, "--from: '{}' should be a text, got {}", key, v.dump());
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = v.is_number_unsigned() && v.get<uint64_t>() <= uint64_t{std::numeric_limits<T>::max()};
    check(fits, ErrorCode::corrupt, "--from: '{}' should be a whole number from 0 to {}, got {}", key,
          std::numeric_limits<T>::max(), v.dump());
  } else {
    check(v.is_number(), ErrorCode::corrupt, "--from: '{}' should be a number, got {}", key, v.dump());
  }
  return v.get<T>();
}

template <class T>
void take(const json& j, const char* key, std::optional<T>& target) {
  if (j.contains(key)) target = value<T>(j.at(key), key);
}
template <class T>
void take(const json& j, const char* key, T& target) {
  if (j.contains(key)) target = value<T>(j.at(key), key);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  check(in.good(), ErrorCode::not_found, "--from: cannot read {}", path.string());
  std::ostringstream text;
  text << in.rdbuf();
  check(text.str().size() <= (8u << 20), ErrorCode::corrupt, "--from: {} is too large for a settings file",
        path.string());
  return text.str();
}

}  // namespace

json to_json(const RunSettings& s) {
  const VideoRequest& r = s.request;
  json j = {{"tachyscope", version()},
            {"prompt", r.prompt},
            {"seed", r.seed},
            {"rng", r.rng},
            {"max_sequence_length", r.max_text_tokens}};
  if (r.rng == "cuda") j["rng_multiprocessors"] = r.rng_multiprocessors;
  put(j, "negative_prompt", r.negative_prompt);
  put(j, "width", r.width);
  put(j, "height", r.height);
  put(j, "num_frames", r.frames);
  put(j, "fps", r.fps);
  put(j, "num_inference_steps", r.steps);
  put(j, "guidance_scale", r.guidance);
  put(j, "flow_shift", r.shift);
  put(j, "sampler", r.sampler);
  put(j, "grid", r.grid);
  put(j, "sinusoid", r.sinusoid);
  if (!s.model.empty()) j["model"] = s.model;
  if (!s.init_latents.empty()) j["init_latents"] = s.init_latents;
  return j;
}

RunSettings read_settings(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string text = file.extension() == ".json" ? read_text(file) : read_comment(file);
  check(!text.empty(), ErrorCode::invalid_argument, "--from: {} carries no settings of a run", path);
  try {
    const json j = json::parse(text);
    check(j.is_object() && j.contains("prompt") && j.contains("tachyscope"), ErrorCode::invalid_argument,
          "--from: {} does not hold the settings of a run", path);
    RunSettings s;
    VideoRequest& r = s.request;
    take(j, "prompt", r.prompt);
    take(j, "seed", r.seed);
    take(j, "rng", r.rng);
    take(j, "rng_multiprocessors", r.rng_multiprocessors);
    take(j, "max_sequence_length", r.max_text_tokens);
    take(j, "negative_prompt", r.negative_prompt);
    take(j, "width", r.width);
    take(j, "height", r.height);
    take(j, "num_frames", r.frames);
    take(j, "fps", r.fps);
    take(j, "num_inference_steps", r.steps);
    take(j, "guidance_scale", r.guidance);
    take(j, "flow_shift", r.shift);
    take(j, "sampler", r.sampler);
    take(j, "grid", r.grid);
    take(j, "sinusoid", r.sinusoid);
    take(j, "model", s.model);
    take(j, "init_latents", s.init_latents);
    return s;
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "--from: {}: {}", path, e.what());
  }
}

}  // namespace tachy::cli
