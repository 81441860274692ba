#include <cctype>
#include <charconv>
#include <mutex>

#include "api/clip_footage.h"
#include "api/engine_options.h"
#include "api/speaker_regions.h"
#include "base/stop_flags.h"
#include "catalog/places.h"
#include "cuda/nvtx_profiler.h"
#include "cuda/open_device.h"
#include "engine/text_to_video.h"
#include "media/picture/clip_picture.h"
#include "media/sound/loudness.h"
#include "media/sound/sound_reader.h"
#include "report/example_request.h"
#include "request/speakers.h"
#include "session/fingerprint.h"
#include "session/request_adapters.h"

namespace tachy {
namespace {

constexpr size_t kMostFingerprints = 256;

// Tells adapters apart by path, size and time, so that a file that was hashed is not hashed again.
std::string files_of(std::span<const std::string> loras) {
  std::string out;
  std::error_code ec;  // a file that vanishes just now is reported when it is hashed
  for (const std::string& text : loras) {
    const std::filesystem::path path = open_adapter(parse_lora(text).path).path;
    out += fmt::format("{} {} {}\n", text, std::filesystem::file_size(path, ec),
                       std::filesystem::last_write_time(path, ec).time_since_epoch().count());
  }
  return out;
}

RgbView view_of(const Picture& p) { return {p.rgb.data(), p.width, p.height, int64_t{p.width} * 3}; }

}  // namespace

struct PreparedRequest::State {
  TextToVideo::Prepared prepared;
};

struct Engine::State {
  explicit State(std::shared_ptr<Model> model) : pipeline(std::move(model)) {}

  TextToVideo::Prepared prepare(const VideoRequest& request, const std::atomic<bool>* cancel = nullptr,
                                ReadVideos videos = ReadVideos::now) {
    const StopFlags stop(cancel);
    Resolved r = pipeline.resolved(request);
    stop.throw_if_cancelled();
    r.take(make_inputs(r, stop, videos));
    stop.throw_if_cancelled();
    return pipeline.prepare(std::move(r), cancel);
  }

  MadeInputs make_inputs(const Resolved& r, const StopFlags& stop, ReadVideos videos) const {
    const VideoRequest& q = r.request;
    MadeInputs out;
    if (q.speech) hear(r, out);
    // CLIP looks at whole pictures, before they are fitted to the video.
    out.clip_pixels = pixels_for_clip(r);
    out.image = fit_picture(q.image, q.image_fit, *q.width, *q.height);
    out.last_image = fit_picture(q.last_image, q.image_fit, *q.width, *q.height);
    check_footage_fits(pipeline.model(), r);
    if (videos == ReadVideos::now) out.footage = clip_footage(pipeline.model(), r, stop);
    return out;
  }

  ResolvedRequest generate(const TextToVideo::Prepared& prepared, const VideoCallbacks& callbacks,
                           const RunState* resume) {
    const Resolved& r = prepared.request;
    if (r.footage || !takes_footage(r)) return pipeline.generate(prepared, callbacks, resume);
    TextToVideo::Prepared read = prepared;
    read.request.footage = clip_footage(pipeline.model(), r, StopFlags(callbacks.cancel));
    return pipeline.generate(read, callbacks, resume);
  }

  // Makes each sound as loud as InfiniteTalk does, places both in time, and prepares them as the encoder
  // does. Also finds the speakers in the whole picture.
  void hear(const Resolved& r, MadeInputs& out) const {
    const VideoRequest& q = r.request;
    const ModelBundle& model = pipeline.model();
    const auto loud = [](const char* field, const Speech& speech, std::vector<float>& samples) {
      samples = speech.samples;
      naming(field, [&] { normalise_loudness(samples, kSpeechRate); });
    };
    loud("`speech`", *q.speech, out.speech);
    if (q.speech_2) {
      loud("`speech_2`", *q.speech_2, out.speech_2);
      lay_in_time(*q.speakers, out.speech, out.speech_2);
      out.speaker_regions =
          speaker_regions(q, r.latent_height / model.dit.patch_h, r.latent_width / model.dit.patch_w);
    }
    if (!model.audio_standardised) return;
    standardise(out.speech);
    if (q.speech_2) standardise(out.speech_2);
  }

  std::vector<float> pixels_for_clip(const Resolved& r) const {
    const std::pair<const char*, const Picture*> pictures[] = {{"`image`", r.request.image.get()},
                                                               {"`last_image`", r.request.last_image.get()}};
    ClipPreparation how = pipeline.model().clip_preparation;
    how.original = r.request.clip_preparation == "original";
    std::vector<float> out;
    for (const auto& [field, picture] : std::span(pictures).first(static_cast<size_t>(r.clip_pictures))) {
      const std::vector<float> pixels = naming(field, [&] { return clip_pixels(view_of(*picture), how); });
      out.insert(out.end(), pixels.begin(), pixels.end());
    }
    return out;
  }

