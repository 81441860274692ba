// Runs of the C interface, with requests of its second form (tachyscope_c_v2.h).
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "api/c_engine.h"
#include "api/c_fields.h"
#include "api/c_guard.h"
#include "api/c_request.h"
#include "api/fields.h"
#include "base/json_text.h"
#include "media/video/background_writer.h"

struct tachyscope_run {
  tachyscope_run(tachyscope_engine& of, tachy::CRequest given) : engine(of), made_of(std::move(given)) {
    const std::lock_guard lock(engine.mutex);
    engine.runs.insert(&cancel);
  }
  ~tachyscope_run() {
    const std::lock_guard lock(engine.mutex);
    engine.runs.erase(&cancel);
  }
  tachyscope_run(const tachyscope_run&) = delete;
  tachyscope_run& operator=(const tachyscope_run&) = delete;

  const tachy::PreparedRequest& ready() {
    if (!prepared) prepared.emplace(engine.engine.prepare(made_of.request, &cancel));
    return *prepared;
  }

  tachyscope_engine& engine;
  tachy::CRequest made_of;
  std::atomic<bool> cancel{false};
  std::optional<tachy::PreparedRequest> prepared{};
  std::string settings{};
  std::optional<tachy::Sound> sound{};
};

namespace {

using tachy::guarded;
using tachy::require;

// Returns the settings as src/jobs writes them, but for the model, which only the caller's path names.
std::string settings_of(tachyscope_run& run) {
  const tachy::VideoRequest& filled = run.ready().request();
  nlohmann::json out = {{"tachyscope", tachy::version()},
                        {"device", run.engine.engine.device() == "cpu" ? "cpu" : "cuda"}};
  for (const tachy::RequestField& field : tachy::request_fields()) {
    if (field.matters && !field.matters(filled)) continue;
    std::visit(
        [&](auto member) {
          if (const auto* value = tachy::value_in(filled.*member)) out[field.key] = *value;
        },
        field.member);
  }
  for (const auto& [name, file] : run.made_of.files) {
    out[name] = file.path;
    out[name + "_sha256"] = file.sha256;
  }
  return tachy::json_line(out);
}

// The size of the struct before device_frames was added.
constexpr size_t kOldCallbacks = offsetof(tachyscope_callbacks, device_frames);

tachy::VideoCallbacks callbacks_of(tachyscope_run& run, const tachyscope_callbacks& to) {
  tachy::VideoCallbacks out{.cancel = &run.cancel};
  const auto end_if = [&run](int asked) {
    if (asked) run.cancel = true;
  };
  if (to.frame)
    out.frame = [&to, end_if](const tachy::RgbImage& image, int64_t index) {
      end_if(to.frame(to.user, image.rgb.data(), image.width, image.height, index));
    };
  if (to.preview)
    out.preview = [&to, end_if](const tachy::RgbImage& image, int step) {
      end_if(to.preview(to.user, image.rgb.data(), image.width, image.height, step));
    };
  if (to.progress)
    out.progress = [&to](const tachy::Progress& p) {
      const tachyscope_progress now = {p.stage.c_str(), p.done,   p.total,  p.elapsed_seconds,
                                       p.eta_seconds,   p.window, p.windows};
      to.progress(to.user, &now);
    };
  if (to.latents)
    out.latents = [&to, end_if](std::span<const float> values, std::span<const int64_t> shape) {
      end_if(to.latents(to.user, values.data(), shape.data(), static_cast<int32_t>(shape.size())));
    };
  if (to.device_frames)
    out.device_frames = [&to, end_if](const tachy::DeviceFrames& f) {
      const tachyscope_device_frames frames = {f.rgb, f.gpu, f.width, f.height, f.first, f.count};
      end_if(to.device_frames(to.user, &frames));
    };
  return out;
}

void save(const char* path, const tachyscope_video& video) {
  constexpr int32_t kMostSide = 1 << 14;
  require(video.rgb && video.frames >= 1 && video.frames <= 1 << 24 && video.width >= 1 &&
              video.height >= 1 && video.width <= kMostSide && video.height <= kMostSide,
          "video: expected frames with sides of 1 to {} pixels, got {} of {}x{}{}", kMostSide, video.frames,
          video.width, video.height, video.rgb ? "" : " at a null pointer");
  require(!video.has_crf || video.crf >= 0, "`crf`: expected a number from 0 on, got {}", video.crf);
  const tachy::Sound sound = video.sound ? tachy::convert_sound("sound", *video.sound) : tachy::Sound{};
  const tachy::VideoOptions options{.fps = video.fps,
                                    .crf = video.has_crf ? video.crf : -1,
                                    .comment = tachy::c_text("settings", video.settings),
                                    .speed = tachy::c_text("speed", video.speed),
                                    .expected_frames = video.frames,
                                    .sound = sound.samples,
                                    .sound_rate = sound.rate > 0 ? sound.rate : tachy::kSpeechRate};
  tachy::naming("`path`", [&] {
    tachy::BackgroundWriter writer(
        tachy::VideoWriter::open(tachy::c_text("path", path), video.width, video.height, options));
    const int64_t row = int64_t{3} * video.width, bytes = row * video.height;
    for (int64_t i = 0; i < video.frames; ++i)
      writer.write({video.rgb + i * bytes, video.width, video.height, row});
    writer.finish();
  });
}

}  // namespace

