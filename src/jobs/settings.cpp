#include "jobs/settings.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/json_mistake.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/text_file.h"
#include "jobs/settings_environment.h"
#include "jobs/settings_keys.h"
#include "media/metadata.h"

namespace tachy::jobs {
namespace {

using nlohmann::json;

constexpr uint64_t kMostSettingsBytes = 8 << 20;  // largest settings file

bool is_model_part(std::string_view key) {
  return std::ranges::any_of(model_parts(), [&](const ModelPart& part) { return part.name == key; });
}

// Returns the value of a key as T; the file may hold anything.
template <class T>
T value(const json& v, const char* key) {
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    check(v.is_array() && v.size() <= 64 &&
              std::all_of(v.begin(), v.end(), [](auto& x) { return x.is_string(); }),
          ErrorCode::corrupt, "'{}' should be a list of at most 64 texts, got {}", key, json_line(v));
  } else if constexpr (std::is_same_v<T, std::string>) {
    check(v.is_string(), ErrorCode::corrupt, "'{}' should be a text, got {}", key, json_line(v));
  } else if constexpr (std::is_same_v<T, bool>) {
    check(v.is_boolean(), ErrorCode::corrupt, "'{}' should be true or false, got {}", key, json_line(v));
  } else if constexpr (std::is_integral_v<T>) {
    const bool whole = v.is_number_unsigned() || (v.is_number_integer() && v.get<int64_t>() >= 0);
    const bool fits = whole && v.get<uint64_t>() <= uint64_t{std::numeric_limits<T>::max()};
    check(fits, ErrorCode::corrupt, "'{}' should be a whole number from 0 to {}, got {}", key,
          std::numeric_limits<T>::max(), json_line(v));
  } else {
    check(v.is_number(), ErrorCode::corrupt, "'{}' should be a number, got {}", key, json_line(v));
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

void read_into(std::vector<float>& latents, const std::string& path) {
  LatentFile file = read_latents(path);
  const auto scale = file.about.find("scale");
  require(
      scale == file.about.end() || scale->second != "raw",
      "{}: its latents are on the VAE's own scale (`raw` of `tachyscope vae encode`), and normalised ones "
      "are needed; encode them without `raw`",
      path);
  latents = std::move(file.values);
}
void read_into(std::shared_ptr<const Picture>& picture, const std::string& path) {
  picture = std::make_shared<Picture>(read_picture(path));
}
void read_into(std::shared_ptr<const Footage>& footage, const std::string& path) {
  footage = std::make_shared<Footage>(read_footage(path));
}
void read_into(std::shared_ptr<const ImageEmbeds>& embeds, const std::string& path) {
  embeds = std::make_shared<ImageEmbeds>(read_image_embeds(path));
}
void read_into(std::shared_ptr<const Speech>& speech, const std::string& path) {
  speech = std::make_shared<Speech>(read_speech_of(path));
}

bool is_footage(const std::string& name) {
  const RequestInput* input = find_field(request_inputs(), name);
  return input && std::holds_alternative<std::shared_ptr<const Footage> VideoRequest::*>(input->member);
}

}  // namespace

std::string sha256_of(const std::string& path, const std::string& input) {
  return sha256_of_file(path, input);
}

json to_json(const RunSettings& s) {
  json j = {{"tachyscope", version()}};
  for (const RequestField& field : request_fields()) {
    if (field.matters && !field.matters(s.request)) continue;
    std::visit(
        [&](auto member) {
          if (const auto* value = value_in(s.request.*member)) j[field.key] = *value;
        },
        field.member);
  }
  if (!s.model.empty()) j["model"] = s.model;
  for (const auto& [field, path] : s.parts) j[field] = path;
  if (!s.device.empty()) j["device"] = s.device;
  if (!s.parallel.empty()) j["parallel"] = s.parallel;
  for (const auto& [name, file] : s.inputs) {
    j[name] = file.path;
    j[name + "_sha256"] = file.sha256;
  }
  return j;
}

void load_inputs(RunSettings& s) {
  for (auto& [name, file] : s.inputs) {
    const std::string hash =
        is_footage(name) ? sha256_of_footage(file.path, name) : sha256_of(file.path, name);
    require(file.sha256.empty() || file.sha256 == hash,
            "`{}`: {} is not the file that the run used (SHA-256 {}…, now {}…); give `{}` {} to use it all "
            "the same",
            name, file.path, file.sha256.substr(0, 12), hash.substr(0, 12), name, file.path);
    file.sha256 = hash;
  }
  for (const RequestInput& input : request_inputs()) {
    const auto file = s.inputs.find(input.name);
    if (file == s.inputs.end()) continue;
    naming(fmt::format("`{}`", input.name), [&] {
      std::visit([&](auto member) { read_into(s.request.*member, file->second.path); }, input.member);
    });
  }
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
    const bool place = key == "model" || key == kFramesKept || key == kFingerprint || key == "device" ||
                       key == "environment" || key == "encoding" || is_model_part(key) ||
                       all.contains(key + "_sha256");
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
    text = file.extension() == ".json"
               ? naming("`from`", [&] { return read_text_file(file, kMostSettingsBytes); })
               : naming("`from`", [&] { return read_comment(file); });
  // The comment in another program's video does not hold settings of ours.
  check(!text.empty() && (file.extension() == ".json" || text[0] == '{'), ErrorCode::invalid_argument,
        "`from`: {} has no settings of a run in it", path);
  RunSettings s = naming("`from`", [&] {
    const json j = parse_json_text(text, path);
    RunSettings read = settings_of_json(j, path);
    expect_known_keys(j, path);
    return read;
  });
  // A path is relative to where the run was made; the settings may have moved along with the picture.
  for (auto& [name, in] : s.inputs) {
    const auto beside = file.parent_path() / in.path;
    std::error_code ec;
    if (!std::filesystem::exists(in.path, ec) && std::filesystem::exists(beside, ec))
      in.path = beside.string();
  }
  return s;
}

RunSettings settings_of_json(const json& j, const std::string& from) try {
  expect_settings(j, from);
  RunSettings s;
  for (const RequestField& field : request_fields())
    std::visit([&](auto member) { take(j, field.key, s.request.*member); }, field.member);
  take(j, "model", s.model);
  for (const ModelPart& part : model_parts()) {
    std::string path;
    take(j, part.name, path);
    if (!path.empty()) s.parts[part.name] = path;
  }
  take(j, "device", s.device);
  check(s.device.empty() || s.device == "cpu" || s.device == "cuda", ErrorCode::corrupt,
        "'device' should be \"cpu\" or \"cuda\", got \"{}\"", s.device);
  take(j, "parallel", s.parallel);
  s.environment = environment_in(j), s.encoding = encoding_in(j);
  for (const RequestInput& input : request_inputs()) {
    InputFile in;
    take(j, input.name, in.path);
    take(j, (std::string(input.name) + "_sha256").c_str(), in.sha256);
    if (!in.path.empty()) s.inputs[input.name] = in;
  }
  return s;
} catch (const json::exception& e) {
  fail(ErrorCode::corrupt, "{}: {}", from, json_words(e.what()));
}

}  // namespace tachy::jobs
