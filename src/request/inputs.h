// The pictures, videos, embeddings and speech that a caller gives with a request. Standard types only, since this is part of
// the public interface.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tachy {

// A picture of any size to begin (or end) a video with; the Engine fits it to the video's size.
struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

// A video of any size, length and rate: a film, a folder of pictures, a pattern such as f_%04d.png, or one
// picture. read_footage (api/tachyscope.h) fills this in. The Engine reads the frames themselves, only those that
// are needed, and fits them to the video: when it prepares a request, or when it runs it (Engine::prepare).
struct Footage {
  std::string path;
  int width = 0, height = 0;
  double fps = 0;  // 0: the file does not say, and each picture is a frame of the clip
  int64_t frames = 0;
  std::string name = {};  // what messages call it; empty: its path
};

// The output of the CLIP vision model for the picture (diffusers' image_embeds), for models that have an
// image branch. If given, it replaces the model's own image encoder.
struct ImageEmbeds {
  std::vector<float> values;
  std::vector<int64_t> shape;  // [n, d] or [1, n, d]; both pictures of a first-last-frame model: [2, n, d]
};

// The speech of a talking photo: one channel at 16 kHz (media/sound/sound_reader.h), as it is in the file.
// The Engine adjusts the loudness to what models of speech expect.
struct Speech {
  std::vector<float> samples;
};

}  // namespace tachy
