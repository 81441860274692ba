// One video from its request to the finished file: resuming, the writer, what the engine calls back, the last
// words.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/env.h"
#include "base/log.h"
#include "base/notice.h"
#include "commands.h"
#include "generate_job.h"
#include "interrupt.h"
#include "media/background_writer.h"
#include "media/files.h"
#include "media/sound_mix.h"
#include "plan_report.h"
#include "profile_file.h"
#include "progress.h"
#include "state_file.h"
#include "status_line.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

constexpr double kLongRunSeconds = 3600;

// A line about the run: JSON with --json, nothing with --quiet.
void report(const GenerateOptions& o, const json& event, const std::string& text) {
  std::FILE* const to = o.output == "-" ? stderr : stdout;
  if (o.json)
    fmt::print(to, "{}\n", event.dump());
  else if (!o.quiet)
    fmt::print(to, "{}\n", text);
  std::fflush(to);
}

// diffusers stretches, and so do we; but nobody should find out from the video.
void warn_of_stretching(const VideoRequest& given, int width, int height) {
  for (const Picture* p : {given.image.get(), given.last_image.get()}) {
    if (!p || given.image_fit != "stretch") continue;
    const double shape = double(p->width) / p->height, video = double(width) / height;
    if (std::max(shape / video, video / shape) > 1.05)
      warn(
          "the picture of {}x{} is stretched to {}x{}, as diffusers does it; --image-fit crop keeps its "
          "shape",
          p->width, p->height, width, height);
  }
}

// What is added to the word that the run was stopped.
std::string going_on(const StateFile& state) {
  return fmt::format(" ({} is saved: the same command with --resume goes on from there)", state.saved());
}

// What there is of an earlier run of this output.
struct Earlier {
  std::optional<RunState> state;  // to go on from
  bool complete = false;          // nothing is left to do
};
Earlier find_earlier(const GenerateOptions& o, const Job& job, const json& settings, StateFile& state) {
  set_cancel_note("");
  if (!o.resume) {
    if (state.exists())
      warn("{} is of an interrupted run, which --resume would go on with; this run begins anew",
           state.path().string());
    return {};
  }
  Earlier found{.state = state.load()};
  if (found.state) set_cancel_note(going_on(state));
  if (!found.state && is_complete(job.output, settings)) {
    state.remove();  // a process may have died before it did
    report(o, {{"event", "complete"}, {"output", job.output.string()}},
           fmt::format("{} is complete already", job.output.string()));
    return {.complete = true};
  }
  json event = {{"event", "resume"}, {"step", found.state ? found.state->step : 0}};
  if (found.state && found.state->windows > 1)
    event["window"] = found.state->window + 1, event["windows"] = found.state->windows;
  report(o, event,
         found.state ? fmt::format("going on after {} ({})", state.saved(), state.path().string())
                     : fmt::format("nothing to resume at {}: beginning anew", state.path().string()));
  return found;
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
      write_png(o.preview, {image.rgb.data(), image.width, image.height, int64_t{image.width} * 3});
    };
  if (!o.save_latents.empty())
    callbacks.latents = [&o](std::span<const float> values, std::span<const int64_t> shape) {
      write_latents(o.save_latents, values, shape);
    };
  if (streamed) return callbacks;
  callbacks.state = [&state](const RunStateView& view) {
    state.step(view);
    if (!state.saved().empty()) set_cancel_note(going_on(state));
  };
  return callbacks;
}

