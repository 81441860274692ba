// Text (and picture) to video: prompt → token ids → umT5; picture → VAE encoder; → denoising with the Wan
// transformer → VAE → frames, streamed out as they are decoded. Text encoder, transformer and VAE are loaded
// and released in turn, unless `keep_loaded`.
#pragma once

#include <memory>

#include "cuda/gpu.h"
#include "nn/upload_check.h"
#include "pipelines/condition.h"
#include "pipelines/gpu_mode.h"
#include "pipelines/noise_source.h"
#include "pipelines/run_stages.h"
#include "pipelines/stages.h"
#include "pipelines/text_cache.h"

namespace tachy {

class TextToVideo {
 public:
  struct Options {
    int threads = 0;  // 0: all this process may use
    WeightMode weights = WeightMode::automatic;
    bool keep_loaded = false;    // for several requests in a row
    std::string device = "cpu";  // "cpu", "cuda" or "cuda:N", "auto": a GPU where there is one
    bool graphs = true;          // on a GPU: denoising steps are captured and replayed
    uint64_t max_vram = 0;       // on a GPU: bytes that a run may take there; 0: what is free
    std::string text_cache;      // a folder that keeps prompts' embeddings; empty: none
    bool verify_upload =
        false;  // on a GPU: weights there are compared with the files, at the price of seconds
    // For tests: a device's memory on the host. The CPU computes as if its tensors lay on a device.
    std::shared_ptr<DeviceMemory> memory = nullptr;
  };

  TextToVideo(ModelBundle model, Options options);

  const ModelBundle& model() const { return model_; }
  int threads() const { return pool_.threads(); }
  const cuda::Gpu* gpu() const { return gpu_.get(); }  // null: on the CPU

  struct Prompts {
    std::vector<int64_t> positive, negative;
    std::vector<float> positive_text, negative_text;           // from the text cache; empty: to be encoded
    std::optional<TextCache::Key> positive_key, negative_key;  // in it
    bool encodes(bool guided) const { return positive_text.empty() || (guided && negative_text.empty()); }
  };
  // A request on its way to a run. Each part of this is made once, here; a plan is then shown, checked and followed.
  struct Prepared {
    ResolvedRequest request;
    Prompts prompts;
    VideoPlan plan;
    Mode mode;  // how it computes
    GpuMode gpu_mode;
  };

  // The request with everything filled in and checked, as this pipeline's device runs it.
  ResolvedRequest resolved(const VideoRequest& request);
  // Tokenises and plans it; loads no weights. The plan tells exact memory.
  Prepared prepare(ResolvedRequest request);
  void estimate_seconds(VideoPlan& plan);
  // Throws out_of_memory, with both numbers, when the plan needs more than this process may take.
  void check_memory(const VideoPlan& plan) const;
  // Returns the request as it was run. Throws cancelled when callbacks.cancel is set, and out_of_memory before
  // anything is loaded. Pictures must have the video's size already (the Engine sees to that). resume: what an
  // earlier run of the same request reported; the rest then gives the same bits.
  ResolvedRequest generate(const Prepared& prepared, const VideoCallbacks& callbacks,
                           const RunState* resume = nullptr);

  // The same from the request itself.
  VideoPlan plan(const VideoRequest& request);
  ResolvedRequest generate(const VideoRequest& request, const VideoCallbacks& callbacks,
                           const RunState* resume = nullptr) {
    return generate(prepare(resolved(request)), callbacks, resume);
  }

  // How often this object has done so.
  struct Counters {
    int resolved = 0, tokenised = 0, planned = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  Prompts tokenize(const ResolvedRequest& request);
  void adopt(const Mode& mode, const GpuMode& gpu_mode);  // weights made for another way are released
  TextCache::Key text_key(const std::vector<int64_t>& ids) const;
  Stream stream_on(Arena& arena);
  Precision precision() const;
  DeviceMemory* memory() const;  // null: all on the host

  // How many blocks of a stage are streamed; whether models stay loaded.
  struct Placement {
    int64_t text = 0, denoise = 0;
    bool keeps = false;
  };
  // The models that are loaded now.
  struct Loaded {
    LoadedText text;
    LoadedVaeEncoder encoder;
    LoadedTransformers transformers;
    LoadedVae vae;
  };

  // video_stages.cpp. A request's stages are one list of functions, which is walked twice: with measuring arenas
  // for the plan (nothing is loaded or computed), and for real. What they share:
  struct Walk {
    const ResolvedRequest& request;
    const Prompts& prompts;
    const Shared& shared;
    Placement placement;
    Loaded& loaded;
    BlockPlan blocks = {};                      // of the stage that ran last
    const VideoCallbacks* callbacks = nullptr;  // from here on for real only
    const RunState* resume = nullptr;
    NoiseSource* noise = nullptr;
    int steps_reused = 0;
  };
  struct Stage {
    const char* name;
    uint64_t mapped_bytes;  // weights that it may use where they lie in the file
    // Returns the bytes of the Buffers that it held at its worst moment.
    uint64_t (TextToVideo::*run)(Walk& walk, Stream& stream);
  };
  std::vector<Stage> stages(const ResolvedRequest& request, const Prompts& prompts) const;
  uint64_t text_stage(Walk& walk, Stream& stream);
  uint64_t image_stage(Walk& walk, Stream& stream);
  uint64_t denoise_stage(Walk& walk, Stream& stream);
  uint64_t decode_stage(Walk& walk, Stream& stream);
  void embed_prompts(const Walk& walk, StageClock& clock, Stream& stream);
  void verify(const char* part, const TensorSource& file, const char* when, const Stream& stream);
  template <class Part, class Load>
  void ensure_loaded(Part& part, const char* name, const TensorSource& file, const Stream& stream,
                     Load&& load);

  // memory_plan.cpp
  VideoPlan plan_with(const ResolvedRequest& request, const Prompts& prompts, const Placement& placement);
  VideoPlan plan_within(const ResolvedRequest& request, const Prompts& prompts);
  VideoPlan make_plan(const ResolvedRequest& request, const Prompts& prompts);
  std::string what_would_fit(const ResolvedRequest& request, const Prompts& prompts);
  void release_unless(const VideoPlan& plan);  // what was kept and is not to be, or is placed otherwise
  double measured_flops_per_second();

  ModelBundle model_;
  Options options_;
  ThreadPool pool_;
  std::unique_ptr<cuda::Gpu> gpu_;  // outlives what was loaded
  std::unique_ptr<nn::UploadCheck> check_;
  GpuMode gpu_mode_;  // on the GPU
  double flops_per_second_ = 0;
  Counters counters_;
  Mode mode_;                             // packed weights depend on it
  std::unique_ptr<Tokenizer> tokenizer_;  // from the first plan on: umT5's takes 0.15 s to read
  std::optional<TextCache> text_cache_;
  std::string text_fingerprint_;  // with a text cache: of the files before the text encoder was loaded
  Loaded loaded_;
};

}  // namespace tachy
