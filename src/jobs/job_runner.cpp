#include "jobs/job_runner.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/env.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/notice.h"
#include "base/profile_range.h"
#include "jobs/job_start.h"
#include "jobs/settings_environment.h"
#include "jobs/side_files.h"
#include "jobs/sidecar.h"
#include "media/files.h"
#include "media/sound/sound_mix.h"
#include "media/video/background_writer.h"

namespace tachy::jobs {
namespace {

namespace fs = std::filesystem;
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

// Returns the video's sound track: the speech as it is in the file (the sum of two speakers), and as long as
// the video.
Sound sound_of(const JobSpec& job, const std::filesystem::path& output, const VideoRequest& filled) {
  if (!filled.speech) return {};
  const VideoFormat format = video_format(output);
  if (format != VideoFormat::mp4 && format != VideoFormat::webm) {
    warn("{} has no sound, since only mp4 and webm can hold it", output.string());
    return {};
  }
  const auto& files = job.settings.inputs;
  Sound sound = read_sound(files.at("speech").path);
  if (filled.speech_2)
    sound = mixed(sound, read_sound(files.at("speech_2").path), *filled.speakers == "one-after-the-other");
  const auto most = static_cast<size_t>(std::ceil(*filled.frames / *filled.fps * sound.rate));
  if (sound.samples.size() > most) sound.samples.resize(most);
  return sound;
}

// Returns the settings with every default filled in, for the video and the file beside it: they suffice to
// repeat the run.
json settings_of(const JobSpec& job, const VideoRequest& filled, const Encoding& encoding, bool on_gpu) {
  RunSettings run = job.settings;
  run.request = filled, run.device = on_gpu ? "cuda" : "cpu";
  json settings = to_json(run);
  add_environment(settings, on_gpu);
  if (!job.from.empty()) warn_of_environment("`from`: " + job.from, job.settings.environment, settings);
  add_encoding(settings, encoding);
  return settings;
}

// A job that has claimed its output and writes it.
class Making {
 public:
  Making(const JobSpec& job, const VideoRequest& filled, StateFile& state, const fs::path& output,
         JobSink& sink, const std::atomic<bool>* cancel, Profiler* profiler)
      : job_(job),
        filled_(filled),
        state_(state),
        output_(output),
        sink_(sink),
        cancel_(cancel),
        profiler_(profiler),
        side_(output) {
    side_.latents(job.save_latents), side_.preview(job.preview), side_.profile(job.profile);
  }

  bool piped() const { return job_.output == "-"; }

  // Opens all outputs first, so that errors show before hours are spent.
  void open(const json& settings, const Encoding& encoding) {
    sound_ = sound_of(job_, output_, filled_);
    const VideoOptions video{.fps = *filled_.fps,
                             .crf = encoding.crf,
                             .comment = json_line(settings),
                             .speed = encoding.speed,
                             .expected_frames = *filled_.frames,
                             .streamed = job_.streamed,
                             .cancel = cancel_,
                             .sound = sound_.samples,
                             .sound_rate = sound_.rate > 0 ? sound_.rate : kSpeechRate};
    writer_.emplace(
        naming("`output`",
               [&] { return VideoWriter::open(output_, *filled_.width, *filled_.height, video); }),
        cancel_, profiler_);
    if (!piped()) check_writable("`output`", beside_.emplace(output_, side_.names()).path());
  }

  ResolvedRequest generate(Engine& engine, const PreparedRequest& prepared, const RunState* earlier) {
    try {
      state_.replay(*filled_.width, *filled_.height, [&](RgbView frame) { writer_->write(frame); });
      ResolvedRequest done = engine.generate(prepared, callbacks(), earlier);
      ProfileRange finishing(profiler_, "finish file", ProfileKind::output);
      writer_->finish();
      return done;
    } catch (const Error& e) {
      const bool passes =
          e.code() == ErrorCode::cancelled || e.code() == ErrorCode::io || e.code() == ErrorCode::device;
      if (!passes || state_.saved().empty() || !state_.exists()) throw;
      sink_.end_of_progress();
      fail(e.code(), "{}{}", e.message(), state_.going_on());
    }
  }

