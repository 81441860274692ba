// A world on a device: it is planned and refused like any run, then makes one session after the other, block
// by block (world_run.h). It is opened on a Model, whose loaded parts it shares with the Model's other worlds
// and its clips. Its memory stays claimed on the device until it is destroyed (session/admission.h).
// One thread at a time may use it; `cancel` is checked between steps and frames. Several worlds of one Model
// may compute at once.
#pragma once

#include "cuda/event_profiler.h"
#include "denoise/noise_source.h"
#include "session/admission.h"
#include "worlds/action_track.h"
#include "worlds/world_run.h"

namespace tachy {

class WorldSession {
 public:
  struct Options {
    WorldChoices choices;
    std::string level = "safe", dtype, vae_math = "auto";
    std::vector<std::string> without;  // as in VideoRequest
    int64_t longest_frames = 0;        // frames of the longest session, for the plan; 0: no end
    const std::atomic<bool>* cancel = nullptr;
    std::function<void(std::span<const float>)> latents;  // as in WorldRun::Setup
  };
  // Waits if the world would not fit beside what computes on the device now. Throws out_of_memory before
  // anything is loaded.
  WorldSession(std::shared_ptr<Model> model, const Options& options);
  ~WorldSession();
  // Returns what a world would take. Nothing is loaded.
  static VideoPlan plan_of(std::shared_ptr<Model> model, const Options& options) {
    return WorldSession(std::move(model), options, Unopened()).plan_;
  }
  WorldSession(const WorldSession&) = delete;
  WorldSession& operator=(const WorldSession&) = delete;

  const ModelBundle& model() const { return model_->bundle(); }
  const WorldConfig& config() const { return config_; }
  const VideoPlan& plan() const { return plan_; }
  const cuda::Gpu* gpu() const { return gpu_.get(); }
  const Precision& precision() const { return stream_.precision; }
  int64_t pixel_frames(int64_t latent_frames) const { return model().vae_config.pixel_frames(latent_frames); }

  std::vector<int64_t> read_prompt(const std::string& prompt);
  void start(const WorldInput& input, uint64_t seed);
  void reset();
  // From the next start or reset on, `profiler` receives each module's time, on a GPU also the device's times
  // if it takes those (base/run_profiler.h); passes then run without graphs. With null there is no profiler
  // any more; the previous one has received everything by then.
  void watch(Profiler* profiler);

  struct Action {
    // These have as many values as the model takes. They are asked for once the device can begin.
    std::vector<float> keyboard, mouse;
  };
  struct Block {
    int64_t first_frame = 0, frames = 0;  // in the video
  };
  Block next(const std::function<Action()>& action, const WorldRun::Frame& frame);

  // Returns the bytes of all Buffers and of the arena at their peak so far, which the plan's peak predicts.
  uint64_t most_bytes() const { return run_ ? run_->bytes() + arena_bytes_ : 0; }

 private:
  struct Unopened {};
  WorldSession(std::shared_ptr<Model> model, const Options& options, Unopened);  // for planning only
  void measure();
  void open(const Options& options);
  void begin_again();

  std::shared_ptr<Model> model_;
  std::shared_ptr<cuda::Gpu> gpu_;  // its own queue; null: on the CPU
  WorldConfig config_;
  WorldRun::Setup setup_;
  VideoPlan plan_;
  std::map<PartKey, uint64_t> parts_;  // parts that it holds, by the plan
  std::optional<Admission::Place> claim_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  uint64_t arena_bytes_ = 0, seed_ = 0;
  std::optional<Arena> arena_;
  std::optional<cuda::EventProfiler> device_times_;
  Stream stream_;
  std::optional<WorldRun> run_;
  std::optional<NoiseSource> noise_;
  std::optional<ActionTrack> track_;
};

}  // namespace tachy