  TextToVideo pipeline;
  std::mutex mutex;
  std::map<std::string, std::string> fingerprints;  // by files_of() the adapters
};

const VideoRequest& PreparedRequest::request() const { return state_->prepared.request.request; }
const VideoPlan& PreparedRequest::plan() const { return state_->prepared.plan; }

Engine::Engine(const std::filesystem::path& model, const EngineOptions& options)
    : state_(std::make_unique<State>(open_model(model, options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

std::string first_of_gpus(const std::string& gpus, const std::string& device) {
  return devices_of_gpus(gpus, device).front();
}
std::vector<std::string> devices_of_gpus(const std::string& gpus, const std::string& device) {
  std::vector<std::string> out;
  for (const int index : cuda::choose_gpus(gpus, device)) out.push_back(fmt::format("cuda:{}", index));
  return out;
}
std::string choose_device(const std::string& wish) { return cuda::choose_device(wish); }
bool gpu_there(std::string* why) { return cuda::gpu_count(why) > 0; }
bool is_automatic(const std::string& wish) { return cuda::is_automatic(wish); }

int Engine::threads() const { return state_->pipeline.threads(); }
const std::shared_ptr<Model>& Engine::model() const { return state_->pipeline.shared_model(); }
std::string Engine::device() const {
  const cuda::Gpu* gpu = state_->pipeline.gpu();
  return gpu ? gpu->info().name : "cpu";
}
const VideoRequest& Engine::defaults() const { return state_->pipeline.model().defaults; }
ModelInputs Engine::inputs() const {
  const ModelBundle& model = state_->pipeline.model();
  const auto word = [](Given given) {
    return given == Given::refused ? "no" : given == Given::perhaps ? "optional" : "required";
  };
  return {.kind = model.kind(),
          .image = word(model.family->image),
          .last_image = word(model.family->last_image),
          .speech = word(model.dit.audio_branch() ? Given::needed : Given::refused),
          .video = word(model.family->talks || model.family->no_request ? Given::refused : Given::perhaps),
          .control = word(model.family->follows ? Given::perhaps : Given::refused),
          .experts = model.experts()};
}
int Engine::size_multiple() const { return static_cast<int>(state_->pipeline.model().size_multiple()); }
int Engine::frame_multiple() const {
  return static_cast<int>(state_->pipeline.model().vae_config.temporal_stride());
}
PreparedRequest Engine::prepare(const VideoRequest& request, const std::atomic<bool>* cancel,
                                ReadVideos videos) {
  PreparedRequest::State out{state_->prepare(request, cancel, videos)};
  state_->pipeline.estimate_seconds(out.prepared);
  return PreparedRequest(std::make_shared<const PreparedRequest::State>(std::move(out)));
}
void Engine::check_memory(const VideoPlan& plan) const { state_->pipeline.check_memory(plan); }
bool Engine::fits_beside(const PreparedRequest& prepared) const {
  return state_->pipeline.fits_beside(prepared.state_->prepared);
}
ResolvedRequest Engine::generate(const PreparedRequest& prepared, const VideoCallbacks& callbacks,
                                 const RunState* resume) {
  return state_->generate(prepared.state_->prepared, callbacks, resume);
}
ResolvedRequest Engine::generate(const VideoRequest& request, const VideoCallbacks& callbacks,
                                 const RunState* resume) {
  return state_->pipeline.generate(state_->prepare(request), callbacks, resume);
}

VideoRequest Engine::example_request() const { return tachy::example_request(state_->pipeline.model()); }

std::string Engine::fingerprint(std::span<const std::string> loras) const {
  const std::string key = files_of(loras);
  const std::lock_guard lock(state_->mutex);
  auto& known = state_->fingerprints;
  if (known.size() > kMostFingerprints) known.clear();
  std::string& out = known[key];
  if (out.empty()) out = tachy::fingerprint(state_->pipeline.model(), loras);
  return out;
}

uint64_t parse_bytes(const std::string& text) {
  static const std::pair<const char*, double> units[] = {
      {"", 1},         {"B", 1},      {"K", 0x1p10},   {"KIB", 0x1p10}, {"M", 0x1p20},
      {"MIB", 0x1p20}, {"G", 0x1p30}, {"GIB", 0x1p30}, {"T", 0x1p40},   {"TIB", 0x1p40},
      {"KB", 1e3},     {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  std::erase(unit, ' ');
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const auto& [name, factor] : units)
    if (error == std::errc() && unit == name && value > 0 && value * factor >= 1 && value * factor < 0x1p60)
      return static_cast<uint64_t>(value * factor);
  fail(ErrorCode::invalid_argument, "expected a size such as 8GiB, 12G or 7500MiB, got '{}'", text);
}

std::unique_ptr<Profiler> nvtx_ranges(Profiler* also) { return cuda::make_nvtx_profiler(also); }

std::string version() { return TACHY_VERSION; }

std::filesystem::path shipped_model(std::string_view name) {
  std::string looked;
  std::error_code ec;
  for (const auto& models : model_places()) {
    const auto place = models / name;
    if (std::filesystem::exists(place / "model_index.json", ec) ||
        std::filesystem::exists(place / "config.json", ec))
      return std::filesystem::weakly_canonical(place, ec);
    looked += (looked.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  fail(ErrorCode::not_found, "no `model` given, and the one that ships was not found (looked at {})", looked);
}

}  // namespace tachy
