#include "request/presets.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "request/sampler_config.h"

namespace tachy {
namespace {

using enum ModelFamily;

// Euler's steps over linspace(1, 0, steps + 1) without its end, shifted. LightX2V's step_distill scheduler
// and Wan2.2-Lightning's EulerScheduler both amount to this. The timesteps are fractional.
PresetRow shifted_euler(std::vector<ModelFamily> fits, int steps, std::optional<double> second = {}) {
  return {.fits = std::move(fits),
          .sampler = "euler",
          .grid = "original",
          .steps = steps,
          .shift = 5,
          .guidance = 1,
          .guidance_2 = second,
          .lora_strength = 1,
          .lora_strength_2 = second};
}

// Makes a row for a list of samplers/few_step.cpp.
PresetRow listed(std::vector<ModelFamily> fits, const char* list, int steps, double shift, double strength,
                 std::optional<double> strength_2 = {}) {
  PresetRow row{std::move(fits), list, nullptr, steps, shift, 1, {}, strength, strength_2};
  if (strength_2) row.guidance_2 = 1;
  return row;
}

// Text-to-video in blocks of three latent frames, each of which sees 21 frames, including its own block.
PresetRow blocks(const char* list, int steps, double shift) {
  PresetRow row = listed({text}, list, steps, shift, 1);
  row.block = 3, row.block_window = 21;
  return row;
}

std::vector<Preset> make_presets() {
  return {
      // configs/distill/{wan21,wan22}/*_lora*.json: denoising_step_list 1000 750 500 250, sample_shift 5,
      // enable_cfg false (the guidance scale beside it is not used), strength 1.0 for each LoRA;
      // boundary_step_index 2 of A14B agrees with both boundaries. configs/wan22/wan_distill_moe_flf2v*.json:
      // the same list at shift 16 for a first and a last picture.
      {"lightx2v-4",
       "LightX2V step and guidance distillation, four steps",
       "ModelTC/LightX2V configs/distill, configs/wan22",
       {shifted_euler({text, image}, 4), shifted_euler({text_experts, image_experts}, 4, 1),
        listed({two_pictures_experts}, "lightx2v-flf2v-4", 4, 16, 1, 1)}},
      // No config there has eight entries. These are its scheduler's values for eight evenly spaced ones,
      // 1000 875 … 125.
      {"lightx2v-8",
       "LightX2V step and guidance distillation, eight steps",
       "ModelTC/LightX2V step_distill/scheduler.py with eight even entries",
       {shifted_euler({text, image}, 8), shifted_euler({text_experts, image_experts}, 8, 1)}},
      // wan/configs/wan_{t2v,i2v}_A14B.py: sample_shift 5, sample_steps 4, sample_guide_scale (1, 1),
      // boundaries 0.875 and 0.9; wan/utils/utils.py merges up · down · alpha / rank at full strength.
      {"lightning-4",
       "Wan2.2-Lightning, four steps, two of each expert",
       "ModelTC/Wan2.2-Lightning wan/configs",
       {shifted_euler({text_experts, image_experts}, 4, 1)}},
      // DmdDenoisingStage: 1000 757 522 in a table whose shift of 8 is fixed in the code (the 5B config's 5
      // is not read), with renoising; there is no second pass, so that its preset's guidance of 3 is not
      // used.
      {"fastwan-3",
       "FastWan of FastVideo, three renoised steps",
       "hao-ai-lab/FastVideo fastvideo/pipelines/stages/denoising.py",
       {listed({text, first_frame}, "fastwan-3", 3, 8, 1)}},
      // The nine timesteps of LightX2V's configs/causvid and of the wrapper's scheduler flowmatch_causvid for
      // 14B, which takes sigma = t / 1000. The LoRA's card recommends 4 to 9 steps at strength 0.5 (0.3 for
      // 12 steps of unipc). tianweiy/CausVid itself publishes 1.3B models with other lists: causvid-causal-3
      // and -4.
      {"causvid-9",
       "CausVid's LoRA for 14B, nine steps or the first of them",
       "kijai/ComfyUI-WanVideoWrapper wanvideo/schedulers, civitai.com/models/1585622",
       {listed({text, image}, "causvid-14b", 9, 1, 0.5)}},
      // rcm/inference: sigma_max 80 for text-to-video (its examples at 720p use 120), 200 for I2V-A14B, for
      // which Wan.md names the merged weights "high-rCM4.0" and "low-rCM1.0"; the middle angles are 1.5 1.4
      // 1.0 in both.
      {"rcm-4",
       "rCM of NVIDIA, four renoised steps",
       "NVlabs/rcm rcm/inference, Wan.md",
       {listed({text}, "rcm-4", 4, 1, 1), listed({image_experts}, "rcm-a14b-4", 4, 1, 4, 1)}},
      // configs/self_forcing_dmd.yaml: denoising_step_list 1000 750 500 250 warped by timestep_shift 5,
      // blocks of num_frame_per_block 3, no guidance; local_attn_size is -1, but its cache of 21 frames sets
      // the limit. (Its web page uses shift 8: the list causvid-causal-4.)
      {"self-forcing-4",
       "Self-Forcing, block by block in four renoised steps",
       "guandeh17/Self-Forcing configs/self_forcing_dmd.yaml",
       {blocks("self-forcing-4", 4, 5)}},
      // configs/wan_causal_dmd.yaml: denoising_step_list 1000 757 522, not warped, timestep_shift 8, num_frame_per_block 3.
      {"causvid",
       "CausVid's autoregressive 1.3B, block by block in three renoised steps",
       "tianweiy/CausVid configs/wan_causal_dmd.yaml",
       {blocks("causvid-causal-3", 3, 8)}},
      // README: --sample_solver unipc --sample_steps 10; the sample scripts switch guidance off (no_cfg) and
      // use shift 5, or 3 for image-to-video at 480p, the only size of its image model. (The list of every
      // fifth of 50 steps there belongs to its Euler solver.) No card names a strength for the LoRA.
      {"accvid-10",
       "AccVideo, ten steps of UniPC",
       "aejion/AccVideo README.md, sample_wanx_t2v.py, sample_wanx_i2v.py",
       {{{text}, "unipc", "original", 10, 5, 1, {}, 1, {}},
        {{image}, "unipc", "original", 10, 3, 1, {}, 1, {}}}},
      // README: the lightx2v LoRA in four steps with guidance 1 for text and 2 for speech, which makes two
      // passes per step; the shift is its program's for sizes around 480p (11 for those around 720p).
      {"talk-4",
       "a talking photo with LightX2V's LoRA, four steps",
       "MeiGen-AI/InfiniteTalk README.md, generate_infinitetalk.py",
       {{{talking}, "euler", "multitalk", 4, 7, 1, {}, 1, {}, 2}}},
      // The wrapper's example has shift 11 and both scales 1, one pass per step, at six steps. A LoRA for
      // four steps still works with three, because the last step of this grid changes next to nothing.
      {"talk-3",
       "a talking photo with LightX2V's LoRA, three steps of one pass",
       "kijai/ComfyUI-WanVideoWrapper example_workflows (scales, shift)",
       {{{talking}, "euler", "multitalk", 3, 11, 1, {}, 1, {}, 1}}},
  };
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = make_presets();
  return all;
}

Choices preset_names() {
  Choices names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

std::string_view family_text(ModelFamily family) {
  switch (family) {
    case text:
      return "text-to-video models (Wan2.1-T2V)";
    case image:
      return "image-to-video models (Wan2.1-I2V)";
    case two_pictures:
      return "first-last-frame models (Wan2.1-FLF2V)";
    case first_frame:
      return "text-and-image-to-video models (Wan2.2-TI2V-5B)";
    case text_experts:
      return "text-to-video models of two experts (Wan2.2-T2V-A14B)";
    case image_experts:
      return "image-to-video models of two experts (Wan2.2-I2V-A14B)";
    case two_pictures_experts:
      return "image-to-video models of two experts with a last picture";
    case talking:
      return "image-to-video models with InfiniteTalk's audio branch";
  }
  return "?";
}

SamplerConfig sampler_config(const PresetRow& row) {
  VideoRequest r;
  r.sampler = std::string(row.sampler), r.grid = std::string(row.grid ? row.grid : "original");
  r.steps = row.steps, r.shift = row.shift;
  return sampler_config(r);
}

}  // namespace tachy
