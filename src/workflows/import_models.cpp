// Loaders of models and adapters, and prompts.
#include <fmt/format.h>

#include <algorithm>

#include "workflows/import_parts.h"
#include "workflows/prompt_text.h"

namespace tachy::workflows {
namespace {

// The shift that ComfyUI gives every Wan model which has none of a ModelSamplingSD3 (comfy/supported_models.py).
constexpr double kDefaultShift = 8;
constexpr double kMostStrength = 100;
constexpr int kMostInChain = 200;

// Returns an adapter as a request spells it; "" if it changes nothing.
std::string read_lora(Work& work, const Node& node) {
  const double strength = work.values.number(node, "strength_model", -kMostStrength, kMostStrength);
  if (node.type == "LoraLoader") {
    const double text = work.values.number(node, "strength_clip", -kMostStrength, kMostStrength);
    if (text != strength)
      work.note(
          node, "strength_clip",
          fmt::format(
              "an adapter has one strength here, {}, also for layers of the text encoder if the file has "
              "any; ComfyUI gives those {}",
              strength, text));
  }
  if (strength == 0) return "";
  return fmt::format("{}:{}", work.file(node, "lora_name", FileKind::lora), strength);
}

}  // namespace

ModelChain read_model(Work& work, const Node& sampler) {
  ModelChain out;
  std::optional<double> shift;
  Output at = work.values.needed(sampler, "model");
  for (int i = 0; i < kMostInChain; ++i) {
    const Node& node = *at.node;
    if (at.slot != 0) refuse(node, "", fmt::format("it has no model at output {}", at.slot));
    if (node.type == "ModelSamplingSD3") {
      const double here = work.values.number(node, "shift", 0.01, 100);
      if (!shift) shift = here;  // the last one counts
    } else if (node.type == "LoraLoaderModelOnly" || node.type == "LoraLoader") {
      if (const std::string lora = read_lora(work, node); !lora.empty()) out.loras.push_back(lora);
    } else if (node.type == "UNETLoader") {
      const std::string dtype =
          work.values.one_of(node, "weight_dtype", {"default", "fp8_e4m3fn", "fp8_e4m3fn_fast", "fp8_e5m2"});
      if (dtype != "default")
        work.note(node, "weight_dtype", "the weights are used as the file has them, not in " + dtype);
      out.loader = &node, out.path = work.file(node, "unet_name", FileKind::diffusion_model);
      out.shift = shift.value_or(kDefaultShift);
      std::ranges::reverse(out.loras);
      return out;
    } else {
      refuse(node, "",
             "no node of this kind is read between a sampler and UNETLoader, only LoraLoaderModelOnly, "
             "LoraLoader and ModelSamplingSD3");
    }
    at = work.values.needed(node, "model");
  }
  refuse(sampler, "model", fmt::format("more than {} nodes lie before it", kMostInChain));
}

std::string read_prompt(Work& work, const Output& from, std::string& encoder) {
  const Node& node = *from.node;
  if (node.type != "CLIPTextEncode")
    refuse(node, "", "no node of this kind is read as a prompt, only CLIPTextEncode");
  Output clip = work.values.needed(node, "clip");
  for (int i = 0; i < kMostInChain && clip.node->type == "LoraLoader" && clip.slot == 1; ++i)
    clip = work.values.needed(*clip.node, "clip");
  const Node& loader = *clip.node;
  if (loader.type != "CLIPLoader")
    refuse(loader, "", "no node of this kind is read as a text encoder, only CLIPLoader");
  work.values.one_of(loader, "type", {"wan"});
  encoder = work.file(loader, "clip_name", FileKind::text_encoder);
  return plain_prompt(node, "text", work.values.text(node, "text"));
}

std::string read_vae(Work& work, const Node& node) {
  return work.file(*work.values.needed(node, "vae", "VAELoader").node, "vae_name", FileKind::vae);
}

}  // namespace tachy::workflows
