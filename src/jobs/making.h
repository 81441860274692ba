// A job that has claimed its output and makes it: the engine's callbacks, the video and the files beside it. Private to
// src/jobs.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "jobs/job_control.h"
#include "jobs/job_sink.h"
#include "jobs/job_spec.h"
#include "jobs/side_files.h"
#include "jobs/sidecar.h"
#include "jobs/state_file.h"
#include "media/sound/sound_reader.h"
#include "media/video/background_writer.h"

namespace tachy::jobs {

class Making {
 public:
  // All of these must outlive this object; the profiler may be null.
  Making(const JobSpec& job, const VideoRequest& filled, StateFile& state,
         const std::filesystem::path& output, JobSink& sink, const JobControl& control, Profiler* profiler);

  bool piped() const { return job_.output == "-"; }
  // Opens all outputs first, so that errors show before hours are spent.
  void open(const nlohmann::json& settings, const Encoding& encoding);
  // Makes the video, and returns how many of its steps were reused. If the run is stopped and its frames are to be
  // kept, the video is finished with those that are there, and `settings` say so.
  int generate(Engine& engine, const PreparedRequest& prepared, const RunState* earlier,
               nlohmann::json& settings);
  int64_t frames() const { return frames_; }  // in the video so far
  // The settings are written last: if they are there, the video is complete. If they are not in the usual
  // place, that is reported.
  void keep(const nlohmann::json& settings);

 private:
  VideoCallbacks callbacks();
  void write(RgbView frame);
  void finish();
  bool keeps_frames() const;
  void finish_early(nlohmann::json& settings);
  void save_state_and_fail(const Error& e);

  const JobSpec& job_;
  const VideoRequest& filled_;
  StateFile& state_;
  const std::filesystem::path output_;
  JobSink& sink_;
  JobControl control_;
  Profiler* profiler_;
  int64_t frames_ = 0;
  SideFiles side_;
  Sound sound_;
  std::optional<SettingsFile> beside_;
  std::optional<BackgroundWriter> writer_;
};

}  // namespace tachy::jobs
