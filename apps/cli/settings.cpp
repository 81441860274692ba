#include "settings.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/sha256.h"
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
  } else if constexpr (std::is_same_v<T, bool>) {
    check(v.is_boolean(), ErrorCode::corrupt, "--from: '{}' should be true or false, got {}", key, v.dump());
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

template <class Settings>
auto files_of(Settings& s) {
  using File = std::remove_reference_t<decltype((s.image))>;
  return std::array<std::pair<const char*, File*>, 4>{{{"init_latents", &s.init_latents},
                                                       {"image", &s.image},
                                                       {"last_image", &s.last_image},
                                                       {"image_embeds", &s.image_embeds}}};
}

std::string option_of(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

std::string sha256_of(const std::string& path, const std::string& option) {
  std::error_code ec;
  std::ifstream in(path, std::ios::binary);
  check(in.good() && !std::filesystem::is_directory(path, ec), ErrorCode::not_found,
        "{}: cannot read {}; give an existing file", option, path);
  Sha256 hash;
  std::vector<char> block(1 << 16);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    hash.add(std::string_view(block.data(), static_cast<size_t>(in.gcount())));
  }
  return hash.hex();
}

}  // namespace

json to_json(const RunSettings& s) {
  const VideoRequest& r = s.request;
  json j = {{"tachyscope", version()},
            {"prompt", r.prompt},
            {"seed", r.seed},
            {"rng", r.rng},
            {"max_sequence_length", r.max_text_tokens},
            {"level", r.level}};
  if (r.rng == "cuda") j["rng_multiprocessors"] = r.rng_multiprocessors;
  put(j, "negative_prompt", r.negative_prompt);
  put(j, "width", r.width);
  put(j, "height", r.height);
  put(j, "num_frames", r.frames);
  put(j, "fps", r.fps);
  put(j, "num_inference_steps", r.steps);
  put(j, "guidance_scale", r.guidance);
  put(j, "guidance_scale_2", r.guidance_2);
  put(j, "flow_shift", r.shift);
  put(j, "sampler", r.sampler);
  put(j, "grid", r.grid);
  put(j, "sinusoid", r.sinusoid);
  put(j, "dtype", r.dtype);
  put(j, "step_cache", r.step_cache);
  put(j, "residual", r.residual);
  if (!s.model.empty()) j["model"] = s.model;
  if (!s.device.empty()) j["device"] = s.device;
  if (r.image) j["image_fit"] = r.image_fit;
  for (const auto& [key, file] : files_of(s)) {
    if (file->path.empty()) continue;
    j[key] = file->path;
    j[std::string(key) + "_sha256"] = file->sha256;
  }
  return j;
}

void load_inputs(RunSettings& s) {
  for (const auto& [key, file] : files_of(s)) {
    if (file->path.empty()) continue;
    const std::string option = option_of(key), hash = sha256_of(file->path, option);
    require(file->sha256.empty() || file->sha256 == hash,
            "{}: {} is not the file of that run (SHA-256 {}…, now {}…); {} {} takes it as it is", option,
            file->path, file->sha256.substr(0, 12), hash.substr(0, 12), option, file->path);
    file->sha256 = hash;
  }
  VideoRequest& r = s.request;
  const auto read = [](const char* option, const InputFile& file, auto&& body) {
    if (file.path.empty()) return;
    try {
      body(file.path);
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("{}: {}", option, e.message()), e.where());
    }
  };
  read("--init-latents", s.init_latents, [&](const auto& p) { r.init_latents = read_latents(p).values; });
  read("--image", s.image, [&](const auto& p) { r.image = std::make_shared<Picture>(read_picture(p)); });
  read("--last-image", s.last_image,
       [&](const auto& p) { r.last_image = std::make_shared<Picture>(read_picture(p)); });
  read("--image-embeds", s.image_embeds,
       [&](const auto& p) { r.image_embeds = std::make_shared<ImageEmbeds>(read_image_embeds(p)); });
}

std::string difference(const json& earlier, const json& now) {
  const auto text = [](const json& j, const std::string& key) {
    const auto it = j.find(key);
    return it == j.end() ? "none" : it->is_string() ? it->get<std::string>() : it->dump();
  };
  json all = earlier;
  all.update(now);
  std::string out;
  for (const auto& item : all.items()) {
    const std::string& key = item.key();
    const bool place = key == "model" || key == "device" || all.contains(key + "_sha256");
    if (place || (earlier.contains(key) && now.contains(key) && earlier[key] == now[key])) continue;
    out += (out.empty() ? "" : ", ") + (key == "tachyscope" ? "version" : key) + " " + text(earlier, key) +
           ", here " + text(now, key);
  }
  if (!out.empty() && text(earlier, "device") != text(now, "device"))
    out += fmt::format(" (device {}, here {})", text(earlier, "device"), text(now, "device"));
  return out;
}

RunSettings read_settings(const std::string& path) {
  const std::filesystem::path file(path);
  std::string text;
  if (file.extension() == ".resume")
    text = read_run_state(file).about["settings"];
  else
    text = file.extension() == ".json" ? read_text(file) : read_comment(file);
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
    take(j, "dtype", r.dtype);
    take(j, "negative_prompt", r.negative_prompt);
    take(j, "width", r.width);
    take(j, "height", r.height);
    take(j, "num_frames", r.frames);
    take(j, "fps", r.fps);
    take(j, "num_inference_steps", r.steps);
    take(j, "guidance_scale", r.guidance);
    take(j, "guidance_scale_2", r.guidance_2);
    take(j, "flow_shift", r.shift);
    take(j, "sampler", r.sampler);
    take(j, "grid", r.grid);
    take(j, "sinusoid", r.sinusoid);
    take(j, "level", r.level);
    take(j, "step_cache", r.step_cache);
    take(j, "residual", r.residual);
    take(j, "model", s.model);
    take(j, "device", s.device);
    check(s.device.empty() || s.device == "cpu" || s.device == "cuda", ErrorCode::corrupt,
          "--from: 'device' should be \"cpu\" or \"cuda\", got {}", j.at("device").dump());
    take(j, "image_fit", r.image_fit);
    for (const auto& [key, input] : files_of(s)) {
      take(j, key, input->path);
      take(j, (std::string(key) + "_sha256").c_str(), input->sha256);
      // A path is meant from where the run was made; the settings may have moved along with the picture.
      const auto beside = file.parent_path() / input->path;
      std::error_code ec;
      if (!input->path.empty() && !std::filesystem::exists(input->path, ec) &&
          std::filesystem::exists(beside, ec))
        input->path = beside.string();
    }
    return s;
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "--from: {}: {}", path, e.what());
  }
}

}  // namespace tachy::cli
