#include "request/guidance.h"

namespace tachy {
namespace {

Branches branches(double text_scale, double speech_scale, bool wrapper) {
  const bool by_text = text_scale > 1, by_speech = speech_scale > 1;
  const auto g = static_cast<float>(text_scale), s = static_cast<float>(speech_scale);
  if (!by_text && !by_speech) return {{}};
  if (!by_text) return {{.weight = s}, {.weight = 1 - s, .silent = true}};
  if (!by_speech) return {{.weight = g}, {.weight = 1 - g, .negative = true}};
  const float speech = wrapper ? g * s : s;  // the weight of the difference that speech makes
  return {{.weight = g},
          {.weight = speech - g, .negative = true},
          {.weight = 1 - speech, .negative = true, .silent = true}};
}

}  // namespace

std::vector<Branches> guidance_of(const VideoRequest& r) {
  const double speech = r.speech ? r.audio_guidance.value_or(1) : 1;
  const bool wrapper = r.recipe == "wrapper";
  std::vector<Branches> out{branches(*r.guidance, speech, wrapper)};
  if (r.guidance_2) out.push_back(branches(*r.guidance_2, speech, wrapper));
  return out;
}

}  // namespace tachy
