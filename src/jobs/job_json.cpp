#include "jobs/job_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_mistake.h"
#include "base/json_text.h"
#include "jobs/settings_names.h"

namespace tachy::jobs {
namespace {

using nlohmann::json;

// Accepts only a plain name: no folder, and no way out of one.
void expect_name(const std::string& field, const std::string& name) {
  const bool plain = !name.empty() && name != "." && name != ".." && name.find_first_of("/\\") == name.npos &&
                     name.find('\0') == name.npos;
  check(plain, ErrorCode::corrupt, "job: '{}' should be the name of a file without a folder, got {}", field,
        json_line(json(name)));
}

// The members of a JobSpec that are neither settings nor names of files.
template <class Job, class Visit>
void each_member(Job& job, Visit&& visit) {
  visit("named", job.named), visit("drawn", job.drawn), visit("crf", job.crf);
  visit("encode_speed", job.encode_speed), visit("streamed", job.streamed), visit("resume", job.resume);
  visit("private_paths", job.private_paths), visit("state_every", job.state_every);
}

template <class T>
void read(const json& j, const char* key, T& to) {
  if (!j.contains(key)) return;
  try {
    const json& value = j.at(key);
    const bool fits = std::is_same_v<T, bool>          ? value.is_boolean()
                      : std::is_same_v<T, std::string> ? value.is_string()
                      : std::is_same_v<T, int>         ? value.is_number_integer()
                                                       : value.is_number();
    check(fits, ErrorCode::corrupt, "job: '{}' is not of its kind: {}", key, json_line(value));
    to = value.get<T>();
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "job: '{}': {}", key, json_words(e.what()));
  }
}

// Replaces a name from the JSON by its path.
void find_in(std::string& name, const std::string& field, const std::string& sha256, const FindFile& find) {
  expect_name(field, name);
  name = find(field, name, sha256);
}

}  // namespace

json to_json(const JobSpec& job) {
  json out = to_json(without_paths(job.settings));
  json& j = out["job"] = json::object();
  each_member(job, [&](const char* key, const auto& value) { j[key] = value; });
  j["output"] = file_name_of(job.output.string());
  if (!job.preview.empty()) j["preview"] = file_name_of(job.preview);
  if (!job.save_latents.empty()) j["save_latents"] = file_name_of(job.save_latents);
  return out;
}

JobSpec job_of_json(const json& j, const FindFile& find) {
  JobSpec out{
      .settings = naming("job", [&] { return settings_of_json(j, "the job"); }), .from = {}, .output = {}};
  RunSettings& s = out.settings;
  if (!s.model.empty()) find_in(s.model, "model", "", find);
  for (auto& [part, name] : s.parts) find_in(name, part, "", find);
  for (auto& [field, file] : s.inputs) find_in(file.path, field, file.sha256, find);
  for (std::string& lora : s.request.loras) {
    auto [name, rest] = split_lora(lora);
    find_in(name, "loras", "", find);
    lora = name + rest;
  }
  check(j.contains("job") && j.at("job").is_object(), ErrorCode::corrupt, "job: it has no object 'job'");
  const json& own = j.at("job");
  each_member(out, [&](const char* key, auto& value) { read(own, key, value); });
  std::string output;
  const std::pair<const char*, std::string*> names[] = {
      {"output", &output}, {"preview", &out.preview}, {"save_latents", &out.save_latents}};
  for (const auto& [key, name] : names) {
    read(own, key, *name);
    if (!name->empty()) expect_name(key, *name);
  }
  out.output = output;
  return out;
}

}  // namespace tachy::jobs
