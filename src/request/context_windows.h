// Context windows: a clip that is longer than what a model was trained on is predicted in overlapping windows of one
// length, whose predictions are blended by weights. Which frames a window holds, and with what weight:
//
//   static   one after the other with an overlap; the last one is moved back to end with the clip. The same in every step
//   uniform  begins elsewhere in each step, so that seams do not stay where they are, and has windows of several strides
//            (1, 2, 4 … latent frames from one to the next), so that far frames see each other
//   looped   the same, where the clip's end goes on at its beginning: a video that loops
//
// After AnimateDiff-Evolved's context options, as ComfyUI-WanVideoWrapper applies them to Wan; the same indices and masks
// (tests/golden/pipelines/make_windows.py). All counts are of latent frames.
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
  int64_t frames = 0, overlap = 0;  // of one window; what neighbours share
  int64_t strides = 1;  // of uniform and looped: so many strides, as far as the clip is long enough for them
  // Whether a clip of so many frames needs more than one window.
  bool divides(int64_t clip) const { return kind != WindowKind::none && clip > frames; }
};
WindowKind parse_window_kind(std::string_view name);  // none, static, uniform, looped
WindowMask parse_window_mask(std::string_view name);

using Window = std::vector<int64_t>;  // frames of the clip, in the window's order

// Of one step (from 0). Each has plan.frames frames, unless the clip has no more than that.
std::vector<Window> windows_of(const WindowPlan& plan, int64_t clip, int step);

// The weight of each frame of a window in the blend, before it is divided by the sum over all windows.
std::vector<float> window_weights(const WindowPlan& plan, int64_t clip, std::span<const int64_t> window);

// What each frame of each window is multiplied with, so that what a frame is multiplied with sums to 1. A frame that all
// its windows weigh with 0 gets the mean of them.
std::vector<std::vector<float>> blend_weights(const WindowPlan& plan, int64_t clip,
                                              std::span<const Window> windows);

// FreeNoise: of noise [z, clip, h, w], the frames behind the first window become those before them, shuffled a piece at a
// time, so that all windows begin alike. shuffled(n): a permutation of 0 … n - 1.
void repeat_noise(const WindowPlan& plan, int64_t clip, int64_t z, std::span<float> noise,
                  const std::function<std::vector<int64_t>(int64_t n)>& shuffled);

}  // namespace tachy