  // The settings are written last: if they are there, the video is complete. If they are not in the usual
  // place, that is reported.
  void keep(const json& settings) {
    if (!beside_) return;
    beside_->write(settings);
    if (beside_->path() != beside_->first_name())
      sink_.notice(fmt::format("the settings are in {}, since {} belongs to another file",
                               beside_->path().string(), beside_->first_name().string()));
    state_.remove();
  }

 private:
  VideoCallbacks callbacks() {
    VideoCallbacks callbacks{.cancel = cancel_};
    callbacks.profiler = profiler_;
    callbacks.progress = [this](const Progress& p) { sink_.progress(p); };
    callbacks.frame = [this](const RgbImage& image, int64_t) {
      const RgbView view = view_of(image);
      writer_->write(view);
      state_.frame(view);
    };
    if (!job_.preview.empty() || sink_.wants_previews())
      callbacks.preview = [this](const RgbImage& image, int step) {
        if (!job_.preview.empty()) write_png(job_.preview, view_of(image), preview_comment());
        if (sink_.wants_previews()) sink_.preview(image, step);
      };
    if (!job_.save_latents.empty())
      callbacks.latents = [this](std::span<const float> values, std::span<const int64_t> shape) {
        write_latents(job_.save_latents, values, shape);
      };
    if (job_.streamed || piped()) return callbacks;
    callbacks.state = [this](const RunStateView& view) {
      state_.step(view);
      if (!state_.saved().empty()) sink_.can_go_on(state_.going_on());
    };
    return callbacks;
  }
  static RgbView view_of(const RgbImage& image) {
    return {image.rgb.data(), image.width, image.height, int64_t{image.width} * 3};
  }

  const JobSpec& job_;
  const VideoRequest& filled_;
  StateFile& state_;
  const fs::path output_;
  JobSink& sink_;
  const std::atomic<bool>* cancel_;
  Profiler* profiler_;
  SideFiles side_;
  Sound sound_;
  std::optional<SettingsFile> beside_;
  std::optional<BackgroundWriter> writer_;
};

void tell_done(JobSink& sink, const std::string& output, const VideoRequest& filled, const json& settings,
               int64_t steps_reused, double seconds) {
  const std::string reused =
      steps_reused ? fmt::format(", {} of {} steps reused", steps_reused, *filled.steps) : "";
  sink.event({{"event", "done"},
              {"output", output},
              {"seconds", seconds},
              {"steps_reused", steps_reused},
              {"settings", settings}},
             fmt::format("{} ({} frames of {}x{}, seed {}, {}{})", output, *filled.frames, *filled.width,
                         *filled.height, filled.seed, human_seconds(seconds), reused));
}

}  // namespace

PreparedRequest JobRunner::prepare(const JobSpec& job) {
  const LineScope lines(to_sink(sink_));
  return engine_.prepare(job.settings.request);
}

bool JobRunner::run(const JobSpec& job, const PreparedRequest& prepared, Profiler* profiler) {
  const LineScope lines(to_sink(sink_));
  const auto begin = std::chrono::steady_clock::now();
  const VideoRequest& filled = prepared.request();
  engine_.check_memory(prepared.plan());
  const Encoding encoding = naming(
      "`output`", [&] { return encoding_of(job.output, job.crf, job.encode_speed, job.settings.encoding); });
  const json settings = settings_of(job, filled, encoding, engine_.device() != "cpu");
  warn_of_stretching(job.settings.request, *filled.width, *filled.height);
  require(!job.resume || (!job.streamed && job.output != "-"),
          "`resume`: a streamed video cannot be continued; leave out `resume`");
  naming("`output`", [&] { video_format(job.output); });

  const JobStart start = store_.begin(
      job, settings, [&] { return engine_.fingerprint(filled.loras); }, sink_);
  if (start.complete) return false;
  const fs::path& output = start.output.path();
  if (job.drawn) sink_.event({{"event", "seed"}, {"seed", filled.seed}}, fmt::format("seed {}", filled.seed));

  Making making(job, filled, *start.state, output, sink_, cancel_, profiler);
  making.open(settings, encoding);
  const ResolvedRequest done = making.generate(engine_, prepared, start.earlier ? &*start.earlier : nullptr);
  making.keep(settings);
  sink_.can_go_on("");
  sink_.end_of_progress();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  tell_done(sink_, output.string(), filled, making.piped() ? settings : settings_beside(output, settings),
            done.steps_reused, seconds);
  return true;
}

}  // namespace tachy::jobs
