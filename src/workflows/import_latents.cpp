// Sizes and pictures.
#include <fmt/format.h>

#include "workflows/import_parts.h"

namespace tachy::workflows {
namespace {

constexpr int64_t kMostPixels = 16384, kMostFrames = 65536;

// Reads size and frames. ComfyUI makes as many latent frames as fit: (length - 1) / 4 + 1, rounded down.
void read_size(Work& work, const Node& node) {
  VideoRequest& r = work.request();
  r.width = static_cast<int>(work.values.whole(node, "width", 16, kMostPixels));
  r.height = static_cast<int>(work.values.whole(node, "height", 16, kMostPixels));
  const int64_t length = work.values.whole(node, "length", 1, kMostFrames);
  r.frames = static_cast<int>((length - 1) / 4 * 4 + 1);
  if (work.values.whole(node, "batch_size", 1, 4096) != 1)
    refuse(node, "batch_size", "a job makes one video; expected 1");
}

void give_picture(Work& work, const Node* loader, const std::string& field) {
  if (!loader) return;
  work.out.settings.inputs[field] = {work.file(*loader, "image", FileKind::picture), ""};
  work.request().image_fit = "crop";  // common_upscale(…, "center")
}

// Reads how pictures reach CLIP; each must be the one that the video begins or ends with.
void read_vision(Work& work, const Node& node, const std::string& input, const Node* picture) {
  const auto from = work.values.linked(node, input);
  if (!from) return;
  const Node& encode = *from->node;
  if (encode.type != "CLIPVisionEncode" || from->slot != 0)
    refuse(encode, "", fmt::format("no node of this kind is read as {}, only CLIPVisionEncode", input));
  if (!picture || picture_at(work, encode, "image") != picture)
    refuse(encode, "image", "it is not the picture that the video begins or ends with");
  const bool whole = work.values.one_of(encode, "crop", {"none", "center"}) == "none";
  const std::string preparation = whole ? "original" : "processor";
  VideoRequest& r = work.request();
  if (r.clip_preparation && *r.clip_preparation != preparation)
    refuse(encode, "crop", "both pictures must be prepared alike");
  r.clip_preparation = preparation;
  const Node& loader = *work.values.needed(encode, "clip_vision", "CLIPVisionLoader").node;
  const std::string path = work.file(loader, "clip_name", FileKind::clip_vision);
  std::string& part = work.out.settings.parts["image_encoder"];
  if (!part.empty() && part != path) refuse(loader, "clip_name", "both pictures must be encoded by one file");
  part = path;
}

void check_same_vae(Work& work, const Node& node) {
  if (read_vae(work, node) != work.out.settings.parts["vae"])
    refuse(node, "vae", "pictures must be encoded by the VAE that decodes the video");
}

// Returns where the prompts come from that pass through a node which makes latents.
Prompts prompts_through(Work& work, const Node& sampler, const Node& node) {
  work.values.needed(sampler, "positive", node.type, 0),
      work.values.needed(sampler, "negative", node.type, 1);
  for (const char* name : {"positive", "negative"})
    if (work.values.needed(sampler, name).node != &node)
      refuse(sampler, name,
             fmt::format("it does not come through node {} {}, which makes the latents", node.id, node.type));
  return {work.values.needed(node, "positive"), work.values.needed(node, "negative")};
}

// Reads a node through which the prompts pass.
Prompts read_image_to_video(Work& work, const Node& sampler, const Output& latents) {
  const Node& node = *latents.node;
  if (latents.slot != 2) refuse(node, "", fmt::format("it has no latents at output {}", latents.slot));
  read_size(work, node);
  if (node.type == "WanVaceToVideo") {
    check_same_vae(work, node);
    read_vace(work, node);
    return prompts_through(work, sampler, node);
  }
  // WanFunInpaintToVideo is WanFirstLastFrameToVideo with CLIP's view of the first picture alone.
  const bool fun = node.type == "WanFunInpaintToVideo", both = fun || node.type == "WanFirstLastFrameToVideo";
  const Node *first = picture_at(work, node, "start_image"),
             *last = both ? picture_at(work, node, "end_image") : nullptr;
  if (last && !first)
    refuse(node, "start_image", "a video that ends with a picture must begin with one, too");
  if (first) check_same_vae(work, node);
  give_picture(work, first, "image"), give_picture(work, last, "last_image");
  const char* vision = both && !fun ? "clip_vision_start_image" : "clip_vision_output";
  read_vision(work, node, vision, first);
  if (both && !fun) read_vision(work, node, "clip_vision_end_image", last);
  const bool sees_last = !fun && work.values.linked(node, "clip_vision_end_image").has_value();
  if (last && work.values.linked(node, vision).has_value() != sees_last)
    refuse(node, vision, "both pictures are seen by CLIP here, or none");
  return prompts_through(work, sampler, node);
}

}  // namespace

const Node* picture_at(Work& work, const Node& node, const std::string& input) {
  const auto from = work.values.linked(node, input);
  if (!from) return nullptr;
  if (from->node->type != "LoadImage" || from->slot != 0)
    refuse(*from->node, "",
           fmt::format("no node of this kind is read as {} of node {} {}, only LoadImage", input, node.id,
                       node.type));
  return from->node;
}

Prompts read_latents(Work& work, const Node& sampler, const Output& latents) {
  const Node& node = *latents.node;
  if (node.type == "WanImageToVideo" || node.type == "WanFirstLastFrameToVideo" ||
      node.type == "WanFunInpaintToVideo" || node.type == "WanVaceToVideo")
    return read_image_to_video(work, sampler, latents);
  if ((node.type != "EmptyHunyuanLatentVideo" && node.type != "Wan22ImageToVideoLatent") || latents.slot != 0)
    refuse(
        node, "",
        "no node of this kind is read as the latents that a video begins with, only EmptyHunyuanLatentVideo, "
        "WanImageToVideo, WanFirstLastFrameToVideo, WanFunInpaintToVideo, WanVaceToVideo and "
        "Wan22ImageToVideoLatent");
  read_size(work, node);
  if (node.type == "Wan22ImageToVideoLatent") {
    const Node* first = picture_at(work, node, "start_image");
    if (first) check_same_vae(work, node);
    give_picture(work, first, "image");
  }
  return {work.values.needed(sampler, "positive"), work.values.needed(sampler, "negative")};
}

}  // namespace tachy::workflows
