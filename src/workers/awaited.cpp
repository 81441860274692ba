#include "workers/awaited.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"
#include "jobs/settings.h"
#include "media/files.h"
#include "workers/after_run.h"
#include "workers/derived_files.h"
#include "workers/foreman_state.h"
#include "workers/job_of_row.h"

namespace tachy::workers {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Writes a picture of the video into the folder of inputs, under a name like that of any other input.
fs::path place_picture(const fs::path& video, int64_t frame, const queue::JobFolder& folder) {
  const fs::path made = folder.inputs() / "image.png";
  write_frame(video, frame, made, {});
  const fs::path named = folder.inputs() / ("image-" + jobs::sha256_of(made.string(), "image").substr(0, 16));
  std::error_code error;
  fs::rename(made, named, error);
  check(!error, ErrorCode::io, "an input cannot be named: {}", error.message());
  sync_folder(folder.inputs());
  return named;
}

// The names of the parts are in the settings, in the order of the videos in the request.
void place_parts(const json& settings, const json& request, const queue::JobFolder& folder,
                 const std::function<fs::path(const std::string& id)>& video_of) {
  const json &parts = settings.at("join"), &videos = request.at("videos");
  for (size_t i = 0; i < parts.size(); ++i) {
    const json &part = parts.at(i), &video = videos.at(i);
    const fs::path to =
        folder.inputs() / fs::path((part.is_object() ? part.at("file") : part).get<std::string>()).filename();
    const fs::path from = video_of((video.is_object() ? video.at("id") : video).get<std::string>());
    std::error_code ignored;
    if (!from.empty() && !fs::exists(to, ignored)) queue::share_file(from, to);
  }
  sync_folder(folder.inputs());
}

}  // namespace

std::string lost_source(const std::string& id, const queue::JobRow* source) {
  if (!source) return fmt::format("the video {} that this one is made from was removed", id);
  if (source->status != queue::Status::failed) return "";
  if (source->error.code == "source_failed") return source->error.message;  // it waited itself
  if (source->error.code == "cancelled")
    return fmt::format("the video {} that this one is made from was cancelled", id);
  return fmt::format("the video {} that this one is made from has failed: {}", id, source->error.message);
}

queue::Change released(const queue::JobRow& row, const queue::JobFolder& folder,
                       const std::vector<queue::JobRow>& sources,
                       const std::function<fs::path(const queue::JobRow&)>& video_of) try {
  json request = parse_json_text(row.request, row.id), settings = parse_json_text(row.settings, row.id);
  const auto file_of = [&](const std::string& id) {
    const auto source = std::ranges::find(sources, id, &queue::JobRow::id);
    return source == sources.end() ? fs::path() : video_of(*source);  // others were there from the beginning
  };
  std::error_code error;
  fs::create_directories(folder.inputs(), error);
  check(!error, ErrorCode::io, "the job's folder cannot be made: {}", error.message());
  json& from = request.at(queue::kMadeFrom);
  if (row.kind == "join") {
    place_parts(settings, request, folder, file_of);
  } else {
    const int64_t frame = from.value("from_frame", int64_t{-1});
    const fs::path picture = place_picture(file_of(from.at("extension").get<std::string>()), frame, folder);
    const std::string sha256 = jobs::sha256_of(picture.string(), "image");
    settings["image"] = picture.filename().string(), settings["image_sha256"] = sha256;
    const std::string shown = frame < 0 ? "last-picture.png" : fmt::format("frame-{}.png", frame);
    request["input_reference"] = {{"file", shown}, {"sha256", sha256}};
  }
  from.erase("awaited");
  if (from.empty()) request.erase(queue::kMadeFrom);
  return {.request = json_line(request),
          .settings = json_line(settings),
          .awaits = "",
          .expect = [before = row.request](const queue::JobRow& now) {
            check(now.request == before, ErrorCode::cancelled, "somebody has changed the job meanwhile");
          }};
} catch (const json::exception& e) {
  fail(ErrorCode::corrupt, "{}: {}", row.id, e.what());
}

