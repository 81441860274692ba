// How a picture is prepared for CLIP's vision model. A model's folder states part of this, which
// models/clip_vision reads; media/picture/clip_picture.h prepares the picture. Neither includes the other.
#pragma once

#include <array>

namespace tachy {

struct ClipPreparation {
  // True: the picture is squashed to the model's square, as in the original repository. False: it keeps its
  // shape and its middle is used, as in transformers' CLIPImageProcessor.
  bool original = false;
  int shortest_edge = 224;  // the picture's shorter side after the processor resized it
  int side = 224;           // side of the square that the model takes
  double rescale = 1.0 / 255;
  std::array<double, 3> mean{0.48145466, 0.4578275, 0.40821073};
  std::array<double, 3> deviation{0.26862954, 0.26130258, 0.27577711};
  bool operator==(const ClipPreparation&) const = default;
};

}  // namespace tachy
