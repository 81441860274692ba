// The fields of a request that only two speakers have (speakers.h).
#include "pipelines/request_fields.h"

namespace tachy {
namespace {

bool two_speak(const VideoRequest& r) { return r.speech_2 != nullptr; }

}  // namespace

std::vector<RequestField> speaker_fields() {
  using R = VideoRequest;
  return {
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
