// The request that a caller makes, the reports that it gets while the request runs, and the plan made
// beforehand. Uses standard types only: this header is part of the public interface (api/tachyscope.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/pick_record.h"
#include "request/control_plan.h"
#include "request/device_frames.h"
#include "request/inputs.h"
#include "request/parallel.h"
#include "request/talk_windows.h"

namespace tachy {

class Profiler;  // base/profile_range.h

// Fields that are left out come from the model's own defaults.
struct VideoRequest {
  std::string prompt;
  std::optional<std::string> negative_prompt;
  std::optional<int> width, height;  // pixels
  std::optional<int> frames;         // 4n + 1; with speech any number; left out: as long as the speech
  std::optional<double> fps;
  // The preset of a distilled model (presets.h), which fills in those of the next fields that are left out.
  std::optional<std::string> preset;
  std::optional<int> steps;
  std::optional<double> guidance;  // 1 or less: no guidance, one pass per step
  // The guidance of the low-noise expert, in a model that has two; `guidance` is then for the other one.
  std::optional<double> guidance_2;
  // Number of steps of the high-noise expert, the first of two; left out: the boundary of noise decides.
  std::optional<int> high_noise_steps;
  std::optional<double> shift;          // shift of the flow schedule
  std::optional<std::string> sampler;   // unipc, euler, dpm++, dpm++_sde, lcm, or a few-step list's name
  std::optional<std::string> grid;      // diffusers, original, multitalk, wrapper or comfyui
  std::optional<std::string> sinusoid;  // time path of diffusers or original; the model's layout decides
  uint64_t seed = 0;
  std::string rng = "cpu";        // which generator of torch the seed is for: "cpu" or "cuda"
  int rng_multiprocessors = 132;  // of the GPU whose noise is wanted with rng "cuda"
  int max_text_tokens = 512;
  std::vector<float> init_latents;                   // [z, T, h, w] in place of the noise, or empty
  std::shared_ptr<const Picture> image, last_image;  // first and last frame, for models that take them
  std::shared_ptr<const ImageEmbeds> image_embeds;
  // "stretch" to the video's size, as diffusers does, or "crop", which keeps the shape.
  std::string image_fit = "stretch";
  // Videos to begin with (docs/video-in.md). The clip is `video` with as much noise as `strength` says, denoised.
  // Models with control blocks (VACE) follow `control_video`, or keep it outside of the mask's white parts, and
  // look at the references. `vace_strength` is one number, or one for each control block with commas; `outpaint`
  // is L,T,R,B in pixels of the clip, and `keep` is FIRST-LAST, frames of the clip.
  std::shared_ptr<const Footage> video, control_video, mask_video;
  std::shared_ptr<const Picture> reference, reference_2, reference_3, reference_4;
  std::optional<double> strength;
  std::optional<std::string> vace_strength, outpaint, keep;
  // How pictures are prepared for CLIP: as transformers' "processor" or the "original" repository does; if this is left
  // out, the model's layout decides.
  std::optional<std::string> clip_preparation;
  // For InfiniteTalk's audio branch: the speech, its weight (1: as in the model), the number of frames that a window
  // takes over from the one before it, and whose formulas and random draws to use (infinitetalk or wrapper).
  std::shared_ptr<const Speech> speech;
  // For two people in the picture (speakers.h): the second one's speech, whether both begin together, and where they
  // are: a box for each, "X0,Y0,X1,Y1" in the picture's pixels, or a mask for each, of the picture's size and not black
  // where the speaker is; by default the left half and the right half.
  std::shared_ptr<const Speech> speech_2;
  std::optional<std::string> speakers;  // together (default) or one-after-the-other
  std::vector<std::string> speaker_boxes;
  std::shared_ptr<const Picture> speaker_mask, speaker_mask_2;
  std::optional<double> audio_guidance;
  int motion_frames = 9;
  std::string recipe = "infinitetalk";
  // How far each frame's colours move towards the photo's, 0 to 1; left out: 1, or 0 with recipe wrapper.
  std::optional<double> color_correction;
  std::string level = "safe";  // none, safe, aggressive or extreme: sets the defaults of dtype and step_cache
  // The dtype of products: f32, or bf16 where the CPU has instructions for it.
  std::optional<std::string> dtype;
  std::optional<double> step_cache;      // change below which the model's output is reused; 0: never
  std::string step_cache_kind = "rate";  // how a step is judged and what it reuses (denoise/step_cache.h)
  // Optimisations to switch off, by name (ops/implementations.h): "fused-norms", "attention:cpu", or several
  // with commas.
  std::vector<std::string> without;
  std::optional<std::string> residual;  // on a GPU: the transformer's residual stream, f32 or as `dtype`
  std::string attention = "auto";       // products of self-attention: auto, bf16 or int8 (Hopper)
  // For attention in 8 bits: auto uses it if there are so many keys that it is faster, all always uses it.
  std::string int8_keys = "auto";
  std::string math = "auto";      // products of the blocks' linear layers: auto, bf16, fp8, int8 or tf32
  std::string vae_math = "auto";  // the VAE's convolutions: auto or activations (in their dtype), fp8 or int8
  // Block-sparse self-attention: the share of all blocks of keys that a block of queries attends to; 0: off.
  std::optional<double> sparse_attention;
  std::optional<std::string> sparse_chooser;  // top-k, sliding-tile or trained (models/wan/sparse.h)
  std::optional<int> sparse_dense_steps;      // number of first steps in which all keys are attended to
  // How a clip that is longer than the model's training clips is divided (context_windows.h): none, static, uniform or
  // looped; for speech, whose windows follow one another (talk_windows.h): infinitetalk or even. The counts are in video
  // frames: the length of a window, its overlap with the next one, and the largest stride between its frames.
  std::string windows = "none";
  std::optional<int> window_frames;  // left out: the model's own number, 81 for Wan
  int window_overlap = 16, window_stride = 4;
  std::string window_mask = "linear";  // how windows are blended: linear or pyramid
  // With windows, the noise after the first window is that of the frames before it, shuffled.
  std::string free_noise = "on";
  int riflex = 0;  // RIFLEx: slows this frequency of the time axis to less than one turn in the clip; 0: none
  // For models that were trained to make a video block by block (rollout.h): the number of latent frames that are denoised
  // at a time, and the number that each sees, with its own block. 0 means the whole clip at once, and all frames.
  int block = 0, block_window = 0;
  // Adapters, in the order in which they are applied: "FILE[:strength][@high|@low|@both]", a file of any
  // trainer or a folder with one; @ says which of a model's two experts it is for.
  std::vector<std::string> loras;
  std::string lora_mode = "auto";       // merged into the weights ("merge"), or added to products ("runtime")
  std::string lora_unmatched = "warn";  // treatment of layers that match nothing: "warn" or "error"
  bool operator==(const VideoRequest&) const = default;  // compares pictures and sounds by identity
};

struct Progress {
  std::string
      stage;  // "text", "image-embeds", "speech", "image", "video", "load", "denoise", "decode", "motion"
  int64_t done = 0, total = 0;  // over all windows
  double elapsed_seconds = 0;   // time in this stage, or in all windows so far
  double eta_seconds = -1;      // for this stage, or for the rest of all windows; negative: not known yet
  // For a talking photo of several windows: their number and the current one, from 0; otherwise windows is 1.
  int64_t window = 0, windows = 1;
};

struct RgbImage {
  std::span<const uint8_t> rgb;  // [height, width, 3], valid during the call
  int width = 0, height = 0;
};

// A run after some finished steps: everything that the remaining ones need. The view is valid during the
// call. For a talking photo the steps are those of a window, and there is also a view before the first step
// of every window but the first; all frames before that window have been handed out by then. For a video that
// is made block by block, a step is a whole block, and there is no view after the last one.
struct RunStateView {
  int64_t step = 0, steps = 0;  // finished steps, and all steps
  std::span<const float> latents;
  std::vector<std::span<const float>> solver;  // the sampler's tensors, each of the same size as the latents
  std::vector<uint8_t> generator;              // state of the noise generator
  int64_t window = 0, windows = 1;             // the current window, and how many there are
  int64_t frames = 0;                          // frames of the windows before it
  std::span<const float> motion;  // latents [z, m, h, w] that the window begins with; none for the first
};
struct RunPlace {  // says which RunStateView it would be
  int64_t step = 0, steps = 0, window = 0, windows = 1;
};
struct RunState {
  int64_t step = 0;
  std::vector<float> latents;
  std::vector<std::vector<float>> solver;
  std::vector<uint8_t> generator;
  int64_t window = 0, windows = 1, frames = 0;
  std::vector<float> motion;
};

struct VideoCallbacks {
  std::function<void(const Progress&)> progress;
  std::function<void(const RgbImage&, int64_t index)> frame;  // gets each frame in order
  // Gets frames in order in place of `frame`, without a copy, except for videos that are made block by block.
  std::function<void(const DeviceFrames&)> device_frames;
  std::function<void(const RgbImage&, int step)> preview;  // latents as small pictures side by side
  // The final latents of each window, [z, T, h, w].
  std::function<void(std::span<const float>, std::span<const int64_t> shape)> latents;
  std::function<void(const RunStateView&)> state;  // called after each step, and between windows
  // Says before `state` is called whether this state is wanted: a GPU waits while it is copied. Not given: each one is.
  std::function<bool(const RunPlace&)> wants_state;
  // Called after each stage with each op's implementation; OpPick::why marks those that were not planned.
  std::function<void(const std::string& stage, const std::vector<ops::OpPick>&)> picks;
  // `cancel` ends the run; while `hold` is true it waits at its next stopping point (tensor/hold.h).
  const std::atomic<bool>*cancel = nullptr, *hold = nullptr;
  Profiler* profiler = nullptr;  // is told of each module's time
};

struct StagePlan {
  std::string name;           // as Progress::stage, without "load"
  uint64_t mapped_bytes = 0;  // weights used where they lie in the file (page cache)
  uint64_t weight_bytes = 0;  // packed or widened copies, caches, tables
  uint64_t part_bytes = 0;    // the part of weight_bytes that other runs may share
  uint64_t arena_bytes = 0;   // activations and library scratch
  double flops = 0;
  double seconds = 0;  // predicted from a short measurement of this machine
  // On a GPU: `streamed` of the `blocks` blocks of block_bytes each lie in page-locked host memory and pass
  // through two slots on the GPU (included in weight_bytes).
  int64_t blocks = 0, streamed = 0;
  uint64_t block_bytes = 0, host_bytes = 0;
  std::vector<ops::OpPick> picks;    // the implementation of each op, in the order of a run's calls
  std::string adapters, adapters_2;  // adapters that are merged into the stage's part or parts; empty: none
};

// The part of a prompt that the model does not read, because the prompt has more tokens than there is room for.
struct DroppedTokens {
  std::string field;  // "prompt", "negative_prompt"
  int64_t tokens = 0, dropped = 0;
  std::string words;  // "brightly lit … by the sea"
};

// An optimisation of a run, as its plan shows it (optimisations.h).
struct OptimisationState {
  std::string name;   // as `without` takes it, or the field that decides it: "`dtype`"
  std::string off;    // how to switch off only this: "`without` fused-norms", "`dtype` f32"
  std::string means;  // a description in one line
  bool on = false;
  std::string why;    // the reason why it is on, or why not
  std::string worth;  // a figure and the machine that it was measured on, or a note that there is none
};

struct VideoPlan {
  std::vector<StagePlan> stages;
  std::vector<RankPlan> ranks;  // empty: a single rank does everything
  Parallel parallel;            // with several ranks: how they share a pass, and why so
  std::string parallel_why;
  bool equal_bits = true;     // whether the frames are those of one rank, bit for bit
  uint64_t shared_bytes = 0;  // text embeddings and latents, held across stages
  uint64_t peak_bytes = 0;    // exact: Buffers and Arenas at the worst moment; on a GPU those in its memory
  uint64_t host_bytes = 0;    // on a GPU: page-locked host memory, at the worst moment
  uint64_t budget_bytes = 0;  // on a GPU: the limit for peak_bytes
  uint64_t graph_bytes = 0;   // on a GPU: set aside beside peak_bytes for the driver's graphs
  std::string budget;  // where the limit comes from, for messages: "`max_vram` 8.0 GiB", "36.1 GiB free of …"
  std::string would_fit;    // if the plan does not fit: something that would
  bool keeps = false;       // whether models, and the memory that steps need, stay for the next request
  bool keys_stay = false;   // on a GPU: whether the layers that make keys of the prompt stay there as well
  int64_t vae_latents = 1;  // latent frames that the VAE takes at a time
  double seconds = 0;
  std::vector<DroppedTokens> dropped_tokens;
  std::vector<OptimisationState> optimisations;  // all optimisations, whether on or off
};

// The request with nothing left out, after validation.
struct ResolvedRequest {
  VideoRequest request;  // every optional filled
  // Size of what is denoised at once: the clip, or one window of a talking photo.
  int64_t clip_frames = 0, latent_frames = 0, latent_height = 0, latent_width = 0, latent_channels = 0;
  TalkWindows talk;                // for a talking photo
  bool guided = false;             // whether any step has guidance
  bool pictured = false;           // whether the video begins with a picture
  ControlPlan control;             // for models with control blocks
  int clip_pictures = 0;           // number of pictures that the model's image encoder will see
  std::vector<float> clip_pixels;  // those pictures, prepared by the Engine: [clip_pictures, 3, side, side]
  std::vector<float> speech;    // the audio encoder's input, which the Engine makes from the request's speech
  std::vector<float> speech_2;  // the same for the second speaker, as long as the first one's
  // For two speakers, three masks in turn: 1 where a frame's token shows the first, the second, or neither.
  std::vector<uint8_t> speaker_regions;
  int64_t speakers() const { return request.speech_2 ? 2 : 1; }
  int steps_reused = 0;     // number of steps that the step cache saved, after a run
  uint64_t seen_bytes = 0;  // the most that it and runs beside it held, counted as peak_bytes, after a run
};

}  // namespace tachy
