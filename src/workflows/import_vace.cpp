// VACE: a video to follow, a mask, a reference picture, and the latents of the reference that are cut off again.
#include <fmt/format.h>

#include "workflows/import_parts.h"

namespace tachy::workflows {
namespace {

// Returns the node that loads the video whose frames reach an input.
const Node& video_at(Work& work, const Node& node, const std::string& input, const Output& frames) {
  if (frames.node->type != "GetVideoComponents" || frames.slot != 0)
    refuse(*frames.node, "",
           fmt::format("no node of this kind is read as {} of node {} {}, only the frames of a LoadVideo",
                       input, node.id, node.type));
  return *work.values.needed(*frames.node, "video", "LoadVideo", 0).node;
}

void give_video(Work& work, const Node& loader, const std::string& field) {
  work.out.settings.inputs[field] = {work.file(loader, "file", FileKind::video), ""};
  work.request().image_fit = "crop";  // common_upscale(…, "center")
  work.note(
      loader, "file",
      "frames are taken at the rate of the clip, where ComfyUI takes one after another, and a video that is "
      "too short is refused, where ComfyUI leaves the rest to the model");
}

void read_mask(Work& work, const Node& node) {
  const auto mask = work.values.linked(node, "control_masks");
  if (!mask) return;
  if (mask->node->type != "ImageToMask" || mask->slot != 0)
    refuse(*mask->node, "",
           fmt::format(
               "no node of this kind is read as control_masks of node {} {}, only ImageToMask after a video",
               node.id, node.type));
  work.values.one_of(*mask->node, "channel", {"red", "green", "blue"});
  give_video(work, video_at(work, *mask->node, "image", work.values.needed(*mask->node, "image")),
             "mask_video");
}

}  // namespace

void read_vace(Work& work, const Node& node) {
  if (const auto control = work.values.linked(node, "control_video"))
    give_video(work, video_at(work, node, "control_video", *control), "control_video");
  else if (work.values.linked(node, "control_masks"))
    refuse(node, "control_masks", "a mask needs a control_video");
  read_mask(work, node);
  if (const Node* const picture = picture_at(work, node, "reference_image")) {
    work.out.settings.inputs["reference"] = {work.file(*picture, "image", FileKind::picture), ""};
    work.note(node, "reference_image",
              "the whole picture is seen, within a white border where it is of another shape, where ComfyUI "
              "cuts it");
  }
  const double strength = work.values.number(node, "strength", 0, 1000);
  if (strength != 1) work.request().vace_strength = fmt::format("{}", strength);
}

void check_trim(const Work& work, const Node* trim, const Node& latents) {
  const bool vace = latents.type == "WanVaceToVideo";
  if (!trim) {
    if (vace && work.values.linked(latents, "reference_image"))
      refuse(latents, "reference_image", "its frames are not cut off before the VAE by a TrimVideoLatent");
    return;
  }
  if (!vace || work.values.needed(*trim, "trim_amount") != Output{&latents, 3})
    refuse(*trim, "trim_amount", "only what a WanVaceToVideo says is cut off");
}

}  // namespace tachy::workflows