// What is said, for the video's sound track: as it is in the file (of two speakers the sum), as long as the video.
Sound sound_of(const Job& job, const VideoRequest& filled) {
  if (!filled.speech) return {};
  const VideoFormat format = video_format(job.output);
  if (format != VideoFormat::mp4 && format != VideoFormat::webm) {
    warn("{} has no sound: only mp4 and webm do", job.output.string());
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

void report_done(const GenerateOptions& o, const Job& job, const VideoRequest& filled, const json& settings,
                 int64_t steps_reused, double seconds) {
  const std::string reused =
      steps_reused ? fmt::format(", {} of {} steps reused", steps_reused, *filled.steps) : "";
  report(o,
         {{"event", "done"},
          {"output", job.output.string()},
          {"seconds", seconds},
          {"steps_reused", steps_reused},
          {"settings", settings}},
         fmt::format("{} ({} frames of {}x{}, seed {}, {}{})", job.output.string(), *filled.frames,
                     *filled.width, *filled.height, filled.seed, human_seconds(seconds), reused));
}

}  // namespace

void run_job(Engine& engine, const GenerateOptions& o, const Job& job, const PreparedRequest& prepared) {
  const auto start = std::chrono::steady_clock::now();
  const VideoPlan& plan = prepared.plan();
  const VideoRequest& filled = prepared.request();
  if (o.plan) return show_plan(plan, filled, o.json);
  engine.check_memory(plan);
  if (plan.seconds > kLongRunSeconds)
    warn("this run will take about {} on this machine; ctrl-C stops it cleanly", human_seconds(plan.seconds));

  // The settings with every default filled in go into the file, so that the run can be repeated from it.
  RunSettings run = job.settings;
  run.request = filled, run.device = engine.device() == "cpu" ? "cpu" : "cuda";
  const json settings = to_json(run);
  warn_of_stretching(job.settings.request, *filled.width, *filled.height);

  require(!o.resume || (!o.stream && job.output != "-"),
          "--resume: what was streamed cannot be gone on with");
  StateFile state(job.output, settings, o.state_every, [&] { return engine.fingerprint(filled.loras); });
  const Earlier earlier = find_earlier(o, job, settings, state);
  if (earlier.complete) return;
  std::optional<RunProfiler> profiler;
  if (!o.profile.empty()) profiler.emplace();

  const Sound sound = sound_of(job, filled);
  VideoOptions video{.fps = *filled.fps,
                     .crf = o.crf,
                     .comment = settings.dump(),
                     .speed = o.encode_speed,
                     .expected_frames = *filled.frames,
                     .streamed = o.stream,
                     .cancel = &g_cancel,
                     .sound = sound.samples,
                     .sound_rate = sound.rate > 0 ? sound.rate : kSpeechRate};
  BackgroundWriter writer(naming("--output",
                                 [&] {  // fails before hours are spent
                                   return VideoWriter::open(job.output, *filled.width, *filled.height, video);
                                 }),
                          &g_cancel, profiler ? &*profiler : nullptr);
  const bool piped = job.output == "-";
  if (!piped) check_writable("--output", settings_path(job.output));
  check_writable("--save-latents", o.save_latents);
  check_writable("--preview", o.preview);
  check_writable("--profile", o.profile);
  ProgressLine progress(ProgressLine::choose(o.json, o.quiet));
  const VideoCallbacks callbacks =
      make_callbacks(o, writer, progress, state, o.stream || piped, profiler ? &*profiler : nullptr);
  ResolvedRequest done;
  try {
    state.replay(*filled.width, *filled.height, [&](RgbView frame) { writer.write(frame); });
    done = engine.generate(prepared, callbacks, earlier.state ? &*earlier.state : nullptr);
    ProfileRange finishing(callbacks.profiler, "finish file", ProfileKind::output);
    writer.finish();
  } catch (const Error& e) {
    const bool passes =
        e.code() == ErrorCode::cancelled || e.code() == ErrorCode::io || e.code() == ErrorCode::device;
    if (!passes || state.saved().empty() || !state.exists()) throw;
    progress.clear();
    fail(e.code(), "{}{}", e.message(), going_on(state));
  }
  if (!piped) write_file(settings_path(job.output), settings.dump(2) + "\n");
  state.remove();
  set_cancel_note("");
  progress.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report_done(o, job, filled, settings, done.steps_reused, seconds);
  if (!profiler) return;
  const ProfileWords words = write_profile(o.profile, *profiler);
  report(o, json::parse(words.json), words.text);
}

}  // namespace tachy::cli
