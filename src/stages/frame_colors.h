// Gives a clip's frames the colours of a picture (FramesOut). The host does this even if a GPU decodes, at about 20 ns
// per pixel and core.
#pragma once

#include <vector>

#include "stages/decode_stage.h"

namespace tachy {

// Copies the frames that belong to `tail`; the first of `frames` is the clip's frame number `first` of `total`.
void keep_tail(const Tensor& frames, int64_t first, int64_t total, const Tensor& tail, Stream& stream);

// Corrects frames that a device waits for: in place if they are float32, in the arena if a GPU made them in 16 bits,
// which would round the correction.
Tensor correct_colors(const Tensor& frames, const FramesOut& out, Stream& stream);

// Corrects frames that were fetched while a device decodes the next ones (late_frames.h), and makes bytes of them. The bits
// are those of correct_colors(). `fetched` is [n, H, W, 3] f32 on the host; `stream` is the device's.
class LateColors {
 public:
  // `frames` says how many the clip has.
  LateColors(const FramesOut& out, int64_t frames) : out_(out), frames_(frames) {}
  // Corrects the frames where they lie. Returns [n, H, W, 3] bytes, which are valid until the next call.
  const uint8_t* bytes_of(const Tensor& fetched, Stream& stream);
  // Keeps those of the corrected frames that belong to the tail; the first one is the clip's frame number `first`. The device
  // may have to be waited for.
  void keep_tail_of(const Tensor& fetched, int64_t first, Stream& stream) const;

 private:
  const FramesOut& out_;
  int64_t frames_;
  std::vector<uint8_t> bytes_;
};

}  // namespace tachy
