#include "settings.h"

#include <filesystem>
#include <fstream>
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

template <class T>
void take(const json& j, const char* key, std::optional<T>& value) {
  if (j.contains(key)) value = j.at(key).get<T>();
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
    r.prompt = j.at("prompt").get<std::string>();
    r.seed = j.value("seed", uint64_t{0});
    r.rng = j.value("rng", std::string("cpu"));
    r.rng_multiprocessors = j.value("rng_multiprocessors", 132);
    r.max_text_tokens = j.value("max_sequence_length", 512);
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
    s.model = j.value("model", std::string());
    s.init_latents = j.value("init_latents", std::string());
    return s;
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "--from: {}: {}", path, e.what());
  }
}

}  // namespace tachy::cli
