// The stable C++ interface of Tachyscope: open a model, plan, generate, cancel, look inside.
//
//   tachy::Engine engine("models/sprites");
//   engine.generate({.prompt = "a red circle moves right"},
//                   {.frame = [](const tachy::RgbImage& image, int64_t index) { … }});
//
// Errors are tachy::Error (base/error.h) with a code and a text for people.
//
// An Engine is a model: its parts are loaded once and shared by all runs. Several threads may call all of its
// functions at once; each generate() is a session of its own, with its own memory, queue and callbacks, which
// are called in the calling thread. A run whose memory does not fit beside that of the others waits for them,
// including those of other Engines on the same device. Runs are admitted in the order in which they came: a
// small one does not overtake a large one that waits. Worlds (api/world.h) may be opened on an Engine's
// model; a run does not wait for the memory that they hold. `cancel` may be set from any thread or a signal
// handler.
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
namespace runtime {
class Crew;
}

struct EngineOptions {
  int threads = 0;  // 0: all processors that this process may use
  // On the CPU, `ranks` threads of this process divide each denoising pass as several devices would: first
  // the branches of guidance, then tokens and attention heads. In the VAE they divide the picture's rows.
  // `threads` counts all of them together. The frames are the same, except as `parallel` says.
  int ranks = 1;
  // The GPUs that divide each denoising pass: "all", how many ("4": the first four) or which ("0,2"). The first one
  // does all else. `device` names that one, or is "cuda". "": `device` alone.
  std::string gpus;
  // How the ranks share a pass: "auto", or the sizes of three divisions, whose product is `ranks`, such as
  // "cfg=2,ulysses=4,ring=1": branches of guidance, heads, and keys that go round. With a ring above 1 the
  // frames differ in their last bits, and the settings of a video say so under the key "parallel".
  std::string parallel = "auto";
  // The processes that make each video together, of which this is one (runtime/crew.h). Rank 0 hands out the
  // frames; generate() of the others gets no frames and returns after the last step.
  std::shared_ptr<runtime::Crew> crew = nullptr;
  // "packed" (float32 copies, faster), "mapped" (used where they lie in the file) or "auto" (packed if
  // small). "read" reads the files into memory at the start, for folders whose files may change or vanish in
  // the meantime.
  std::string weights = "auto";
  // Keeps the model, and the memory that a run of the same shape needs, between calls of generate.
  bool keep_loaded = false;
  std::string device = "cpu";  // "cpu", "cuda", "cuda:1" …, or "auto": a GPU if there is one
  bool graphs = true;          // on a GPU: denoising steps are captured once and replayed
  // With false, every intermediate result is allocated by itself (slow, for hunting memory errors).
  bool arena = true;
  // On a GPU: the bytes that all runs together may take there. Transformer blocks that do not fit are
  // streamed through this memory. 0: all that is free.
  uint64_t max_vram = 0;
  // Engines and worlds of this process for which this is set share one limit: the runs of all of them together take
  // no more than `max_vram`.
  bool shares_vram = false;
  // Runs wait until an open world is closed if they do not fit beside it. Otherwise they are refused.
  bool waits_for_worlds = false;
  // A folder that keeps prompts' embeddings, so that the text encoder need not be loaded for the same prompts
  // again; empty: none.
  std::string text_cache;
  // On a GPU: compares the weights there with the files, after loading and at the end.
  bool verify_upload = false;
  // Parts of the model that lie elsewhere: a file, a component's folder, or the folder of a model that has
  // this part. They replace the model's own parts, and complete a model that is a single file. "" means the
  // model's own part, or the one in ComfyUI's folders beside its file.
  std::string transformer_2, text_encoder, vae, tokenizer, image_encoder;
  // For talking photos: InfiniteTalk's file, whose tensors are added to the transformer, and the wav2vec2
  // that encodes the speech.
  std::string infinitetalk, audio_encoder;
  // With `keep_loaded`: how many seconds an idle run's resources (memory, graphs, further queues of a GPU)
  // are kept for the next run of the same shape, which otherwise makes them again. 0 gives them back at once;
  // kAlwaysKept keeps them. The model's loaded parts stay in any case.
  static constexpr int kAlwaysKept = -1;
  int idle_seconds = 600;
};

// Returns the device of the first of `gpus` (EngineOptions::gpus), as "cuda:N". Throws invalid_argument for a text
// that means nothing or does not go with `device`, and unsupported where there are too few GPUs.
std::string first_of_gpus(const std::string& gpus, const std::string& device);
// The same for all of them, in the order in which they are named.
std::vector<std::string> devices_of_gpus(const std::string& gpus, const std::string& device);

// Chooses the device of this machine that a wish means: "cpu" or "cuda:N". "auto" is the first GPU that this
// build can use now, otherwise the CPU, with a line on stderr that says which or why. "" stands for the value
// of TACHY_DEVICE, or else for auto. Throws invalid_argument for any other text.
std::string choose_device(const std::string& wish);
// Says whether this build can see a GPU; `why` gets the reason if it cannot.
bool gpu_there(std::string* why = nullptr);
bool is_automatic(const std::string& wish);  // says whether the machine is to choose

// Turns "8GiB", "12G", "7500MiB" or "8GB" (powers of 1000) into bytes; throws invalid_argument with examples
// of what works.
uint64_t parse_bytes(const std::string& text);

// The things that a model takes beside a prompt, each "no", "optional" or "required".
struct ModelInputs {
  std::string kind;  // "text-to-video", "image-to-video" …
  std::string image, last_image, speech;
  std::string video, control;  // a video to change; VACE's control video and references
  int experts = 1;             // the number of its transformers
};

// A plan that waits should not hold a video's frames: then generate() reads them, and the files must be there until it
// has.
enum class ReadVideos { now, when_run };

