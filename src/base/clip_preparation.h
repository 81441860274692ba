// How a picture is prepared for CLIP's vision model. A model's folder states some of this (it is read in
// models/clip_vision), and media/picture/clip_picture.h carries it out; neither knows the other.
#pragma once

#include <array>

namespace tachy {

struct ClipPreparation {
  // The original repository squashes the picture to the model's square; transformers' CLIPImageProcessor
  // keeps its shape and takes the middle.
  bool original = false;
  int shortest_edge = 224;  // for the processor's resized picture
  int side = 224;           // side of the model's input
  double rescale = 1.0 / 255;
  std::array<double, 3> mean{0.48145466, 0.4578275, 0.40821073};
  std::array<double, 3> deviation{0.26862954, 0.26130258, 0.27577711};
  bool operator==(const ClipPreparation&) const = default;
};

}  // namespace tachy
