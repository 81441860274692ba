// The fields that a job takes over from the one that it is made from: a remix, an extension, or a queued job
// that is changed.
#include "api/fields.h"
#include "base/sha256.h"
#include "queue/job_folder.h"
#include "web_api/api_error.h"
#include "web_api/fields/field_names.h"
#include "web_api/hosts/pass_on.h"
#include "web_api/submit.h"
#include "web_api/video_object.h"

namespace tachy::web_api {
namespace {

using nlohmann::json;

bool is_file(const json& value) { return value.is_object() && value.contains("sha256"); }

// Returns the caller's spelling of the input with this hash, or "". One file may be given as several fields.
std::string spelt_file(const json& given, const std::string& input, const std::string& sha256) {
  std::string other;
  for (const auto& [spelling, value] : given.items()) {
    if (!is_file(value) || value.at("sha256") != sha256) continue;
    const ApiField* const field = find_api_field(spelling);
    if (field && field->member == input) return spelling;
    other = spelling;
  }
  return other;
}

// Messages about a video that another job was given call it as its caller did.
void call_videos_as_shown(JobRequest& to) {
  VideoRequest& request = to.job.settings.request;
  for (const auto& [field, video] :
       {std::pair{"video", &request.video}, std::pair{"control_video", &request.control_video},
        std::pair{"mask_video", &request.mask_video}}) {
    if (!*video) continue;
    Footage named = **video;
    named.name = to.given.contains(field) ? to.given.at(field).value("file", "") : "";
    if (named.name.empty()) named.name = "the video";
    *video = std::make_shared<const Footage>(std::move(named));
  }
}

}  // namespace

json fields_of_job(const queue::JobRow& row) {
  const json request = stored_object(row.request);
  json fields = json::object();
  for (const auto& [field, value] : request.items())
    if (field != kMadeFrom && !is_file(value)) fields[field] = value;
  const json facts = stored_object(row.facts);
  if (!fields.contains("seed") && facts.contains("seed")) fields["seed"] = facts.at("seed");
  return fields;
}

void add_inputs(JobRequest& to, const std::vector<TakenOver>& inputs) {
  if (inputs.empty()) return;
  Sha256 hash;
  hash.add(to.fingerprint);
  for (const TakenOver& input : inputs) {
    to.job.settings.inputs[input.name] = {input.path.string(), input.sha256};
    if (!input.spelling.empty())
      to.given.emplace(input.spelling, json{{"file", input.shown}, {"sha256", input.sha256}});
    hash.add("\n" + input.name + "=" + input.sha256);
  }
  to.fingerprint = hash.hex();
  jobs::load_inputs(to.job.settings);
  call_videos_as_shown(to);
}

std::filesystem::path input_file(const Service& service, const queue::JobRow& row, const std::string& field) {
  const json given = stored_object(row.request), settings = stored_object(row.settings);
  if (!given.contains(field) || !is_file(given.at(field))) return {};
  for (const RequestInput& input : request_inputs()) {
    const std::string hash_key = std::string(input.name) + "_sha256";
    if (!settings.contains(input.name) || settings.value(hash_key, "") != given.at(field).at("sha256"))
      continue;
    const std::filesystem::path name =
        std::filesystem::path(settings.at(input.name).get<std::string>()).filename();
    return queue::JobFolder(service.files, row.id).inputs() / name;
  }
  return {};
}

void inherit_inputs(Service& service, const queue::JobRow& source, JobRequest& to) {
  const json settings = stored_object(source.settings), given = stored_object(source.request);
  std::vector<TakenOver> inputs;
  for (const RequestInput& input : request_inputs()) {
    const std::string hash_key = std::string(input.name) + "_sha256";
    const bool list = std::string_view(input.name).starts_with("reference_");  // of a list that is given anew
    if (to.dropped.contains(input.name) || (list && to.job.settings.inputs.count("reference"))) continue;
    if (to.job.settings.inputs.count(input.name) || !settings.contains(input.name) ||
        !settings.contains(hash_key))
      continue;
    const std::string sha256 = settings.at(hash_key), name = settings.at(input.name);
    std::filesystem::path path =
        queue::JobFolder(service.files, source.id).inputs() / std::filesystem::path(name).filename();
    const std::string spelling = spelt_file(given, input.name, sha256);
    std::error_code ignored;
    if (service.pass_on && service.pass_on->elsewhere(source))
      path = service.pass_on->file(source, "inputs/" + path.filename().string(), {.key = "", .admin = true});
    if (!std::filesystem::is_regular_file(path, ignored))
      throw ApiError("expired", "an input of the earlier video is gone", spelling);
    const std::string shown = spelling.empty() ? name : given.at(spelling).value("file", name);
    inputs.push_back({input.name, path, sha256, spelling, shown});
  }
  add_inputs(to, inputs);
}

}  // namespace tachy::web_api