// A request that an Engine has resolved, tokenised and planned, so that the same Engine can run it: each of
// these steps is done once.
class PreparedRequest {
 public:
  const VideoRequest& request() const;  // has every default filled in, and pictures of the video's size
  const VideoPlan& plan() const;        // exact memory and predicted time

 private:
  friend class Engine;
  struct State;
  explicit PreparedRequest(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

class Engine {
 public:
  // `model` is a folder, or the file of a transformer.
  explicit Engine(const std::filesystem::path& model, const EngineOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  int threads() const;
  std::string device() const;            // "cpu", or the GPU's name
  const VideoRequest& defaults() const;  // has every optional filled in from the model
  ModelInputs inputs() const;
  int size_multiple() const;   // the sides of a video in pixels are multiples of this
  int frame_multiple() const;  // the number of its frames is a multiple of this, plus 1

  // Fills in every default, checks, tokenises and plans; loads nothing. Throws cancelled soon after `cancel` is set,
  // unless that is null. `videos` says when the frames of the request's videos are read.
  PreparedRequest prepare(const VideoRequest& request, const std::atomic<bool>* cancel = nullptr,
                          ReadVideos videos = ReadVideos::now);
  // Throws out_of_memory, with the numbers, when the plan exceeds what this process may take. generate() does
  // the same.
  void check_memory(const VideoPlan& plan) const;
  // Says whether generate() would begin at once now, beside the runs that are under way on the device. What idle runs
  // keep is released for it if that is needed.
  bool fits_beside(const PreparedRequest& prepared) const;
  // Runs the request and returns it with every default filled in. `resume` is a state that callbacks.state
  // got in an earlier run of the same request.
  ResolvedRequest generate(const PreparedRequest& prepared, const VideoCallbacks& callbacks = {},
                           const RunState* resume = nullptr);

  // These take the request itself and prepare it first. Pictures whose size differs from the video's are
  // fitted to it.
  VideoPlan plan(const VideoRequest& request) { return prepare(request).plan(); }
  ResolvedRequest generate(const VideoRequest& request, const VideoCallbacks& callbacks = {},
                           const RunState* resume = nullptr);

  // Returns the model's defaults with placeholders for everything that it cannot do without: blank pictures,
  // embeddings of zeros. The request is for plans.
  VideoRequest example_request() const;
  // Returns a fingerprint that changes with the model's weights, options and tokenizer, and with the adapters
  // of a request. It is computed once for the same files.
  std::string fingerprint(std::span<const std::string> loras = {}) const;

 private:
  friend class World;
  const std::shared_ptr<Model>& model() const;
  struct State;
  std::unique_ptr<State> state_;
};

// Returns a profiler that puts ranges for Nsight (NVTX) around everything that the host queues and replays.
// It is for VideoCallbacks or a World, and it leaves graphs on. `also` is told of the same ranges, unless it
// is null. Throws unsupported if this build has no NVTX.
std::unique_ptr<Profiler> nvtx_ranges(Profiler* also = nullptr);

std::string version();  // for example "0.2.0"

// Returns the options that name parts of a model, as paths.
PartPaths part_paths(const EngineOptions& options);

// Finds a model that ships with the project, in $TACHY_MODEL_DIR/NAME or beside the executable. "sprites"
// makes videos from text, "talker" makes talking photos, and "world" is steered by keys (api/world.h). Throws
// not_found, naming the places where it looked.
std::filesystem::path shipped_model(std::string_view name = "sprites");

// Latents [z, T, h, w] (or [1, z, T, h, w]) as float32, in a .safetensors file under the name "latents".
struct LatentFile {
  std::vector<float> values;
  std::vector<int64_t> shape;
  std::map<std::string, std::string> about;  // the file's metadata
};
LatentFile read_latents(const std::filesystem::path& path);
void write_latents(const std::filesystem::path& path, std::span<const float> values,
                   std::span<const int64_t> shape, const std::map<std::string, std::string>& about = {});

// Returns what a .safetensors file says of itself, its metadata; of other files, nothing. Reads no tensor.
std::map<std::string, std::string> read_metadata(const std::filesystem::path& path);

Speech read_speech_of(const std::filesystem::path& path);  // a sound file, or the sound of a film
Picture read_picture(const std::filesystem::path& path);   // PNG, JPEG, WebP
// Describes a video, without its frames. Throws invalid_argument for one that has more frames or pixels than are allowed.
struct FootageLimits {
  int64_t frames = 0, pixels = 0;  // in the video, and in one frame; 0: those of the reader
};
Footage read_footage(const std::filesystem::path& path, const FootageLimits& limits = {});
// Decodes the first frames of a file that somebody has sent. If it ends before as many as it states, these are all that
// it has. Throws corrupt for frames that are damaged, and with `mask` invalid_argument for those that are no mask's.
void look_at_frames(Footage& footage, int64_t most_frames, bool mask);
// Returns the hash of a video's file, or of all files of a folder or a pattern of pictures in their order. Throws
// not_found, naming the input that the video is for.
std::string sha256_of_footage(const std::string& path, const std::string& input);
ImageEmbeds read_image_embeds(const std::filesystem::path& path);  // .safetensors, 'image_embeds'
std::shared_ptr<const Picture> fit_picture(const std::shared_ptr<const Picture>& picture,
                                           const std::string& fit, int width, int height);

// The state of a run in a .safetensors file, which is written under a temporary name and then renamed.
// `about` holds what the caller wants to know before it goes on (settings, model).
void write_run_state(const std::filesystem::path& path, const RunStateView& state,
                     const std::map<std::string, std::string>& about);
struct SavedRun {
  RunState state;
  std::map<std::string, std::string> about;
};
SavedRun read_run_state(const std::filesystem::path& path);

}  // namespace tachy
