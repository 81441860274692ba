// The inputs of a request, which are data that a front end reads from files.
#include "request/request_fields.h"

namespace tachy {

const std::vector<RequestInput>& request_inputs() {
  using R = VideoRequest;
  static const std::vector<RequestInput> all = {
      {"init_latents", &R::init_latents,
       "start from the latents in this file (.safetensors, tensor 'latents') instead of noise"},
      {"image", &R::image,
       "picture that the video begins with (PNG, JPEG, WebP, GIF), for models that take one"},
      {"last_image", &R::last_image, "picture that the video ends with, for models that take two"},
      {"video", &R::video,
       "video to change (mp4, mov, mkv, webm, avi, gif, a folder of pictures, or a pattern such as "
       "f_%04d.png): it is "
       "denoised anew from `strength` on"},
      {"control_video", &R::control_video,
       "for VACE models: video to follow (depth, pose, lines, flow), or to keep outside of `mask_video`, "
       "`outpaint` or "
       "`keep`"},
      {"mask_video", &R::mask_video,
       "video or picture that is white where `video` (or the `control_video` of a VACE model) is made anew, "
       "and black "
       "where it is kept"},
      {"reference", &R::reference,
       "for VACE models: picture of a person, thing or place that the video shows; repeat it for up to four"},
      {"reference_2", &R::reference_2, "second reference picture"},
      {"reference_3", &R::reference_3, "third reference picture"},
      {"reference_4", &R::reference_4, "fourth reference picture"},
      {"image_embeds", &R::image_embeds,
       "CLIP embeddings of the pictures (.safetensors, tensor 'image_embeds'), in place of the image "
       "encoder"},
      {"speech", &R::speech,
       "what the photo says: a sound file (wav, mp3, m4a, flac, ogg) or a video with sound, for "
       "image-to-video models with InfiniteTalk; repeat it for a second person in the picture"},
      {"speech_2", &R::speech_2, "what the second person in the picture says"},
      {"speaker_mask", &R::speaker_mask,
       "where the first speaker is: a picture of the photo's size that is black everywhere else; repeat it "
       "for the second speaker"},
      {"speaker_mask_2", &R::speaker_mask_2, "the same for the second speaker"},
  };
  return all;
}

}  // namespace tachy
