#include "pipelines/request_fields.h"

#include "pipelines/level.h"
#include "pipelines/presets.h"
#include "pipelines/vae_math.h"

namespace tachy {
namespace {

using R = VideoRequest;

std::vector<RequestField> video_fields() {
  return {
      {"prompt", "prompt", &R::prompt, "what the video should show"},
      {"negative_prompt", "negative_prompt", &R::negative_prompt, "what it should not show"},
      {"image_fit", "image_fit", &R::image_fit,
       "to the video's size: stretch (default, as diffusers does it) or crop (keeps the shape)",
       Choices{"stretch", "crop"}, [](const R& r) { return r.image != nullptr; }},
      {"clip_preparation", "clip_preparation", &R::clip_preparation,
       "how pictures are made ready for CLIP, for Wan 2.1's models: processor (as diffusers: the middle) or "
       "original "
       "(the whole, squashed) (default: by the model's layout)",
       Choices{"processor", "original"}, [](const R& r) { return r.image && !r.image_embeds; }},
      {"width", "width", &R::width, "width in pixels", Range{1, 16384}},
      {"height", "height", &R::height, "height in pixels", Range{1, 16384}},
      {"frames", "num_frames", &R::frames,
       "number of frames, 4n + 1; of a talking photo at most so many (default: as long as the speech)",
       Range{1, 65536}},
      {"fps", "fps", &R::fps, "frames a second of the file", Range{.least = 0, .most = 1000, .above = true}},
  };
}

std::vector<RequestField> sampling_fields() {
  return {
      {"preset", "preset", &R::preset,
       "how a distilled model is run: fills steps, sampler, shift and guidance where they are not given "
       "(`tachyscope presets` lists what each sets)",
       preset_names()},
      {"steps", "num_inference_steps", &R::steps, "denoising steps", Range{1, 1000}},
      {"guidance", "guidance_scale", &R::guidance, "guidance scale; 1 or less: none, at half the cost",
       Range{0, 100}},
      {"guidance_2", "guidance_scale_2", &R::guidance_2,
       "guidance scale of the low-noise expert, for models of two (Wan2.2 A14B); `guidance` is then the "
       "high-noise one's (default: the same, if `guidance` is given)",
       Range{0, 100}},
      {"shift", "flow_shift", &R::shift, "shift of the flow schedule",
       Range{.least = 0, .most = 100, .above = true}},
      // Names of samplers and grids have aliases, which their parsers know (samplers/names.cpp).
      {"sampler", "sampler", &R::sampler,
       "unipc, euler, dpm++, dpm++_sde, lcm or a list of a distilled model such as lightx2v-4"},
      {"grid", "grid", &R::grid,
       "whose sigmas and timesteps: diffusers, original, multitalk or wrapper (default: by the model's "
       "layout, or sampler)"},
      {"sinusoid", "sinusoid", &R::sinusoid,
       "time sinusoid of diffusers (float32) or original (float64) (default: by the model's layout)",
       Choices{"diffusers", "original"}},
      {"seed", "seed", &R::seed, "seed of the noise, as in PyTorch (default 0)"},
      {"rng", "rng", &R::rng, "which torch generator the seed means: cpu or cuda", Choices{"cpu", "cuda"}},
      {"rng_multiprocessors", "rng_multiprocessors", &R::rng_multiprocessors,
       "multiprocessors of the GPU that `rng` cuda imitates (default 132)", Range{1, 1024},
       [](const R& r) { return r.rng == "cuda"; }},
      {"max_text_tokens", "max_sequence_length", &R::max_text_tokens,
       "text rows the model sees (default 512)", Range{1, 4096}},
  };
}

bool windowed(const R& r) { return r.windows != "none"; }
bool by_blocks(const R& r) { return r.block != 0; }

std::vector<RequestField> window_fields() {
  return {
      {"windows", "context_windows", &R::windows,
       "for clips longer than the model's own: predict them in windows of `window_frames` and blend these: "
       "static (one after the other), uniform (elsewhere in each step) or looped (and the end goes on at the "
       "beginning); none: the whole clip at once (default). With speech: one after the other, each beginning "
       "with the last frames of the one before (infinitetalk, default), or the same in equal windows, as "
       "short as possible (even)",
       Choices{"none", "static", "uniform", "looped", "infinitetalk", "even"}, windowed},
      {"window_frames", "context_frames", &R::window_frames,
       "frames of a window (default: the model's own, 81 of Wan's)", Range{5, 65536}, windowed},
      {"window_overlap", "context_overlap", &R::window_overlap,
       "frames that neighbouring windows share (default 16)", Range{0, 65532}, windowed},
      {"window_stride", "context_stride", &R::window_stride,
       "of uniform and looped windows: from 8 on they also skip frames, at most so many from one to the next "
       "(default 4)",
       Range{1, 64}, windowed},
      {"window_mask", "context_mask", &R::window_mask,
       "weights of the blend: linear (ramps where windows overlap; default) or pyramid",
       Choices{"linear", "pyramid"}, windowed},
      {"free_noise", "free_noise", &R::free_noise,
       "with windows: on (default; the noise of further windows is the first one's, its frames shuffled) or "
       "off",
       Choices{"on", "off"}, windowed},
      {"riflex", "riflex", &R::riflex,
       "RIFLEx, against clips that begin anew when they are long: this frequency of the time axis turns less "
       "than once, 6 for Wan; 0 is off (default 0)",
       Range{.least = 0, .most = 512, .zero = "off"}, [](const R& r) { return r.riflex != 0; }},
      {"block", "causal_block", &R::block,
       "block by block, for models trained for it: so many latent frames (Self-Forcing, CausVid: 3) at a "
       "time, "
       "which look at those before them; 0: the whole clip at once (default 0)",
       Range{.least = 0, .most = 16384, .zero = "off"}, by_blocks},
      {"block_window", "causal_window", &R::block_window,
       "with `block`: latent frames that a block sees, its own among them; 0: all (default 0)",
       Range{.least = 0, .most = 16384, .zero = "all"}, by_blocks},
  };
}

// Settings of runs without it are what they were before it was there.
bool sparse(const R& r) { return r.sparse_attention.value_or(0) > 0; }

std::vector<RequestField> arithmetic_fields() {
  return {
      {"level", "level", &R::level,
       "none (definitions: slow), safe (float32, default), aggressive (bf16), extreme (bf16 and step cache; "
       "on a "
       "Hopper GPU fp8 as well); "
       "`tachyscope doctor` lists what each turns on here",
       level_names()},
      // What these two may be depends on the device (gpu_mode.cpp, resolve_level in request.cpp).
      {"dtype", "dtype", &R::dtype,
       "what products multiply in, whatever the level says: f32, or bf16 where the CPU has instructions for "
       "it: faster, within about 1 %"},
      {"without",
       "without",
       &R::without,
       "switch off this optimisation alone, or several with commas: a name that `tachyscope doctor` lists, "
       "or a "
       "kernel as op:implementation; again for more",
       {},
       [](const R& r) { return !r.without.empty(); }},
      {"residual", "residual", &R::residual,
       "on a GPU: the transformer's residual stream in f32 (as the original; default) or bf16 (as diffusers; "
       "default of the levels from aggressive)"},
      {"attention", "attention", &R::attention,
       "what self-attention multiplies in: auto (default: as the level says, so far the activations' dtype), "
       "bf16 (whatever the level says) or int8 (on a Hopper GPU: a quarter faster; both products in 8 bits, "
       "where they can hold the values)",
       Choices{"auto", "bf16", "int8"}, [](const R& r) { return r.attention != "auto"; }},
      {"int8_keys", "int8_keys", &R::int8_keys,
       "with `attention` int8: auto (default: from 2,048 keys on, where it is faster) or all, to see what it "
       "does to small videos",
       Choices{"auto", "all"}, [](const R& r) { return r.int8_keys != "auto"; }},
      {"math", "math", &R::math,
       "what the linear layers of the transformer's blocks multiply in: auto (default: as the level says: "
       "fp8 at "
       "level extreme on a Hopper GPU, otherwise the activations' dtype), bf16 (whatever the level says), "
       "fp8 "
       "(on a GPU: e4m3, a scale a row: half the weights' memory), int8 (the same in int8, also on a CPU) or "
       "tf32 (on a GPU with dtype f32: all linear layers round their operands to TF32)",
       Choices{"auto", "bf16", "fp8", "int8", "tf32"}, [](const R& r) { return r.math != "auto"; }},
      {"vae_math", "vae_math", &R::vae_math,
       "what the convolutions of the VAE's residual blocks multiply in: auto (default: as the activations, "
       "at "
       "every "
       "level), activations or fp8 (e4m3: on a Hopper GPU, with activations in bf16; on a CPU slowly)",
       vae_math_choices(), [](const R& r) { return r.vae_math != "auto"; }},
      {"step_cache", "step_cache", &R::step_cache,
       "reuse the model's output while its predicted relative change is below this; 0: never",
       Range{.least = 0, .most = 1, .zero = "off"}},
      {"sparse_attention", "sparse_attention", &R::sparse_attention,
       "block-sparse self-attention: the share of all blocks of keys that a block of queries attends to, "
       "such as 0.5; 0: off (default)",
       Range{.least = 0, .most = 1, .zero = "off"}, sparse},
      {"sparse_chooser", "sparse_chooser", &R::sparse_chooser,
       "who picks these blocks: top-k (by their mean queries and keys; default) or sliding-tile (the nearest "
       "in the video)",
       Choices{"top-k", "sliding-tile"}, sparse},
      {"sparse_dense_steps", "sparse_dense_steps", &R::sparse_dense_steps,
       "so many first steps attend to all keys nevertheless (default: a quarter of the steps, rounded up)",
       Range{0, 1000}, sparse},
  };
}

template <class T>
void fill(T&, const T&) {}  // has a value always
template <class T>
void fill(std::optional<T>& member, const std::optional<T>& otherwise) {
  if (!member) member = otherwise;
}

}  // namespace

const std::vector<RequestField>& request_fields() {
  static const std::vector<RequestField> all = [] {
    std::vector<RequestField> out;
    for (const auto& some : {video_fields(), sampling_fields(), talk_fields(), window_fields(),
                             adapter_fields(), arithmetic_fields()})
      out.insert(out.end(), some.begin(), some.end());
    return out;
  }();
  return all;
}

const std::vector<RequestInput>& request_inputs() {
  static const std::vector<RequestInput> all = {
      {"init_latents", &R::init_latents,
       "start from these latents (.safetensors, 'latents') instead of noise"},
      {"image", &R::image,
       "the picture that the video begins with (PNG, JPEG, WebP, GIF), for models that take one"},
      {"last_image", &R::last_image, "the picture that it ends with, for models that take two"},
      {"image_embeds", &R::image_embeds,
       "CLIP embeddings of the pictures (.safetensors, 'image_embeds') in place of what the image encoder of "
       "Wan 2.1's "
       "models makes"},
      {"speech", &R::speech,
       "what the photo says: a sound file (wav, mp3, m4a, flac, ogg) or a film with sound, for "
       "image-to-video models "
       "with InfiniteTalk's audio branch; given twice, a second person in the picture says the second one"},
      {"speech_2", &R::speech_2, "what the second person in the picture says"},
      {"speaker_mask", &R::speaker_mask,
       "a picture of the photo's size, not black where the first speaker is; given twice, the second one's, "
       "too"},
      {"speaker_mask_2", &R::speaker_mask_2, "the same of the second speaker"},
  };
  return all;
}

void check_fields(const VideoRequest& request) {
  for (const RequestField& field : request_fields())
    std::visit(
        [&](auto member) {
          const auto* value = value_in(request.*member);
          if constexpr (!std::is_same_v<decltype(value), const std::vector<std::string>*>)
            if (value) check_allowed(field.name, *value, field.allowed);
        },
        field.member);
}

void fill_fields(VideoRequest& request, const VideoRequest& defaults) {
  for (const RequestField& field : request_fields())
    std::visit([&](auto member) { fill(request.*member, defaults.*member); }, field.member);
}

}  // namespace tachy
