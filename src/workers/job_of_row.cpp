#include "workers/job_of_row.h"

#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/full_disk.h"
#include "base/json_text.h"
#include "jobs/job_json.h"
#include "jobs/sidecar.h"
#include "jobs/state_file.h"

namespace tachy::workers {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The least seconds between two states. A run spends a twentieth of its time on them at most
// (jobs/state_file.h).
constexpr double kStateEvery = 1;

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// Messages of a run say nothing about the server's folders.
void call_videos_by_names(VideoRequest& request) {
  for (auto* video : {&request.video, &request.control_video, &request.mask_video}) {
    if (!*video) continue;
    Footage named = **video;
    named.name = fs::path(named.path).filename().string();
    *video = std::make_shared<const Footage>(std::move(named));
  }
}

std::string code_of(ErrorCode code, const std::string& message) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_value";
    case ErrorCode::numerical:
      return "nan";
    case ErrorCode::io:
      return says_full(message) ? "disk_full" : "io_error";
    case ErrorCode::device:
      return "device_error";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      break;
  }
  return "internal_error";
}

}  // namespace

jobs::JobSpec job_of_row(const queue::JobRow& row, const queue::JobFolder& folder, const ServedModel& model,
                         const fs::path& loras) {
  const auto find = [&](const std::string& field, const std::string& name,
                        const std::string&) -> std::string {
    if (field == "model") return model.path.string();
    if (field == "loras") return (loras / name).string();
    return (folder.inputs() / name).string();
  };
  jobs::JobSpec job = jobs::job_of_json(parse_json_text(row.settings, row.id), find);
  job.settings.model = model.path.string();
  job.output = folder.video();
  job.named = true, job.resume = true, job.streamed = false, job.drawn = false;
  job.private_paths = true;
  job.state_every = kStateEvery;
  job.preview.clear(), job.save_latents.clear();
  jobs::load_inputs(job.settings);
  call_videos_by_names(job.settings.request);
  return job;
}

std::vector<std::string> input_names(const queue::JobRow& row) {
  const json settings = parsed_or_discarded(row.settings);
  std::vector<std::string> names;
  const auto add = [&](const json& name) {
    const std::string text = name.is_string() ? name.get<std::string>() : "";
    if (!text.empty() && text.find_first_of("/\\") == text.npos && text.front() != '.') names.push_back(text);
  };
  if (!settings.is_object()) return names;
  for (const RequestInput& input : request_inputs())
    if (settings.contains(input.name) && settings.contains(std::string(input.name) + "_sha256"))
      add(settings.at(input.name));
  if (settings.contains("join") && settings.at("join").is_array())
    for (const json& part : settings.at("join")) add(part.is_object() ? part.value("file", json()) : part);
  return names;
}

std::string facts_of(const VideoRequest& filled, const fs::path& video) {
  json settings = jobs::finished_settings(video);
  int64_t frames = *filled.frames;
  if (settings.is_object() && settings.contains("frames_kept") && settings["frames_kept"].is_number_integer())
    frames = settings["frames_kept"].get<int64_t>();
  std::error_code ec;
  const uintmax_t bytes = fs::file_size(video, ec);
  const json facts = {{"size", fmt::format("{}x{}", *filled.width, *filled.height)},
                      {"width", *filled.width},
                      {"height", *filled.height},
                      {"frames", frames},
                      {"fps", *filled.fps},
                      {"seconds", fmt::format("{:.2f}", static_cast<double>(frames) / *filled.fps)},
                      {"seed", filled.seed},
                      {"bytes", ec ? 0 : bytes}};
  return json_line(facts);
}

uint64_t bytes_of_folder(const fs::path& folder) {
  uint64_t total = 0;
  std::error_code ec;
  for (fs::recursive_directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code of_file;
    if (!it->is_regular_file(of_file)) continue;
    const uintmax_t bytes = it->file_size(of_file);
    if (!of_file) total += bytes;
  }
  return total;
}

void remove_states(const queue::JobFolder& folder) {
  std::error_code ec;
  fs::remove(jobs::StateFile::path_of(folder.video()), ec);
  fs::remove_all(folder.video().string() + ".windows", ec);
}

queue::JobError job_error(ErrorCode code, std::string message, const queue::JobFolder& folder,
                          const ServedModel* model, const fs::path& loras) {
  const auto without_folder = [&](const fs::path& path) {
    if (path.has_relative_path()) replace_all(message, path.string() + "/", "");
  };
  without_folder(folder.path);
  replace_all(message, folder.path.string(), folder.path.filename().string());
  if (model) {
    replace_all(message, model->path.string(), model->name);
    without_folder(model->path.parent_path());
  }
  without_folder(loras);
  without_folder(folder.path.parent_path().parent_path());
  return {code_of(code, message), std::move(message)};
}

}  // namespace tachy::workers
