// The fields of a request that only talking photos have, and of these the ones of two speakers (speakers.h).
#include "pipelines/request_fields.h"

namespace tachy {
namespace {

bool spoken(const VideoRequest& r) { return r.speech != nullptr; }
bool two_speak(const VideoRequest& r) { return r.speech_2 != nullptr; }

}  // namespace

std::vector<RequestField> talk_fields() {
  using R = VideoRequest;
  return {
      {"audio_guidance", "audio_guidance_scale", &R::audio_guidance,
       "guidance scale of speech; 1 or less: none. With `guidance` each step takes three passes, with one of "
       "them two",
       Range{0, 100}, spoken},
      {"motion_frames", "motion_frames", &R::motion_frames,
       "frames of a talking photo's window that the next one takes over, 4n + 1 (default 9)", Range{1, 65533},
       spoken},
      {"recipe", "recipe", &R::recipe,
       "of a talking photo, whose formula of guidance and whose random draws: infinitetalk (default) or "
       "wrapper (ComfyUI-WanVideoWrapper: the scale of text multiplies that of speech)",
       Choices{"infinitetalk", "wrapper"}, spoken},
      {"color_correction", "color_correction_strength", &R::color_correction,
       "how far the colours of a talking photo's frames are brought to the photo's, 0 to 1 (default: 1; with "
       "`recipe` "
       "wrapper 0)",
       Range{0, 1}, spoken},
      {"speakers", "speakers", &R::speakers,
       "of two speakers, how their sounds lie in time: together (default; para) or one-after-the-other (add)",
       Choices{"together", "one-after-the-other", "para", "add"}, two_speak},
      {"speaker_boxes",
       "speaker_boxes",
       &R::speaker_boxes,
       "where a speaker is: X0,Y0,X1,Y1 in pixels of the picture, x to the right and y down; once for each "
       "of "
       "the two (default: the left half and the right one)",
       {},
       two_speak},
  };
}

}  // namespace tachy
