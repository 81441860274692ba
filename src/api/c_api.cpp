#include "api/c_engine.h"
#include "api/c_guard.h"

namespace {

// A run in progress, which tachyscope_cancel can find.
class Running {
 public:
  explicit Running(tachyscope_engine& engine) : engine_(engine) {
    const std::lock_guard lock(engine_.mutex);
    engine_.runs.insert(&cancel);
  }
  ~Running() {
    const std::lock_guard lock(engine_.mutex);
    engine_.runs.erase(&cancel);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::atomic<bool> cancel{false};

 private:
  tachyscope_engine& engine_;
};

using tachy::guarded;

constexpr int32_t kMostLoras = 64;

tachy::VideoRequest convert(const tachyscope_request* in) {
  tachy::require(in && in->prompt, "request: a prompt is needed");
  tachy::VideoRequest out;
  out.prompt = in->prompt;
  if (in->negative_prompt) out.negative_prompt = in->negative_prompt;
  if (in->width > 0) out.width = in->width;
  if (in->height > 0) out.height = in->height;
  if (in->frames > 0) out.frames = in->frames;
  if (in->steps > 0) out.steps = in->steps;
  if (in->guidance >= 0) out.guidance = in->guidance;
  if (in->guidance_2 > 0) out.guidance_2 = in->guidance_2;
  if (in->shift > 0) out.shift = in->shift;
  out.seed = in->seed;
  tachy::require(in->lora_count >= 0 && in->lora_count <= kMostLoras && (in->loras || in->lora_count == 0),
                 "request: expected 0 to {} loras, got {}", kMostLoras, in->lora_count);
  for (int32_t i = 0; i < in->lora_count; ++i) {
    tachy::require(in->loras[i] != nullptr, "request: lora {} is null", i);
    out.loras.emplace_back(in->loras[i]);
  }
  if (in->lora_mode) out.lora_mode = in->lora_mode;
  return out;
}

}  // namespace

extern "C" {

const char* tachyscope_version(void) {
  static const std::string text = tachy::version();
  return text.c_str();
}

const char* tachyscope_last_error(void) { return tachy::c_last_error().c_str(); }

int tachyscope_load(const char* model_folder, int32_t threads, tachyscope_engine** out) {
  return tachyscope_load_on(model_folder, "cpu", 0, threads, out);
}

int tachyscope_load_on(const char* model_folder, const char* device, uint64_t max_vram_bytes, int32_t threads,
                       tachyscope_engine** out) {
  const tachyscope_model_files files = {.model = model_folder};
  return tachyscope_load_files(&files, device, max_vram_bytes, threads, out);
}

int tachyscope_load_files(const tachyscope_model_files* files, const char* device, uint64_t max_vram_bytes,
                          int32_t threads, tachyscope_engine** out) {
  return guarded([&] {
    tachy::require(files && files->model && device && out,
                   "load: the folder, the device and the pointer for the engine must not be null");
    const auto text = [](const char* path) { return std::string(path ? path : ""); };
    *out = new tachyscope_engine{.engine =
                                     tachy::Engine(files->model, {.threads = threads,
                                                                  .keep_loaded = true,
                                                                  .device = device,
                                                                  .max_vram = max_vram_bytes,
                                                                  .transformer_2 = text(files->transformer_2),
                                                                  .text_encoder = text(files->text_encoder),
                                                                  .vae = text(files->vae),
                                                                  .tokenizer = text(files->tokenizer)})};
  });
}

void tachyscope_free(tachyscope_engine* engine) { delete engine; }

int tachyscope_plan(tachyscope_engine* engine, const tachyscope_request* request,
                    tachyscope_plan_result* out) {
  return guarded([&] {
    tachy::require(engine && out, "plan: the engine and the pointer for the result must not be null");
    const tachy::VideoPlan plan = engine->engine.plan(convert(request));
    *out = {plan.peak_bytes, plan.seconds};
  });
}

int tachyscope_generate(tachyscope_engine* engine, const tachyscope_request* request,
                        tachyscope_frame_fn frame, tachyscope_progress_fn progress, void* user) {
  return guarded([&] {
    tachy::require(engine != nullptr, "generate: an engine is needed");
    Running run(*engine);
    tachy::VideoCallbacks callbacks{.cancel = &run.cancel};
    if (frame)
      callbacks.frame = [&](const tachy::RgbImage& image, int64_t index) {
        if (frame(user, image.rgb.data(), image.width, image.height, index)) run.cancel = true;
      };
    if (progress)
      callbacks.progress = [&](const tachy::Progress& p) {
        progress(user, p.stage.c_str(), p.done, p.total, p.eta_seconds);
      };
    engine->engine.generate(convert(request), callbacks);
    if (run.cancel) tachy::fail(tachy::ErrorCode::cancelled, "cancelled");
  });
}

void tachyscope_cancel(tachyscope_engine* engine) {
  if (engine) engine->cancel_all();
}

}  // extern "C"
