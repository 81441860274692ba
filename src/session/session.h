// A session is where one job computes: its arena, its queue on a GPU, the parts it holds, its captured
// graphs, and its callbacks. A session runs one job at a time; several run at once on one Model.
//
// A measuring session has arenas without storage: the same walk over the same stages then loads and computes
// nothing, and tells what a computing session would hold.
//
// If models stay loaded, a session keeps its arena, the denoiser's tensors, adapters and graphs after its
// job: the next job of the same layout finds the same addresses and captures nothing. drop() releases them.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "request/stage_plan.h"
#include "runtime/crew.h"
#include "runtime/rank_team.h"
#include "runtime/step_graph.h"
#include "session/adapter_shelf.h"
#include "session/model.h"
#include "session/rank_devices.h"
#include "session/request_adapters.h"
#include "session/stage.h"
#include "tensor/pinned_slots.h"

namespace tachy {

// Returns how ranks are to share a pass, or nothing if that is chosen for each request.
std::optional<runtime::RankLayout> asked_layout(const Parallel& parallel);

class Session {
 public:
  enum class Kind { measuring, computing };

  // `gpu` is the session's own one, or null.
  Session(Model& model, std::shared_ptr<cuda::Gpu> gpu, Kind kind);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  struct Setup {
    Precision precision;
    Without without;
    Products vae = Products::as_activations;  // products of the VAE's residual blocks
    Placement placement;
    bool graphs = false;                        // on a GPU: steps may be captured
    const std::atomic<bool>* cancel = nullptr;  // ends the walk of a measuring session
    const VideoCallbacks* callbacks = nullptr;  // this member and the next ones are only for computing
                                                // sessions
    Profiler* profiler = nullptr;
    const VideoPlan* plan = nullptr;
    const RequestAdapters* adapters = nullptr;  // null: the job uses none
  };
  void begin(const Setup& setup);
  // Returns the memory that the stage took; a computing session does not measure it.
  StagePlan run(const Stage& stage, Job& job);
  void end(bool well) noexcept;  // ends a job; one that failed leaves nothing behind

  Stream& stream() { return stream_; }
  bool measuring() const { return kind_ == Kind::measuring; }
  // Returns the model, with the job's adapters merged in.
  const ModelBundle& model() const { return setup_.adapters ? setup_.adapters->model : model_.bundle(); }
  const RequestAdapters* adapters() const { return setup_.adapters; }
  // Returns null if there is no cache, or if an adapter has changed the text encoder.
  const TextCache* text_cache() const {
    return merged_into(Part::text).empty() ? model_.prompts().cache() : nullptr;
  }
  const VideoCallbacks* callbacks() const { return setup_.callbacks; }
  const Placement& placement() const { return setup_.placement; }
  cuda::Gpu* gpu() const { return gpu_.get(); }
  const std::shared_ptr<cuda::Gpu>& shared_gpu() const { return gpu_; }

  // Each of these loads the part if necessary. The session holds it until it is given back.
  const LoadedText& text() { return static_cast<const LoadedText&>(use(Part::text)); }
  const LoadedImageEncoder& image_encoder() {
    return static_cast<const LoadedImageEncoder&>(use(Part::image_encoder));
  }
  const LoadedAudioEncoder& audio_encoder() {
    return static_cast<const LoadedAudioEncoder&>(use(Part::audio_encoder));
  }
  const LoadedVaeEncoder& vae_encoder() {
    return static_cast<const LoadedVaeEncoder&>(use(Part::vae_encoder));
  }
  const LoadedDit& transformer(int expert) {
    return static_cast<const LoadedDit&>(use(transformer_part(expert)));
  }
  // These return a further rank's copy of a part, on that rank's GPU. Each rank may call them in its own thread, while
  // the session holds the part on the first GPU.
  const LoadedDit& transformer_of(int expert, int rank);
  const LoadedVae& vae_decoder_of(int rank);
  const LoadedVae& vae_decoder() { return static_cast<const LoadedVae&>(use(Part::vae_decoder)); }
  // Tells that the part has done its work: if parts do not stay, it is released unless another session holds
  // it, too. `when` is for the messages of `verify_upload`, "after the last step" for example.
  void give_back(Part part, const char* when = nullptr);
  // While the session holds parts, those that are given back stay until the job ends, because the same stages
  // come again. This changes nothing if parts stay for further jobs anyway.
  void hold_parts(bool hold) { holds_ = hold && !setup_.placement.keeps; }
  // Announces that the next stages repeat the previous ones, at the same addresses if the tensors stay.
  void begin_again() {
    denoisers_[0].rewind(), denoisers_[1].rewind(), loop_.rewind();
    if (devices_) devices_->rewind();
  }
  uint64_t part_bytes() const;  // size of the parts that the session holds
  // Size of the parts that the job has used and found loaded; if parts do not stay, of the largest one.
  uint64_t found_bytes() const { return found_bytes_; }

