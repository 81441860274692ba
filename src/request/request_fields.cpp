#include "request/request_fields.h"

#include "request/level.h"
#include "request/presets.h"
#include "request/step_cache_config.h"

namespace tachy {
namespace {

using R = VideoRequest;

bool fitted(const R& r) { return r.image || r.last_image || r.video || r.control_video; }

std::vector<RequestField> video_fields() {
  return {
      {"prompt", "prompt", &R::prompt, "what the video should show"},
      {"negative_prompt", "negative_prompt", &R::negative_prompt, "what the video should not show"},
      {"image_fit", "image_fit", &R::image_fit,
       "how a picture or a video is fitted to the clip: stretch (default, as in diffusers) or crop (keeps "
       "its "
       "proportions)",
       Choices{"stretch", "crop"}, fitted},
      {"clip_preparation", "clip_preparation", &R::clip_preparation,
       "how pictures are prepared for CLIP, with Wan 2.1's models: processor (as in diffusers: the middle is "
       "cut out) or original (the whole picture is squeezed to a square); default: by the model's layout",
       Choices{"processor", "original"}, [](const R& r) { return r.image && !r.image_embeds; }},
      {"width", "width", &R::width, "width in pixels", Range{1, 16384}},
      {"height", "height", &R::height, "height in pixels", Range{1, 16384}},
      {"frames", "num_frames", &R::frames,
       "number of frames, a multiple of 4 plus 1, such as 81; for a talking photo the most frames to make "
       "(default: as long as the speech)",
       Range{1, 65536}},
      {"fps", "fps", &R::fps, "frames per second of the video file",
       Range{0.1, 240}},  // as VideoWriter takes them
  };
}

std::vector<RequestField> sampling_fields() {
  return {
      {"preset", "preset", &R::preset,
       "settings for a distilled model: steps, sampler, shift and guidance, where you do not give them "
       "yourself (`tachyscope presets` lists what each preset sets)",
       preset_names()},
      {"steps", "num_inference_steps", &R::steps, "number of denoising steps", Range{1, 1000}},
      {"guidance", "guidance_scale", &R::guidance,
       "guidance scale: how strongly the video follows the prompt; 1 or less turns it off, at half the cost",
       Range{0, 100}},
      {"guidance_2", "guidance_scale_2", &R::guidance_2,
       "guidance scale of the low-noise expert, for models with two experts (Wan 2.2 A14B); `guidance` is "
       "then the scale of the high-noise expert (default: the same as `guidance`, if that is given)",
       Range{0, 100}},
      {"high_noise_steps", "high_noise_steps", &R::high_noise_steps,
       "number of steps of the high-noise expert, for models with two experts (default: as long as the noise "
       "is "
       "above the model's boundary)",
       Range{0, 1000}},
      {"shift", "flow_shift", &R::shift,
       "shift of the flow schedule; a larger one spends more of the steps at high noise",
       Range{.least = 0, .most = 100, .above = true}},
      // Names of samplers and grids have aliases, which their parsers know (samplers/names.cpp).
      {"sampler", "sampler", &R::sampler,
       "sampler: unipc, euler, dpm++, dpm++_sde, lcm, or the list of a distilled model, such as lightx2v-4"},
      {"grid", "grid", &R::grid,
       "whose sigmas and timesteps to use: diffusers, original, multitalk, wrapper or comfyui (default: by "
       "the "
       "model's layout, or by the sampler)"},
      {"sinusoid", "sinusoid", &R::sinusoid,
       "whose embedding of time to use: diffusers (float32) or original (float64) (default: by the layout)",
       Choices{"diffusers", "original"}},
      {"seed", "seed", &R::seed, "seed of the noise, as in PyTorch (default 0)"},
      {"rng", "rng", &R::rng, "which PyTorch generator the seed is for: cpu or cuda", Choices{"cpu", "cuda"}},
      {"rng_multiprocessors", "rng_multiprocessors", &R::rng_multiprocessors,
       "number of multiprocessors of the GPU that `rng` cuda imitates (default 132)", Range{1, 1024},
       [](const R& r) { return r.rng == "cuda"; }},
      {"max_text_tokens", "max_sequence_length", &R::max_text_tokens,
       "number of text tokens the model reads; the rest of a longer prompt is dropped (default 512)",
       Range{1, 4096}},
  };
}

bool windowed(const R& r) { return r.windows != "none"; }
bool by_blocks(const R& r) { return r.block != 0; }

std::vector<RequestField> window_fields() {
  return {
      {"windows", "context_windows", &R::windows,
       "for clips longer than the model was made for: predict them in overlapping windows of `window_frames` "
       "and blend them. none (default): the whole clip at once; static: windows at fixed places; uniform: "
       "windows at other places in each step; looped: the same for a clip whose end runs on into its "
       "beginning. With speech: infinitetalk (default), where each window begins with the last frames of the "
       "one before, or even, the same in windows of equal length that are as short as possible",
       Choices{"none", "static", "uniform", "looped", "infinitetalk", "even"}, windowed},
      {"window_frames", "context_frames", &R::window_frames,
       "frames in a window (default: the length the model was made for, 81 for Wan)", Range{5, 65536},
       windowed},
      {"window_overlap", "context_overlap", &R::window_overlap,
       "frames that neighbouring windows share (default 16)", Range{0, 65532}, windowed},
      {"window_stride", "context_stride", &R::window_stride,
       "for uniform and looped windows: largest distance between the frames of a window; below 8 no frame is "
       "skipped (default 4)",
       Range{1, 64}, windowed},
      {"window_mask", "context_mask", &R::window_mask,
       "how windows are blended: linear (ramps where they overlap; default) or pyramid",
       Choices{"linear", "pyramid"}, windowed},
      {"free_noise", "free_noise", &R::free_noise,
       "with windows: on (default): later windows reuse the noise of the first one, with its frames "
       "shuffled; off: each frame has noise of its own",
       Choices{"on", "off"}, windowed},
      {"riflex", "riflex", &R::riflex,
       "RIFLEx, which keeps long clips from repeating themselves: the number of the time frequency that is "
       "slowed down, 6 for Wan; 0: off (default 0)",
       Range{.least = 0, .most = 512, .zero = "off"}, [](const R& r) { return r.riflex != 0; }},
      {"block", "causal_block", &R::block,
       "make the video block by block, for models trained for it: the number of latent frames in a block (3 "
       "for Self-Forcing and CausVid), each of which sees those before it; 0: the whole clip at once "
       "(default 0)",
       Range{.least = 0, .most = 16384, .zero = "off"}, by_blocks},
      {"block_window", "causal_window", &R::block_window,
       "with `block`: the number of latent frames that a block sees, its own included; 0: all (default 0)",
       Range{.least = 0, .most = 16384, .zero = "all"}, by_blocks},
  };
}

// Settings of runs without sparse attention are the same as before it existed.
bool sparse(const R& r) { return r.sparse_attention.value_or(0) > 0; }

std::vector<RequestField> arithmetic_fields() {
  return {
      {"level", "level", &R::level,
       "how much accuracy to trade for speed: none (plain reference code, very slow), safe (float32, "
       "default), aggressive (bf16) or extreme (bf16 and step cache; on a GPU from 8.9 on also fp8); "
       "`tachyscope "
       "doctor` lists what each level turns on here",
       level_names()},
      // The allowed values of `dtype` and `residual` depend on the device (gpu_mode.cpp, resolve_level in
      // resolve.cpp).
      {"dtype", "dtype", &R::dtype,
       "precision of matrix products, whatever the level says: f32, or bf16 where the CPU has instructions "
       "for it (faster, within about 1 %)"},
      {"without",
       "without",
       &R::without,
       "switch off these optimisations, separated by commas: names that `tachyscope doctor` lists, or a "
       "kernel as op:implementation; repeat the option for more",
       {},
       [](const R& r) { return !r.without.empty(); }},
      {"residual", "residual", &R::residual,
       "on a GPU: precision of the transformer's residual stream: f32 (as in the original; default) or bf16 "
       "(as in diffusers; default from level aggressive on)"},
      {"attention", "attention", &R::attention,
       "precision of self-attention: auto (default: chosen by the level, at present always the activations' "
       "dtype), bf16 (whatever the level says) or int8 (on a GPU from compute capability 8.0 on, a "
       "quarter faster: queries and keys in 8 bits, on Hopper also values, where those can hold them)",
       Choices{"auto", "bf16", "int8"}, [](const R& r) { return r.attention != "auto"; }},
      {"int8_keys", "int8_keys", &R::int8_keys,
       "with `attention` int8: auto (default: only with 2,048 keys or more, where it is faster) or all (also "
       "with fewer, to see what it does to small videos)",
       Choices{"auto", "all"}, [](const R& r) { return r.int8_keys != "auto"; }},
      {"math", "math", &R::math,
       "precision of the linear layers in the transformer's blocks: auto (default: chosen by the level: fp8 "
       "at level extreme on a GPU from compute capability 8.9 on, otherwise the activations' dtype), bf16 "
       "(whatever the level says), "
       "fp8 (on a GPU: e4m3 with one scale per row, half the memory for weights), int8 (the same in int8, "
       "also on a CPU) or tf32 (on a GPU with dtype f32: all linear layers round what they multiply to TF32)",
       Choices{"auto", "bf16", "fp8", "int8", "tf32"}, [](const R& r) { return r.math != "auto"; }},
      {"vae_math", "vae_math", &R::vae_math,
       "precision of the convolutions in the VAE's residual blocks: auto (default: the activations' dtype, "
       "at every level), activations, fp8 (e4m3; on a GPU from compute capability 8.9 on with activations "
       "in bf16; works on a CPU, but slowly) or int8 (the same in int8, from compute capability 8.0 on)",
       vae_math_choices(), [](const R& r) { return r.vae_math != "auto"; }},
      {"step_cache", "step_cache", &R::step_cache,
       "step cache: skip a step and reuse the model's last output while its predicted relative change is "
       "below this number; 0: never; with `step_cache_kind`, that method's own threshold",
       Range{.least = 0, .most = 1, .zero = "off"}},
      {"step_cache_kind", "step_cache_kind", &R::step_cache_kind,
       "method of the step cache: rate (default: this engine's own), easycache, teacache, magcache or "
       "taylorseer (there `step_cache` is the share of steps that are predicted); a published method turns "
       "the "
       "cache on with its own threshold if `step_cache` is not given",
       step_cache_kinds(), [](const R& r) { return r.step_cache_kind != "rate"; }},
      {"sparse_attention", "sparse_attention", &R::sparse_attention,
       "block-sparse self-attention, faster but not the same video: the share of the keys that each query "
       "attends to, such as 0.5; 0: off (default, but for models that were trained with it)",
       Range{.least = 0, .most = 1, .zero = "off"}, sparse},
      {"sparse_chooser", "sparse_chooser", &R::sparse_chooser,
       "how sparse attention picks its keys: top-k (those that fit the queries best on average; default), "
       "sliding-tile (those nearest in the video) or trained (as FastWan and TurboDiffusion were trained: "
       "their default)",
       Choices{"top-k", "sliding-tile", "trained"}, sparse},
      {"sparse_dense_steps", "sparse_dense_steps", &R::sparse_dense_steps,
       "number of first steps without sparse attention (default: a quarter of the steps, rounded up; with "
       "trained: none)",
       Range{0, 1000}, sparse},
  };
}

template <class T>
void fill(T&, const T&) {}  // a field that is not optional always has a value
template <class T>
void fill(std::optional<T>& member, const std::optional<T>& otherwise) {
  if (!member) member = otherwise;
}

}  // namespace

const std::vector<RequestField>& request_fields() {
  static const std::vector<RequestField> all = [] {
    std::vector<RequestField> out;
    for (const auto& some : {video_fields(), footage_fields(), sampling_fields(), talk_fields(),
                             window_fields(), adapter_fields(), arithmetic_fields()})
      out.insert(out.end(), some.begin(), some.end());
    return out;
  }();
  return all;
}

const Choices& vae_math_choices() {
  static const Choices all = {"auto", "activations", "fp8", "int8"};
  return all;
}

void check_fields(const VideoRequest& request) { check_members(request_fields(), request); }

void fill_fields(VideoRequest& request, const VideoRequest& defaults) {
  for (const RequestField& field : request_fields())
    std::visit([&](auto member) { fill(request.*member, defaults.*member); }, field.member);
}

}  // namespace tachy
