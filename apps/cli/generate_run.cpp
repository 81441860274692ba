// One video from its request to the finished file: resuming, the writer, what the engine calls back, the last
// words.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/env.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/notice.h"
#include "commands.h"
#include "generate_job.h"
#include "interrupt.h"
#include "job_report.h"
#include "job_start.h"
#include "media/background_writer.h"
#include "media/files.h"
#include "media/sound_mix.h"
#include "plan_report.h"
#include "profile_file.h"
#include "progress.h"
#include "settings_environment.h"
#include "side_files.h"
#include "sidecar.h"
#include "status_line.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

constexpr double kLongRunSeconds = 3600;

// diffusers stretches, and so do we; but nobody should find out from the video.
void warn_of_stretching(const VideoRequest& given, int width, int height) {
  for (const Picture* p : {given.image.get(), given.last_image.get()}) {
    if (!p || given.image_fit != "stretch") continue;
    const double shape = double(p->width) / p->height, video = double(width) / height;
    if (std::max(shape / video, video / shape) > 1.05)
      warn(
          "the picture of {}x{} is stretched to {}x{}, as in diffusers; --image-fit crop keeps its "
          "proportions",
          p->width, p->height, width, height);
  }
}

VideoCallbacks make_callbacks(const GenerateOptions& o, BackgroundWriter& writer, ProgressLine& progress,
                              StateFile& state, bool streamed, Profiler* profiler) {
  VideoCallbacks callbacks{.cancel = &g_cancel};
  callbacks.profiler = profiler;
  callbacks.progress = [&progress](const Progress& p) { progress.update(p); };
  callbacks.frame = [&writer, &state](const RgbImage& image, int64_t) {
    const RgbView view{image.rgb.data(), image.width, image.height, int64_t{image.width} * 3};
    writer.write(view);
    state.frame(view);
  };
  if (!o.preview.empty())
    callbacks.preview = [&o](const RgbImage& image, int) {
      write_png(o.preview, {image.rgb.data(), image.width, image.height, int64_t{image.width} * 3},
                preview_comment());
    };
  if (!o.save_latents.empty())
    callbacks.latents = [&o](std::span<const float> values, std::span<const int64_t> shape) {
      write_latents(o.save_latents, values, shape);
    };
  if (streamed) return callbacks;
  callbacks.state = [&state](const RunStateView& view) {
    state.step(view);
    if (!state.saved().empty()) set_cancel_note(state.going_on());
  };
  return callbacks;
}

// What is said, for the video's sound track: as it is in the file (of two speakers the sum), as long as the video.
Sound sound_of(const Job& job, const std::filesystem::path& output, const VideoRequest& filled) {
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

void report_done(const GenerateOptions& o, const std::string& output, const VideoRequest& filled,
                 const json& settings, int64_t steps_reused, double seconds) {
  const std::string reused =
      steps_reused ? fmt::format(", {} of {} steps reused", steps_reused, *filled.steps) : "";
  report(o,
         {{"event", "done"},
          {"output", output},
          {"seconds", seconds},
          {"steps_reused", steps_reused},
          {"settings", settings}},
         fmt::format("{} ({} frames of {}x{}, seed {}, {}{})", output, *filled.frames, *filled.width,
                     *filled.height, filled.seed, human_seconds(seconds), reused));
}

// Where the settings went is said where it is not where one looks first.
void keep_settings(SettingsFile& file, const json& settings) {
  file.write(settings);
  if (file.path() != file.first_name())
    say_line(fmt::format("the settings are in {}, since {} belongs to another file", file.path().string(),
                         file.first_name().string()));
}

}  // namespace

void run_job(Engine& engine, const GenerateOptions& o, const Job& job, const PreparedRequest& prepared,
             std::set<std::filesystem::path>& made) {
  const auto begin = std::chrono::steady_clock::now();
  const VideoPlan& plan = prepared.plan();
  const VideoRequest& filled = prepared.request();
  const bool on_gpu = engine.device() != "cpu";
  if (o.plan) return show_plan(plan, filled, o.json);
  engine.check_memory(plan);
  if (plan.seconds > kLongRunSeconds)
    warn("this run will take about {} on this machine; ctrl-C stops it cleanly", human_seconds(plan.seconds));

  // The settings with every default filled in go into the file, so that the run can be repeated from it.
  RunSettings run = job.settings;
  run.request = filled, run.device = on_gpu ? "cuda" : "cpu";
  json settings = to_json(run);
  add_environment(settings, on_gpu);
  if (!o.from.empty()) warn_of_environment("--from: " + o.from, job.settings.environment, settings);
  const Encoding encoding = naming(
      "--output", [&] { return encoding_of(job.output, o.crf, o.encode_speed, job.settings.encoding); });
  add_encoding(settings, encoding);
  warn_of_stretching(job.settings.request, *filled.width, *filled.height);

  const bool piped = job.output == "-";
  require(!o.resume || (!o.stream && !piped),
          "--resume: a streamed video cannot be continued; leave out --resume");
  naming("--output", [&] { video_format(job.output); });
  const JobStart start = start_job(
      o, job, settings, [&] { return engine.fingerprint(filled.loras); }, made);
  if (start.complete) return;
  const std::filesystem::path& output = start.output.path();
  StateFile& state = *start.state;
  if (job.drawn) report(o, {{"event", "seed"}, {"seed", filled.seed}}, fmt::format("seed {}", filled.seed));
  Watchers watchers(!o.profile.empty(), o.nvtx, on_gpu);

  SideFiles side(output);
  side.latents(o.save_latents), side.preview(o.preview), side.profile(o.profile);
  const Sound sound = sound_of(job, output, filled);
  VideoOptions video{.fps = *filled.fps,
                     .crf = encoding.crf,
                     .comment = line_of(settings),
                     .speed = encoding.speed,
                     .expected_frames = *filled.frames,
                     .streamed = o.stream,
                     .cancel = &g_cancel,
                     .sound = sound.samples,
                     .sound_rate = sound.rate > 0 ? sound.rate : kSpeechRate};
  BackgroundWriter writer(naming("--output",
                                 [&] {  // fails before hours are spent
                                   return VideoWriter::open(output, *filled.width, *filled.height, video);
                                 }),
                          &g_cancel, watchers.all());
  std::optional<SettingsFile> beside;
  if (!piped) check_writable("--output", beside.emplace(output, side.names()).path());
  ProgressLine progress(ProgressLine::choose(o.json, o.quiet));
  const VideoCallbacks callbacks =
      make_callbacks(o, writer, progress, state, o.stream || piped, watchers.all());
  ResolvedRequest done;
  try {
    state.replay(*filled.width, *filled.height, [&](RgbView frame) { writer.write(frame); });
    done = engine.generate(prepared, callbacks, start.earlier ? &*start.earlier : nullptr);
    ProfileRange finishing(callbacks.profiler, "finish file", ProfileKind::output);
    writer.finish();
  } catch (const Error& e) {
    const bool passes =
        e.code() == ErrorCode::cancelled || e.code() == ErrorCode::io || e.code() == ErrorCode::device;
    if (!passes || state.saved().empty() || !state.exists()) throw;
    progress.clear();
    fail(e.code(), "{}{}", e.message(), state.going_on());
  }
  if (beside) keep_settings(*beside, settings), state.remove();
  set_cancel_note("");
  progress.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report_done(o, output.string(), filled, piped ? settings : settings_beside(output, settings),
              done.steps_reused, seconds);
  if (!watchers.profile()) return;
  const ProfileWords words = write_profile(o.profile, *watchers.profile());
  report(o, parse_json_line(words.json), words.text);
}

}  // namespace tachy::cli