extern "C" {

int tachyscope_open(const char* model, const tachyscope_setting* options, int32_t option_count,
                    tachyscope_engine** out) {
  return guarded([&] {
    require(out != nullptr, "open: the pointer for the engine must not be null");
    tachy::EngineOptions given{.keep_loaded = true, .device = "auto"};
    tachy::set_fields(given, tachy::c_span("options", options, option_count));
    given.device = given.gpus.empty() ? tachy::choose_device(given.device) : given.device;
    const std::filesystem::path path =
        model ? std::filesystem::path(tachy::c_text("model", model)) : tachy::shipped_model();
    *out =
        new tachyscope_engine{.engine = tachy::naming("`model`", [&] { return tachy::Engine(path, given); })};
  });
}

const char* tachyscope_fields(void) {
  static const std::string text = tachy::fields_json();
  return text.c_str();
}

int tachyscope_run_open(tachyscope_engine* engine, const tachyscope_request_v2* request,
                        tachyscope_run** out) {
  return guarded([&] {
    require(engine && out, "run: the engine and the pointer for the run must not be null");
    *out = new tachyscope_run(*engine, tachy::convert_request(request));
  });
}

int tachyscope_run_plan(tachyscope_run* run, tachyscope_plan_result* out) {
  return guarded([&] {
    require(run && out, "plan: the run and the pointer for the result must not be null");
    const tachy::VideoPlan& plan = run->ready().plan();
    *out = {plan.peak_bytes, plan.seconds};
  });
}

int tachyscope_run_size(tachyscope_run* run, tachyscope_video_size* out) {
  return guarded([&] {
    require(run && out, "size: the run and the pointer for the result must not be null");
    const tachy::VideoRequest& filled = run->ready().request();
    *out = {*filled.width, *filled.height, *filled.frames, *filled.fps};
  });
}

int tachyscope_run_settings(tachyscope_run* run, const char** json) {
  return guarded([&] {
    require(run && json, "settings: the run and the pointer for the text must not be null");
    if (run->settings.empty()) run->settings = settings_of(*run);
    *json = run->settings.c_str();
  });
}

int tachyscope_run_sound(tachyscope_run* run, tachyscope_sound* out) {
  return guarded([&] {
    require(run && out, "sound: the run and the pointer for the result must not be null");
    const tachy::VideoRequest& filled = run->ready().request();
    if (!run->sound)
      run->sound =
          tachy::sound_of_video(run->made_of.sounds, filled.speakers.value_or("") == "one-after-the-other",
                                *filled.frames / *filled.fps);
    *out = {nullptr, run->sound->samples.data(), static_cast<int64_t>(run->sound->samples.size()),
            run->sound->rate};
  });
}

int tachyscope_run_generate(tachyscope_run* run, const tachyscope_callbacks* callbacks) {
  return guarded([&] {
    require(run && callbacks, "generate: the run and its callbacks must not be null");
    tachy::check_c_size("callbacks", callbacks, callbacks->size, sizeof(tachyscope_callbacks), kOldCallbacks);
    tachyscope_callbacks to = {};
    std::memcpy(&to, callbacks, std::min(sizeof to, static_cast<size_t>(callbacks->size)));
    run->engine.engine.generate(run->ready(), callbacks_of(*run, to));
    tachy::check(!run->cancel, tachy::ErrorCode::cancelled, "cancelled");
  });
}

void tachyscope_run_cancel(tachyscope_run* run) {
  if (run) run->cancel = true;
}

void tachyscope_run_free(tachyscope_run* run) { delete run; }

int tachyscope_save(const char* path, const tachyscope_video* video) {
  return guarded([&] {
    require(path && video, "save: the path and the video must not be null");
    tachy::check_c_size("video", video, video->size, sizeof(tachyscope_video));
    save(path, *video);
  });
}

}  // extern "C"
