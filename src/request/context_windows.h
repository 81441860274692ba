// Context windows: a clip that is longer than a model's training clips is predicted in overlapping windows of
// one length, whose predictions are blended with weights. The frames that a window holds, and their weights,
// depend on the kind:
//
//   static   one after the other with an overlap; the last one is moved back to end with the clip. The same in every step
//   uniform  begins elsewhere in each step, so that seams do not stay in one place, and has windows of several strides
//            (1, 2, 4 … latent frames from one to the next), so that distant frames see each other
//   looped   like uniform, but the end of the clip continues at its beginning: a video that loops
//
// This follows AnimateDiff-Evolved's context options, as ComfyUI-WanVideoWrapper applies them to Wan, with
// the same indices and masks (tests/golden/pipelines/make_windows.py). All counts are of latent frames.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace tachy {

enum class WindowKind { none, statics, uniform, looped };
enum class WindowMask { linear, pyramid };

struct WindowPlan {
  WindowKind kind = WindowKind::none;
  WindowMask mask = WindowMask::linear;
  int64_t frames = 0, overlap = 0;  // frames in a window; frames that neighbours share
  int64_t strides = 1;  // uniform and looped: number of strides, if the clip is long enough for them
  // Says whether a clip of this length needs more than one window.
  bool divides(int64_t clip) const { return kind != WindowKind::none && clip > frames; }
};
WindowKind parse_window_kind(std::string_view name);  // none, static, uniform, looped
WindowMask parse_window_mask(std::string_view name);

using Window = std::vector<int64_t>;  // frames of the clip, in the window's order

// Returns the windows of one step (counted from 0). Each has plan.frames frames, unless the clip is shorter.
std::vector<Window> windows_of(const WindowPlan& plan, int64_t clip, int step);

// Returns the weight of each frame of a window in the blend, before it is divided by the sum over all
// windows.
std::vector<float> window_weights(const WindowPlan& plan, int64_t clip, std::span<const int64_t> window);

// Returns the factor for each frame of each window; the factors for one frame of the clip sum to 1. A frame
// that has weight 0 in all its windows gets their mean.
std::vector<std::vector<float>> blend_weights(const WindowPlan& plan, int64_t clip,
                                              std::span<const Window> windows);

// Does what FreeNoise does: in noise [z, clip, h, w], the frames after the first window become copies of
// those before them, shuffled one piece at a time, so that all windows begin alike. shuffled(n) returns a
// permutation of 0 … n - 1.
void repeat_noise(const WindowPlan& plan, int64_t clip, int64_t z, std::span<float> noise,
                  const std::function<std::vector<int64_t>(int64_t n)>& shuffled);

}  // namespace tachy