  // These return the place where a pass of this expert may be captured, and the shelves for its denoiser's
  // tensors and the loop's; null: there is none.
  runtime::StepGraph* graph(int expert);
  BufferShelf* denoiser_shelf(int expert);
  // Host memory through which frames leave a device.
  PinnedSlots& frame_slots() { return frame_slots_; }
  BufferShelf* loop_shelf() { return keeps() ? &loop_ : nullptr; }
  // From here on the stream carries what the job adds to this expert's products.
  void add_adapters(int expert);
  // Ends an expert's work, also on further GPUs. Their transformers stay until the job ends if no other expert comes
  // and the decoder has room beside them, since nobody should wait until so much memory is given back.
  void drop_adapters(int expert, bool another_comes = false);
  void add_adapters_of(int expert, int rank);  // to a further rank's stream
  // Returns the ranks on the CPU that divide a denoising pass; null: there is one.
  runtime::RankTeam* ranks() { return ranks_ ? &*ranks_ : nullptr; }
  // Returns how many GPUs divide a denoising pass, and those of a computing session.
  int gpu_ranks() const { return model_.on_gpus() ? setup_.placement.ranks : 1; }
  runtime::RankLayout layout_of_gpus(int64_t branches, int64_t tokens) const;
  RankDevices* devices() { return devices_ ? &*devices_ : nullptr; }
  BufferShelf* rank_shelf(int expert, int rank) {
    return keeps() ? &devices_->place(rank).shelves.at(static_cast<size_t>(expert)) : nullptr;
  }
  // Returns the bytes of scratch that the plan gives a stage.
  size_t planned_scratch(std::string_view stage) const { return stage_plan(*setup_.plan, stage).arena_bytes; }
  // Returns the processes that divide it; null: there is one.
  runtime::Crew* crew() const { return model_.options().crew.get(); }
  // Returns how its processes share a pass if that was asked for.
  std::optional<runtime::RankLayout> asked_of_crew() const { return asked_layout(model_.options().parallel); }
  // Says whether this process decodes, and hands out frames: with a crew, its first one does.
  bool makes_frames() const { return !crew() || crew()->leads(); }
  uint64_t adapter_bytes(int expert) const { return adapters_.at(static_cast<size_t>(expert)).bytes(); }

  // Describes what the session keeps between jobs.
  using Layout = std::vector<uint64_t>;
  static Layout layout_of(const VideoPlan& plan);
  const Layout& layout() const { return layout_; }
  uint64_t kept_bytes() const;
  void drop();
  int captures() const { return graphs_[0].captures() + graphs_[1].captures(); }

 private:
  const LoadedPart& use(Part part);
  PartCache::Handle load(Part part);
  const LoadedPart& part_of(Part part, int rank, std::shared_ptr<const LoadedPart>& held);
  bool decoder_fits_beside();
  const nn::AdapterSet* adapter_set(int expert, const LoadedDit& network, AdapterShelf& shelf,
                                    Stream& stream);
  int64_t streamed(Part part) const;
  const std::string& merged_into(Part part) const;
  Arena::Kind arena_kind() const { return model_.options().arena ? Arena::Kind::whole : Arena::Kind::pieces; }
  bool keeps() const { return kind_ == Kind::computing && setup_.placement.keeps; }
  void measure(const Stage& stage, Job& job, StagePlan& out);
  void compute(const Stage& stage, Job& job);

  Model& model_;
  std::shared_ptr<cuda::Gpu> gpu_;
  Kind kind_;
  Setup setup_;
  Arena between_{0};  // used between the stages, where no op runs
  Stream stream_;
  uint64_t most_part_bytes_ = 0;  // largest size of the parts in the current stage
  uint64_t found_bytes_ = 0;
  bool holds_ = false;
  BlockPlan blocks_;
  std::map<Part, PartCache::Handle> held_;

  Layout layout_;
  std::optional<Arena> arena_;  // for all stages
  std::array<BufferShelf, 2> denoisers_;
  std::array<AdapterShelf, 2> adapters_;
  BufferShelf loop_;
  PinnedSlots frame_slots_;
  std::array<runtime::StepGraph, 2> graphs_;
  std::optional<runtime::RankTeam> ranks_;
  std::optional<RankDevices> devices_;
};

}  // namespace tachy
