#include "jobs/job_runner.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/env.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/notice.h"
#include "jobs/job_start.h"
#include "jobs/making.h"
#include "jobs/settings_environment.h"
#include "jobs/settings_names.h"

namespace tachy::jobs {
namespace {

using nlohmann::json;

// diffusers stretches pictures, and so do we; but the video should not be the first to tell the user.
void warn_of_stretching(const VideoRequest& given, int width, int height) {
  for (const Picture* p : {given.image.get(), given.last_image.get()}) {
    if (!p || given.image_fit != "stretch") continue;
    const double shape = double(p->width) / p->height, video = double(width) / height;
    if (std::max(shape / video, video / shape) > 1.05)
      warn(
          "the picture of {}x{} is stretched to {}x{}, as in diffusers; `image_fit` crop keeps its "
          "proportions",
          p->width, p->height, width, height);
  }
}

// Says whether the job's model is the one that a run takes which names none.
bool is_shipped(RunSettings run) {
  std::error_code ec;
  const std::filesystem::path model = run.model;
  run.model.clear();
  try {
    return std::filesystem::equivalent(model, model_path(run), ec);
  } catch (const Error&) {
    return false;  // there is none
  }
}

// Returns the settings with every default filled in, for the video and the file beside it: they suffice to
// repeat the run.
json settings_of(const JobSpec& job, const PreparedRequest& prepared, const Encoding& encoding,
                 const Engine& engine) {
  const VideoRequest& filled = prepared.request();
  const bool on_gpu = engine.device() != "cpu";
  RunSettings run = job.settings;
  run.request = filled, run.device = on_gpu ? "cuda" : "cpu";
  const Parallel& parallel = prepared.plan().parallel;
  const std::string earlier = std::exchange(run.parallel, prepared.plan().equal_bits ? "" : parallel.text());
  if (!job.from.empty() && earlier != run.parallel)
    warn("`from`: {} was made with `parallel` {}, and this run has {}: the frames differ in their last bits",
         job.from, earlier.empty() ? "auto" : earlier, run.parallel.empty() ? "auto" : run.parallel);
  if (job.private_paths && is_shipped(run)) run.model.clear();
  json settings = to_json(job.private_paths ? without_paths(run) : run);
  add_environment(settings, on_gpu);
  if (job.private_paths) {
    remove_paths_of_environment(settings);
    settings[kFingerprint] = engine.fingerprint(filled.loras);
  }
  if (!job.from.empty()) warn_of_environment("`from`: " + job.from, job.settings.environment, settings);
  add_encoding(settings, encoding);
  return settings;
}

void tell_done(JobSink& sink, const std::string& output, const VideoRequest& filled, const json& settings,
               int64_t frames, int64_t steps_reused, double seconds) {
  const std::string reused =
      steps_reused ? fmt::format(", {} of {} steps reused", steps_reused, *filled.steps) : "";
  sink.event({{"event", "done"},
              {"output", output},
              {"frames", frames},
              {"seconds", seconds},
              {"steps_reused", steps_reused},
              {"settings", settings}},
             fmt::format("{} ({} of {}x{}, seed {}, {}{})", output, count_of(frames, "frame"), *filled.width,
                         *filled.height, filled.seed, human_seconds(seconds), reused));
}

}  // namespace

PreparedRequest JobRunner::prepare(const JobSpec& job) {
  const LineScope lines(to_sink(sink_));
  // A job that is to end with the frames of an earlier run may be cancelled already.
  return engine_.prepare(job.settings.request, control_.keeps() ? nullptr : control_.cancel);
}

bool JobRunner::run(const JobSpec& job, const PreparedRequest& prepared, Profiler* profiler) {
  const LineScope lines(to_sink(sink_));
  const auto begin = std::chrono::steady_clock::now();
  const VideoRequest& filled = prepared.request();
  engine_.check_memory(prepared.plan());
  const Encoding encoding = naming(
      "`output`", [&] { return encoding_of(job.output, job.crf, job.encode_speed, job.settings.encoding); });
  json settings = settings_of(job, prepared, encoding, engine_);
  warn_of_stretching(job.settings.request, *filled.width, *filled.height);
  require(!job.resume || (!job.streamed && job.output != "-"),
          "`resume`: a streamed video cannot be continued; leave out `resume`");
  naming("`output`", [&] { video_format(job.output); });

  const JobStart start = store_.begin(
      job, settings, [&] { return engine_.fingerprint(filled.loras); }, sink_);
  if (start.complete) return false;
  const std::filesystem::path& output = start.output.path();
  if (job.drawn) sink_.event({{"event", "seed"}, {"seed", filled.seed}}, fmt::format("seed {}", filled.seed));

  Making making(job, filled, *start.state, output, sink_, control_, profiler);
  making.open(settings, encoding);
  const int reused = making.generate(engine_, prepared, start.earlier ? &*start.earlier : nullptr, settings);
  making.keep(settings);
  sink_.can_go_on("");
  sink_.end_of_progress();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  tell_done(sink_, output.string(), filled, making.piped() ? settings : settings_beside(output, settings),
            making.frames(), reused, seconds);
  return true;
}

}  // namespace tachy::jobs
