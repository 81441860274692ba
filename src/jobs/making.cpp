#include "jobs/making.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json_text.h"
#include "base/log.h"
#include "base/profile_range.h"
#include "media/files.h"
#include "media/sound/sound_mix.h"
#include "media/video/shorten.h"

namespace tachy::jobs {
namespace {

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

RgbView view_of(const RgbImage& image) {
  return {image.rgb.data(), image.width, image.height, int64_t{image.width} * 3};
}

}  // namespace

Making::Making(const JobSpec& job, const VideoRequest& filled, StateFile& state,
               const std::filesystem::path& output, JobSink& sink, const JobControl& control,
               Profiler* profiler)
    : job_(job),
      filled_(filled),
      state_(state),
      output_(output),
      sink_(sink),
      control_(control),
      profiler_(profiler),
      side_(output) {
  if (control.saves_last_step) state_.keep_last_step();
  side_.latents(job.save_latents), side_.preview(job.preview), side_.profile(job.profile);
}

void Making::open(const nlohmann::json& settings, const Encoding& encoding) {
  sound_ = sound_of(job_, output_, filled_);
  const VideoOptions video{.fps = *filled_.fps,
                           .crf = encoding.crf,
                           .comment = json_line(settings),
                           .speed = encoding.speed,
                           .expected_frames = *filled_.frames,
                           .streamed = job_.streamed,
                           .cancel = control_.of_writing(),
                           .sound = sound_.samples,
                           .sound_rate = sound_.rate > 0 ? sound_.rate : kSpeechRate};
  writer_.emplace(
      naming("`output`", [&] { return VideoWriter::open(output_, *filled_.width, *filled_.height, video); }),
      control_.of_writing(), profiler_);
  if (!piped()) check_writable("`output`", beside_.emplace(output_, side_.names()).path());
}

int Making::generate(Engine& engine, const PreparedRequest& prepared, const RunState* earlier,
                     nlohmann::json& settings) try {
  state_.replay(*filled_.width, *filled_.height, [&](RgbView frame) { write(frame); });
  const ResolvedRequest run = engine.generate(prepared, callbacks(), earlier);
  sink_.ran(run);
  finish();
  return run.steps_reused;
} catch (const Error& e) {
  if (e.code() == ErrorCode::cancelled) sink_.left_device();
  if (e.code() == ErrorCode::cancelled && keeps_frames()) return finish_early(settings), 0;
  save_state_and_fail(e);
  throw;
}

void Making::keep(const nlohmann::json& settings) {
  if (!beside_) return;
  beside_->write(settings);
  if (beside_->path() != beside_->first_name())
    sink_.notice(fmt::format("the settings are in {}, since {} belongs to another file",
                             beside_->path().string(), beside_->first_name().string()));
  state_.remove();
}

void Making::write(RgbView frame) {
  writer_->write(frame);
  ++frames_;
}

void Making::finish() {
  sink_.finishing();
  const ProfileRange finishing(profiler_, "finish file", ProfileKind::output);
  writer_->finish();
  sink_.encoded(writer_->encoding_seconds());
}

bool Making::keeps_frames() const {
  if (!control_.keeps() || frames_ == 0 || piped() || job_.streamed) return false;
  const VideoFormat format = video_format(output_);
  return format == VideoFormat::mp4 || format == VideoFormat::webm;
}

void Making::finish_early(nlohmann::json& settings) {
  finish();
  if (frames_ == *filled_.frames) return;
  settings[kFramesKept] = frames_;
  shorten_video(output_, static_cast<double>(frames_) / *filled_.fps, json_line(settings));
}

// Returns if the message needs no words about the state.
void Making::save_state_and_fail(const Error& e) {
  state_.settle();
  const bool stopped = e.code() == ErrorCode::cancelled || e.code() == ErrorCode::device;
  if (stopped) state_.interrupted();
  if (!(stopped || e.code() == ErrorCode::io) || state_.saved().empty() || !state_.exists()) return;
  sink_.end_of_progress();
  fail(e.code(), "{}{}", e.message(), state_.going_on());
}

VideoCallbacks Making::callbacks() {
  VideoCallbacks callbacks{.cancel = control_.cancel, .hold = control_.hold};
  callbacks.profiler = profiler_;
  callbacks.progress = [this](const Progress& p) { sink_.progress(p); };
  callbacks.frame = [this](const RgbImage& image, int64_t) {
    const RgbView view = view_of(image);
    write(view);
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
  const auto tell = [this] {
    if (!state_.saved().empty()) sink_.can_go_on(state_.going_on());
  };
  callbacks.wants_state = [this, tell](const RunPlace& place) {
    const bool wanted = state_.wants(place);
    tell();
    return wanted;
  };
  callbacks.state = [this, tell](const RunStateView& view) {
    state_.step(view);
    tell();
  };
  return callbacks;
}

}  // namespace tachy::jobs
