// The stable C++ interface of Tachyscope: open a model, plan, generate, cancel, look inside.
//
//   tachy::Engine engine("models/sprites");
//   engine.generate({.prompt = "a red circle moves right"},
//                   {.frame = [](const tachy::RgbImage& image, int64_t index) { … }});
//
// Errors are tachy::Error (base/error.h) with a code and a text for people.
//
// An Engine is a model: its parts are loaded once and shared by all runs. All of its functions may be called
// by several threads at once; each generate() is a session of its own, with its own memory, queue and
// callbacks, which come in the calling thread. A run whose memory does not fit beside that of the others
// waits for them, also for those of other Engines on the same device: who came first is let in first, and a
// small run does not pass a large one that waits. Worlds (api/world.h) may be opened on an Engine's model; what they
// hold is not waited for. `cancel` may be set from any thread or a signal handler.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/run_profiler.h"
#include "catalog/part_paths.h"
#include "request/request.h"

namespace tachy {

class Model;
class World;

struct EngineOptions {
  int threads = 0;  // 0: all processors this process may use
  // On the CPU: so many ranks, threads of this process, divide each denoising pass, as several devices would: guidance's
  // branches, then tokens and attention's heads. `threads` is of all of them. The frames are the same.
  int ranks = 1;
  // "packed" (float32 copies, faster), "mapped" (used in the file), "auto" (packed where small); "read": the
  // files are read into memory at the start, for folders whose files may change or vanish meanwhile.
  std::string weights = "auto";
  bool keep_loaded =
      false;  // keep the model, and what a run of the same shape needs, between calls of generate
  std::string device = "cpu";  // "cpu", "cuda", "cuda:1" …, or "auto": a GPU where there is one
  bool graphs = true;          // on a GPU: denoising steps are captured once and replayed
  bool arena =
      true;  // false: every intermediate is an allocation of its own (slow, for hunting memory errors)
  // On a GPU: bytes that all runs together may take there; blocks beyond pass through it; 0: what is free.
  uint64_t max_vram = 0;
  std::string text_cache;  // a folder that keeps prompts' embeddings, so that the text encoder need not be
                           // loaded for them again; empty: none
  bool verify_upload =
      false;  // on a GPU: weights there are compared with the files, after loading and at the end
  // Parts of the model that lie elsewhere: a file, a component's folder, or a model's folder whose part it is.
  // They take the place of the model's own, and belong to a model that is one file; "": the model's own, or
  // what lies in ComfyUI's folders beside its file.
  std::string transformer_2, text_encoder, vae, tokenizer, image_encoder;
  // Of talking photos: InfiniteTalk's file, laid over the transformer, and the wav2vec2 that hears what is said.
  std::string infinitetalk, audio_encoder;
  // With `keep_loaded`: for how many seconds what a run of the same shape needs (memory, graphs, a GPU's further queues) is kept
  // for the next one, which makes it again when it is gone; 0: it is given back at once; kAlwaysKept: it stays. The
  // model's loaded parts stay in any case.
  static constexpr int kAlwaysKept = -1;
  int idle_seconds = 600;
};

// What a wish for a device comes to on this machine: "cpu" or "cuda:N". "auto" is the first GPU that this
// build can use now, otherwise the CPU, with a line on stderr that says which or why; "" is what TACHY_DEVICE
// says, otherwise auto. Throws invalid_argument for another text.
std::string choose_device(const std::string& wish);
bool gpu_there(std::string* why = nullptr);  // that this build can see one; why it does not
bool is_automatic(const std::string& wish);  // that it is left to the machine

// "8GiB", "12G", "7500MiB", "8GB" (thousands) → bytes; throws invalid_argument with what would work.
uint64_t parse_bytes(const std::string& text);

// A request that an Engine has resolved, tokenised and planned, for that Engine to run: each of this is done
// once.
class PreparedRequest {
 public:
  const VideoRequest& request() const;  // with every default filled in, and pictures of the video's size
  const VideoPlan& plan() const;        // exact memory and predicted time

 private:
  friend class Engine;
  struct State;
  explicit PreparedRequest(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

class Engine {
 public:
  // model: a folder, or the file of a transformer.
  explicit Engine(const std::filesystem::path& model, const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  int threads() const;
  std::string device() const;            // "cpu", or the GPU's name
  const VideoRequest& defaults() const;  // every optional filled, from the model

  // Fills in every default, checks, tokenises and plans; loads nothing.
  PreparedRequest prepare(const VideoRequest& request);
  // Throws out_of_memory, with the numbers, when the plan
  // exceeds what this process may take. generate() does it, too.
  void check_memory(const VideoPlan& plan) const;
  // Runs it; returns the request with every default filled in. resume: a state that callbacks.state gave in
  // an earlier run of the same request.
  ResolvedRequest generate(const PreparedRequest& prepared, const VideoCallbacks& callbacks = {},
                           const RunState* resume = nullptr);

  // The same from the request itself. Pictures of another size than the video's are fitted to it.
  VideoPlan plan(const VideoRequest& request) { return prepare(request).plan(); }
  ResolvedRequest generate(const VideoRequest& request, const VideoCallbacks& callbacks = {},
                           const RunState* resume = nullptr);

  // The model's defaults with everything it cannot do
  // without: blank pictures, embeddings of zeros. For plans.
  VideoRequest example_request() const;
  // Differs when the model's weights, options or tokenizer do, or those of a request's adapters.
  std::string fingerprint(std::span<const std::string> loras = {}) const;

 private:
  friend class World;
  const std::shared_ptr<Model>& model() const;
  struct State;
  std::unique_ptr<State> state_;
};

// Ranges for Nsight (NVTX), around what the host queues and replays: a VideoCallbacks' or a World's profiler that leaves graphs
// on. `also` is told of the same ranges, unless it is null. Throws unsupported where this build has no NVTX.
std::unique_ptr<Profiler> nvtx_ranges(Profiler* also = nullptr);

std::string version();  // "0.1.0"

// Options that name the parts of a model.
PartPaths part_paths(const EngineOptions& options);

// A model that ships with the project: $TACHY_MODEL_DIR/NAME, or beside the executable; sprites makes videos from text, talker
// talking photos, world is one that keys steer (api/world.h). Throws not_found, naming the places looked at.
std::filesystem::path shipped_model(std::string_view name = "sprites");

// Latents [z, T, h, w] (or [1, z, T, h, w]) float32, in a .safetensors file under the name "latents".
struct LatentFile {
  std::vector<float> values;
  std::vector<int64_t> shape;
  std::map<std::string, std::string> about;  // what the file says beside them
};
LatentFile read_latents(const std::filesystem::path& path);
void write_latents(const std::filesystem::path& path, std::span<const float> values,
                   std::span<const int64_t> shape, const std::map<std::string, std::string>& about = {});

Speech read_speech_of(const std::filesystem::path& path);          // a sound file, or a film's sound
Picture read_picture(const std::filesystem::path& path);           // PNG, JPEG, WebP
ImageEmbeds read_image_embeds(const std::filesystem::path& path);  // .safetensors, 'image_embeds'
std::shared_ptr<const Picture> fit_picture(const std::shared_ptr<const Picture>& picture,
                                           const std::string& fit, int width, int height);

// The state of a run in a .safetensors file (written under a temporary name, then renamed): `about` holds
// what the caller wants to know before it goes on (settings, model).
void write_run_state(const std::filesystem::path& path, const RunStateView& state,
                     const std::map<std::string, std::string>& about);
struct SavedRun {
  RunState state;
  std::map<std::string, std::string> about;
};
SavedRun read_run_state(const std::filesystem::path& path);

}  // namespace tachy
