// The order is that of INPUT_TYPES or define_schema in ComfyUI 0.3.64: nodes.py, comfy_extras/nodes_wan.py,
// nodes_hunyuan.py, nodes_model_advanced.py, nodes_video.py, nodes_images.py and nodes_primitive.py.
#include "workflows/widgets.h"

#include <array>

namespace tachy::workflows {
namespace {

constexpr size_t kMostWidgets = 11;

struct Widgets {
  std::string_view type;
  std::array<std::string_view, kMostWidgets> names;
};

constexpr Widgets kWidgets[] = {
    {"KSampler", {"seed", kSeedControl, "steps", "cfg", "sampler_name", "scheduler", "denoise"}},
    {"KSamplerAdvanced",
     {"add_noise", "noise_seed", kSeedControl, "steps", "cfg", "sampler_name", "scheduler", "start_at_step",
      "end_at_step", "return_with_leftover_noise"}},
    {"UNETLoader", {"unet_name", "weight_dtype"}},
    {"CLIPLoader", {"clip_name", "type", "device"}},
    {"VAELoader", {"vae_name"}},
    {"CLIPVisionLoader", {"clip_name"}},
    {"CLIPVisionEncode", {"crop"}},
    {"CLIPTextEncode", {"text"}},
    {"LoraLoader", {"lora_name", "strength_model", "strength_clip"}},
    {"LoraLoaderModelOnly", {"lora_name", "strength_model"}},
    {"ModelSamplingSD3", {"shift"}},
    {"EmptyHunyuanLatentVideo", {"width", "height", "length", "batch_size"}},
    {"WanImageToVideo", {"width", "height", "length", "batch_size"}},
    {"WanFirstLastFrameToVideo", {"width", "height", "length", "batch_size"}},
    {"WanFunInpaintToVideo", {"width", "height", "length", "batch_size"}},
    {"Wan22ImageToVideoLatent", {"width", "height", "length", "batch_size"}},
    {"WanVaceToVideo", {"width", "height", "length", "batch_size", "strength"}},
    {"TrimVideoLatent", {"trim_amount"}},
    {"LoadVideo", {"file", kUploadButton}},
    {"ImageToMask", {"channel"}},
    {"VAEDecodeTiled", {"tile_size", "overlap", "temporal_size", "temporal_overlap"}},
    {"LoadImage", {"image", kUploadButton}},
    {"CreateVideo", {"fps"}},
    {"SaveVideo", {"filename_prefix", "format", "codec"}},
    {"SaveWEBM", {"filename_prefix", "codec", "fps", "crf"}},
    {"SaveAnimatedWEBP", {"filename_prefix", "fps", "lossless", "quality", "method"}},
    {"PrimitiveInt", {"value", kSeedControl}},
    {"PrimitiveFloat", {"value"}},
    {"PrimitiveString", {"value"}},
    {"PrimitiveStringMultiline", {"value"}},
    {"PrimitiveBoolean", {"value"}},
};

}  // namespace

std::span<const std::string_view> widgets_of(std::string_view type) {
  for (const Widgets& row : kWidgets) {
    if (row.type != type) continue;
    size_t count = 0;
    while (count < kMostWidgets && !row.names[count].empty()) ++count;
    return std::span(row.names).first(count);
  }
  return {};
}

}  // namespace tachy::workflows