// Says whether this host gives the job its inputs: the worker that has its folder, or any one if there is none.
bool Foreman::State::releases(const queue::WaitingJob& job) const {
  if (!options.presence || job.files == options.files_id) return true;
  return std::ranges::none_of(options.presence->with_files(job.files),
                              [](const Host& host) { return host.row.alive && host.about.takes_jobs(); });
}

// Lets those begin that wait for nothing any more, and ends those whose videos will never come. An end may be the end
// of others, so it looks again after each.
void Foreman::State::release() {
  if (!release_again.exchange(false) && table.version() == released_version) return;
  uint64_t version = 0;
  for (bool again = true; again;) {
    version = table.version(), again = false;
    const std::vector<queue::WaitingJob> jobs = turns.awaiting();
    std::set<std::string> waiting;
    for (const queue::WaitingJob& job : jobs) waiting.insert(job.id);
    for (const queue::WaitingJob& job : jobs) again |= look_at_sources(job, waiting);
  }
  released_version = version;  // what has changed since has raised it
}

bool Foreman::State::look_at_sources(const queue::WaitingJob& job, const std::set<std::string>& waiting) {
  std::vector<queue::JobRow> sources;
  const std::vector<std::string> ids = queue::awaited_ids(job.awaits);
  for (const std::string& id : ids) {
    if (waiting.contains(id)) continue;  // it waits itself
    std::optional<queue::JobRow> source = table.find(id);
    if (const std::string lost = lost_source(id, source ? &*source : nullptr); !lost.empty())
      return give_up(job.id, {"source_failed", lost});
    if (source->status == queue::Status::completed) sources.push_back(std::move(*source));
  }
  if (sources.size() == ids.size() && releases(job))
    if (!errands->want(job.id, [this, id = job.id, sources = std::move(sources)] {
          if (release_if_possible(id, sources))
            bell->ring();
          else
            release_again = true;  // at the next look, which comes by itself
        }))
      release_again = true;  // the one that is under way may know an older row
  return false;
}

bool Foreman::State::release_if_possible(const std::string& id,
                                         const std::vector<queue::JobRow>& sources) try {
  return release(id, sources);
} catch (const std::exception& e) {  // a disk that is full for a while, say
  warn("{} cannot begin yet, which is tried again: {}", id, e.what());
  return false;
}

// It may have ended or been edited meanwhile, and then the next look takes it as it is.
bool Foreman::State::release(const std::string& id, const std::vector<queue::JobRow>& sources) {
  const std::optional<queue::JobRow> row = table.find(id);
  if (!row || row->status != queue::Status::queued || row->awaits.empty()) return true;
  const queue::JobFolder folder(options.files, id);
  bool away = false;
  const auto video_of = [&](const queue::JobRow& source) {
    if (source.files == options.files_id || !options.fetch_video)
      return queue::JobFolder(options.files, source.id).video();
    const fs::path video = options.fetch_video(source);
    away |= video.empty();
    check(!away, ErrorCode::io, "its host does not answer");
    return video;
  };
  queue::Change change;
  try {
    change = released(*row, folder, sources, video_of);
  } catch (const Error& e) {
    if (away) return false;
    return give_up(
        id, job_error(e.code(), "the video that this one is made from cannot be read: " + e.message(), folder,
                      nullptr, options.loras));
  }
  try {
    table.change(id, change);
    return true;
  } catch (const Error& e) {
    if (e.code() == ErrorCode::cancelled) return false;
    throw;
  }
}

bool Foreman::State::give_up(const std::string& id, const queue::JobError& error) {
  std::optional<queue::JobRow> row = table.find(id);
  if (!row || row->status != queue::Status::queued) return false;
  row->status = queue::Status::failed, row->error = error, row->ended_ms = table.now_ms();
  const auto message = options.message ? options.message(*row) : std::nullopt;
  const std::optional<queue::JobRow> ended = table.fail_queued(id, error, message);
  if (ended) tell_end(book, *ended);
  return ended.has_value();
}

}  // namespace tachy::workers
