// The fields of a request that only talking photos have, including those for two speakers (speakers.h).
#include "request/request_fields.h"

namespace tachy {
namespace {

bool spoken(const VideoRequest& r) { return r.speech != nullptr; }
bool two_speak(const VideoRequest& r) { return r.speech_2 != nullptr; }

}  // namespace

std::vector<RequestField> talk_fields() {
  using R = VideoRequest;
  return {
      {"audio_guidance", "audio_guidance_scale", &R::audio_guidance,
       "guidance scale of speech: how strongly the face follows it; 1 or less turns it off. A step takes one "
       "pass, two with this or `guidance` above 1, three with both",
       Range{0, 100}, spoken},
      {"motion_frames", "motion_frames", &R::motion_frames,
       "number of frames that each window of a talking photo takes over from the one before, a multiple of 4 "
       "plus 1 (default 9)",
       Range{1, 65533}, spoken},
      {"recipe", "recipe", &R::recipe,
       "whose guidance formula and random numbers to use for a talking photo: infinitetalk (default) or "
       "wrapper (ComfyUI-WanVideoWrapper, where the scale of text multiplies that of speech)",
       Choices{"infinitetalk", "wrapper"}, spoken},
      {"color_correction", "color_correction_strength", &R::color_correction,
       "how far the colours of a talking photo's frames are pulled back to the photo's, 0 to 1 (default 1; 0 "
       "with `recipe` wrapper)",
       Range{0, 1}, spoken},
      {"speakers", "speakers", &R::speakers,
       "when two speakers talk: together (or para; default) or one-after-the-other (or add)",
       Choices{"together", "one-after-the-other", "para", "add"}, two_speak},
      {"speaker_boxes",
       "speaker_boxes",
       &R::speaker_boxes,
       "where a speaker is: X0,Y0,X1,Y1 in pixels of the picture, from its top left corner; give it twice, "
       "once for each speaker (default: the left half and the right half)",
       {},
       two_speak},
  };
}

}  // namespace tachy
