// What a caller asks of a pipeline, what it is told while it runs, and the plan made beforehand. Standard
// types only: this header is part of the public interface (api/tachyscope.h).
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
#include "request/talk_windows.h"

namespace tachy {

class Profiler;  // base/profile_range.h

// A picture to begin (or end) a video with, of any size; the Engine fits it to the video's.
struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

// What the CLIP vision model makes of the picture (diffusers' image_embeds), for models that have an image branch.
// Given, it stands for the model's own image encoder.
struct ImageEmbeds {
  std::vector<float> values;
  std::vector<int64_t> shape;  // [n, d] or [1, n, d]; both pictures of a first-last-frame model: [2, n, d]
};
// What a talking photo says: one channel at 16 kHz (media/sound/sound_reader.h), as it is in the file; the Engine makes it as loud
// as models of speech expect.
struct Speech {
  std::vector<float> samples;
};
// Everything left out comes from the model's own defaults.
struct VideoRequest {
  std::string prompt;
  std::optional<std::string> negative_prompt;
  std::optional<int> width, height;  // pixels
  std::optional<int> frames;         // 4n + 1; with speech any number, and left out as long as that is
  std::optional<double> fps;
  std::optional<std::string>
      preset;  // of a distilled model (presets.h): fills what of the next ones is left out
  std::optional<int> steps;
  std::optional<double> guidance;  // 1 or less: no guidance, one pass a step
  std::optional<double>
      guidance_2;  // of the low-noise expert, where a model has two; guidance is then the other's
  std::optional<double> shift;          // of the flow schedule
  std::optional<std::string> sampler;   // unipc, euler, dpm++, dpm++_sde, lcm, or a few-step list's name
  std::optional<std::string> grid;      // diffusers, original, multitalk or wrapper
  std::optional<std::string> sinusoid;  // time path of diffusers or original; the model's layout decides
  uint64_t seed = 0;
  std::string rng = "cpu";        // whose noise the seed means: torch's "cpu" or "cuda" generator
  int rng_multiprocessors = 132;  // of the GPU whose noise is wanted with rng "cuda"
  int max_text_tokens = 512;
  std::vector<float> init_latents;                   // [z, T, h, w] in place of the noise, or empty
  std::shared_ptr<const Picture> image, last_image;  // first and last frame, for models that take them
  std::shared_ptr<const ImageEmbeds> image_embeds;
  std::string image_fit = "stretch";  // to the video's size as diffusers does it; "crop" keeps the shape
  // How the pictures are made ready for CLIP: as transformers' "processor" does it, or the "original" repository;
  // the model's layout decides.
  std::optional<std::string> clip_preparation;
  // For transformers with InfiniteTalk's audio branch: what is said, how much it counts (1: as the model has it), how many
  // frames a window takes over from the one before it, and whose formulas and random draws: infinitetalk or wrapper.
  std::shared_ptr<const Speech> speech;
  // Two people in the picture (speakers.h): what the second one says, whether both begin together or the second one after the
  // first, and where they are: a box each, "X0,Y0,X1,Y1" in the picture's pixels, or a mask each, of its size, not black where
  // the speaker is; neither: the left half and the right one.
  std::shared_ptr<const Speech> speech_2;
  std::optional<std::string> speakers;  // together (default) or one-after-the-other
  std::vector<std::string> speaker_boxes;
  std::shared_ptr<const Picture> speaker_mask, speaker_mask_2;
  std::optional<double> audio_guidance;
  int motion_frames = 9;
  std::string recipe = "infinitetalk";
  // How far each frame's colours are brought to the photo's, 0 to 1; left out: 1, and 0 with recipe wrapper.
  std::optional<double> color_correction;
  std::string level = "safe";  // none, safe, aggressive, extreme: what the two below default to
  std::optional<std::string>
      dtype;  // what products multiply in: f32, or bf16 where the CPU has instructions for it
  std::optional<double> step_cache;  // reuse the model's output while it changes by less than this; 0: never
  // Optimisations that are switched off, by name (ops/implementations.h): "fused-norms", "attention:cpu", or several with commas.
  std::vector<std::string> without;
  std::optional<std::string> residual;  // on a GPU: the transformer's residual stream, f32 or dtype's
  std::string attention = "auto";       // what self-attention multiplies in: auto, bf16 or int8 (Hopper)
  // With attention in 8 bits, where: auto, from so many keys on that it is faster, or all.
  std::string int8_keys = "auto";
  std::string math = "auto";      // what the blocks' linear layers multiply in: auto, bf16, fp8, int8 or tf32
  std::string vae_math = "auto";  // and the VAE's convolutions: auto (as the activations), activations or fp8
  // Block-sparse self-attention: the share of all blocks of keys that a block of queries attends to; 0: off.
  std::optional<double> sparse_attention;
  std::optional<std::string> sparse_chooser;  // of these blocks: top-k or sliding-tile
  std::optional<int> sparse_dense_steps;      // so many first steps attend to all keys nevertheless
  // Clips that are longer than what the model was trained on (context_windows.h): none, static, uniform or looped; with
  // speech one after the other (talk_windows.h): infinitetalk, or even. Frames of the video that a window holds, shares with the next one, and skips at most from one to the next.
  std::string windows = "none";
  std::optional<int> window_frames;  // the model's own number, 81 of Wan's
  int window_overlap = 16, window_stride = 4;
  std::string window_mask = "linear";  // how windows are blended: linear or pyramid
  std::string free_noise =
      "on";        // with windows: noise behind the first one is that of the frames before, shuffled
  int riflex = 0;  // RIFLEx: this frequency of the time axis turns less than once in the clip; 0: none
  // Block by block (rollout.h), for models that were trained for it: latent frames that are denoised at a time, and how many
  // each of them sees, its own block's among them. 0: the whole clip at once; all that there are.
  int block = 0, block_window = 0;
  // Adapters, in the order in which they are applied: "FILE[:strength][@high|@low|@both]", a file of any trainer
  // or a folder with one; @ says which of a model's two experts it is for.
  std::vector<std::string> loras;
  std::string lora_mode = "auto";       // merged into the weights ("merge"), or added to products ("runtime")
  std::string lora_unmatched = "warn";  // what layers that fit nothing are: "warn" or "error"
};

struct Progress {
  std::string stage;  // "text", "image-embeds", "speech", "image", "load", "denoise", "decode", "motion"
  int64_t done = 0, total = 0;  // of all windows
  double elapsed_seconds = 0;   // of this stage, or of all windows so far
  double eta_seconds = -1;  // of this stage, or of all that is left of the windows; negative: not known yet
  // Of a talking photo of several windows: how many, and which is under way, from 0; windows 1: no such.
  int64_t window = 0, windows = 1;
};

struct RgbImage {
  std::span<const uint8_t> rgb;  // [height, width, 3], valid during the call
  int width = 0, height = 0;
};

// A run after some finished steps: all that the remaining ones need. The view is valid during the call. A talking photo's
// is of a window's steps, and comes before the first one of each but the first window as well: the frames before it have
// been handed out then. Of a video that is made block by block a step is a whole block; none is told of the last one.
struct RunStateView {
  int64_t step = 0, steps = 0;  // finished steps, of how many
  std::span<const float> latents;
  std::vector<std::span<const float>> solver;  // the sampler's tensors, each of the latents' size
  std::vector<uint8_t> generator;              // of the noise
  int64_t window = 0, windows = 1;             // the window under way, of how many
  int64_t frames = 0;                          // of the windows before it
  std::span<const float> motion;  // what it begins with: latents [z, m, h, w]; of the first, none
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
  std::function<void(const RgbImage&, int64_t index)> frame;  // in order, as they are decoded
  std::function<void(const RgbImage&, int step)> preview;     // latents as small pictures side by side
  std::function<void(std::span<const float>, std::span<const int64_t> shape)>
      latents;                                     // final, [z, T, h, w], of each window
  std::function<void(const RunStateView&)> state;  // after each step, and between windows
  // After each stage: which implementation each op got. What the plan did not count says so (OpPick::why).
  std::function<void(const std::string& stage, const std::vector<ops::OpPick>&)> picks;
  const std::atomic<bool>* cancel = nullptr;
  Profiler* profiler = nullptr;  // told of each module's time
};

struct StagePlan {
  std::string name;           // "text", "image-embeds", "speech", "image", "denoise", "decode", "motion"
  uint64_t mapped_bytes = 0;  // weights used where they lie in the file (page cache)
  uint64_t weight_bytes = 0;  // packed or widened copies, caches, tables
  uint64_t part_bytes = 0;    // those of them that belong to the model's parts, which other runs may share
  uint64_t arena_bytes = 0;   // activations and library scratch
  double flops = 0;
  double seconds = 0;  // predicted from a short measurement of this machine
  // On a GPU: of `blocks` blocks of block_bytes, `streamed` lie in page-locked host memory and pass through
  // two slots on the GPU (part of weight_bytes).
  int64_t blocks = 0, streamed = 0;
  uint64_t block_bytes = 0, host_bytes = 0;
  std::vector<ops::OpPick> picks;    // which implementation each op gets, by the calls of a run
  std::string adapters, adapters_2;  // what is merged into the stage's part, or parts; empty: nothing
};

// The part of a prompt that the model does not read, because it has more tokens than there is room for.
struct DroppedTokens {
  std::string field;  // "prompt", "negative_prompt"
  int64_t tokens = 0, dropped = 0;
  std::string words;  // "brightly lit … by the sea"
};

// An optimisation of a run, as its plan shows it (optimisations.h).
struct OptimisationState {
  std::string name;   // as `without` takes it, or the field that decides it: "`dtype`"
  std::string off;    // how it is switched off alone: "`without` fused-norms", "`dtype` f32"
  std::string means;  // in one line
  bool on = false;
  std::string why;    // that it is, or that it is not
  std::string worth;  // a figure with the machine that it was measured on, or that there is none
};

// The part that one of several ranks computes of a denoising pass (`ranks`): so many of guidance's branches, of the clip's tokens (or of a
// window's) and, in self-attention, of the heads.
struct RankPlan {
  int threads = 1;
  int64_t first_branch = 0, branches = 0, first_token = 0, tokens = 0, first_head = 0, heads = 0;
};

struct VideoPlan {
  std::vector<StagePlan> stages;
  std::vector<RankPlan> ranks;  // empty: one has all
  uint64_t shared_bytes = 0;    // text embeddings and latents, held across stages
  uint64_t peak_bytes = 0;      // exact: every Buffer and Arena at the worst moment; on a GPU those there
  uint64_t host_bytes = 0;      // on a GPU: page-locked on the host, at the worst moment
  uint64_t budget_bytes = 0;    // on a GPU: what peak_bytes may be
  uint64_t graph_bytes = 0;     // on a GPU: set aside beside peak_bytes for the driver's graphs
  std::string budget;           // what sets it, for messages: "`max_vram` 8.0 GiB", "36.1 GiB free of …"
  std::string would_fit;        // where it does not: what would
  bool keeps = false;           // whether models stay loaded for the next request, and what its steps need
  double seconds = 0;
  std::vector<DroppedTokens> dropped_tokens;
  std::vector<OptimisationState> optimisations;  // what of them is on
};

// The same with nothing left out, after validation.
struct ResolvedRequest {
  VideoRequest request;  // every optional filled
  // Of what is denoised at once: the clip, or one window of a talking photo's.
  int64_t clip_frames = 0, latent_frames = 0, latent_height = 0, latent_width = 0, latent_channels = 0;
  TalkWindows talk;                // of a talking photo
  bool guided = false;             // in some step
  bool pictured = false;           // begins with a picture
  int clip_pictures = 0;           // that the model's image encoder will look at
  std::vector<float> clip_pixels;  // these, prepared: [clip_pictures, 3, side, side]; the Engine makes them
  std::vector<float> speech;       // what the audio encoder hears; the Engine makes it of the request's
  std::vector<float> speech_2;     // of the second speaker, as long as the first one's
  // Of two speakers: 1 where a token of a frame shows the first one, the second, neither: one after the other.
  std::vector<uint8_t> speaker_regions;
  int64_t speakers() const { return request.speech_2 ? 2 : 1; }
  int steps_reused = 0;  // by the step cache, after a run
};

}  // namespace tachy
