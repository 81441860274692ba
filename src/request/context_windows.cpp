#include "request/context_windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace tachy {
namespace {

// Returns the bits of a step's number in reverse order, as a fraction: 0, 1/2, 1/4, 3/4, 1/8 … (van der
// Corput).
double halving(int step) {
  double value = 0, bit = 0.5;
  for (auto rest = static_cast<unsigned>(step); rest != 0; rest >>= 1, bit /= 2)
    if (rest & 1) value += bit;
  return value;
}

Window range(int64_t first, int64_t count) {
  Window out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::vector<Window> static_windows(const WindowPlan& plan, int64_t clip) {
  std::vector<Window> out;
  for (int64_t first = 0;; first += plan.frames - plan.overlap) {
    const bool last = first + plan.frames >= clip;
    out.push_back(range(last ? clip - plan.frames : first, plan.frames));
    if (last) return out;
  }
}

std::vector<Window> looped_windows(const WindowPlan& plan, int64_t clip, int step) {
  const double phase = halving(step), ratio = static_cast<double>(clip) / static_cast<double>(plan.frames);
  const int64_t strides = std::min(plan.strides, static_cast<int64_t>(std::ceil(std::log2(ratio))) + 1);
  const auto pad = static_cast<int64_t>(std::nearbyint(static_cast<double>(clip) * phase));
  std::vector<Window> out;
  for (int64_t i = 0; i < strides; ++i) {
    const int64_t stride = int64_t{1} << i;
    const auto first = static_cast<int64_t>(phase * static_cast<double>(stride)) + pad;
    for (int64_t j = first; j < clip + pad; j += plan.frames * stride - plan.overlap) {
      Window& window = out.emplace_back();
      for (int64_t k = 0; k < plan.frames; ++k) window.push_back((j + k * stride) % clip);
    }
  }
  return out;
}

// A window that wraps around the clip's end is moved back to end with the clip. If the next window does not
// hold the frame at which it wrapped around, another window that begins at that frame is inserted.
std::vector<Window> uniform_windows(const WindowPlan& plan, int64_t clip, int step) {
  std::vector<Window> all = looped_windows(plan, clip, step);
  bool put_in = false;  // an inserted window does not insert another one
  for (size_t i = 0; i < all.size(); ++i) {
    const bool again = std::exchange(put_in, false);
    const auto turn =
        std::ranges::adjacent_find(all[i], [&](int64_t a, int64_t b) { return b % clip < a % clip; });
    if (turn == all[i].end()) continue;
    const int64_t anew = turn[1], first = all[i].front();
    for (int64_t& frame : all[i]) frame = (frame - first + clip) % clip;
    const int64_t behind = clip - 1 - all[i].back();
    for (int64_t& frame : all[i]) frame += behind;
    const Window& next = all[(i + 1) % all.size()];
    if (again || std::ranges::find(next, anew) != next.end()) continue;
    all.insert(all.begin() + static_cast<int64_t>(i) + 1, range(anew, plan.frames));
    put_in = true;
  }
  std::vector<Window> out;
  for (Window& window : all) {
    for (int64_t& frame : window) frame %= clip;  // the stride may be too long for the clip
    if (std::ranges::find(out, window) == out.end()) out.push_back(window);
  }
  return out;
}

// Computes a value of torch.linspace(0, 1, count), which counts down from the end in its second half.
float ramp(int64_t i, int64_t count) {
  if (count == 1) return 0;
  const float step = 1.0f / static_cast<float>(count - 1);
  return i < count / 2 ? step * static_cast<float>(i) : 1.0f - step * static_cast<float>(count - 1 - i);
}
float ramp_down(int64_t i, int64_t count) {
  if (count == 1) return 1;
  const float step = -1.0f / static_cast<float>(count - 1);
  return i < count / 2 ? 1.0f + step * static_cast<float>(i) : -step * static_cast<float>(count - 1 - i);
}

}  // namespace

WindowKind parse_window_kind(std::string_view name) {
  if (name == "static") return WindowKind::statics;
  if (name == "uniform") return WindowKind::uniform;
  if (name == "looped") return WindowKind::looped;
  require(name == "none", "expected none, static, uniform or looped, got '{}'", name);
  return WindowKind::none;
}

WindowMask parse_window_mask(std::string_view name) {
  require(name == "linear" || name == "pyramid", "expected linear or pyramid, got '{}'", name);
  return name == "linear" ? WindowMask::linear : WindowMask::pyramid;
}

std::vector<Window> windows_of(const WindowPlan& plan, int64_t clip, int step) {
  if (!plan.divides(clip)) return {range(0, clip)};
  check(plan.overlap >= 0 && plan.overlap < plan.frames && plan.strides >= 1, ErrorCode::internal,
        "windows of {} frames that share {}, {} strides", plan.frames, plan.overlap, plan.strides);
  std::vector<Window> out = plan.kind == WindowKind::uniform  ? uniform_windows(plan, clip, step)
                            : plan.kind == WindowKind::looped ? looped_windows(plan, clip, step)
                                                              : static_windows(plan, clip);
  std::vector<bool> held(static_cast<size_t>(clip));
  const auto hold = [&](const Window& window) {
    for (const int64_t frame : window) held[static_cast<size_t>(frame)] = true;
  };
  std::ranges::for_each(out, hold);
  for (int64_t frame = 0; frame < clip; ++frame) {  // short windows that were moved may leave out some frames
    if (held[static_cast<size_t>(frame)]) continue;
    hold(out.emplace_back(range(std::min(frame, clip - plan.frames), plan.frames)));
  }
  return out;
}

std::vector<float> window_weights(const WindowPlan& plan, int64_t clip, std::span<const int64_t> window) {
  const auto count = static_cast<int64_t>(window.size()), overlap = std::min(plan.overlap, count);
  const auto [least, most] = std::ranges::minmax(window);
  const bool begins = least == 0, ends = most == clip - 1, looped = plan.kind == WindowKind::looped;
  std::vector<float> out(window.size(), 1);
  const auto at = [&](int64_t i) -> float& { return out[static_cast<size_t>(i)]; };
  if (plan.mask == WindowMask::linear) {
    for (int64_t i = 0; i < overlap && (!begins || (looped && ends)); ++i) at(i) = ramp(i, overlap);
    for (int64_t i = 0; i < overlap && (!ends || (looped && begins)); ++i)
      at(count - overlap + i) = ramp_down(i, overlap);
    return out;
  }
  const int64_t peak = (count + 1) / 2;
  for (int64_t i = 0; i < count; ++i)
    at(i) = static_cast<float>(static_cast<double>(std::min(i + 1, count - i)) / static_cast<double>(peak));
  for (int64_t i = 0; i < overlap && begins && !looped; ++i) at(i) = std::max(at(i), ramp(i, overlap));
  for (int64_t i = 0; i < overlap && ends && !looped; ++i)
    at(count - overlap + i) = std::max(at(count - overlap + i), ramp_down(i, overlap));
  return out;
}

std::vector<std::vector<float>> blend_weights(const WindowPlan& plan, int64_t clip,
                                              std::span<const Window> windows) {
  std::vector<std::vector<float>> out;
  std::vector<double> sums(static_cast<size_t>(clip));
  std::vector<int> held(static_cast<size_t>(clip));
  for (const Window& window : windows) {
    out.push_back(window_weights(plan, clip, window));
    for (size_t i = 0; i < window.size(); ++i) {
      const auto frame = static_cast<size_t>(window[i]);
      sums[frame] += double{out.back()[i]}, ++held[frame];
    }
  }
  check(std::ranges::all_of(held, [](int n) { return n > 0; }), ErrorCode::internal,
        "windows: a frame of the clip's {} is in none", clip);
  for (size_t w = 0; w < windows.size(); ++w)
    for (size_t i = 0; i < windows[w].size(); ++i) {
      const auto frame = static_cast<size_t>(windows[w][i]);
      out[w][i] = static_cast<float>(sums[frame] > 0 ? double{out[w][i]} / sums[frame] : 1.0 / held[frame]);
    }
  return out;
}

void repeat_noise(const WindowPlan& plan, int64_t clip, int64_t z, std::span<float> noise,
                  const std::function<std::vector<int64_t>(int64_t)>& shuffled) {
  const size_t frame = noise.size() / static_cast<size_t>(z * clip);
  const int64_t piece = plan.frames - plan.overlap;
  for (int64_t first = 0; first + plan.frames < clip; first += piece) {
    const int64_t place = first + plan.frames, count = std::min(piece, clip - place);
    const std::vector<int64_t> order = shuffled(count);
    for (int64_t channel = 0; channel < z; ++channel) {
      const auto at = [&](int64_t i) {
        return noise.begin() + (channel * clip + i) * static_cast<int64_t>(frame);
      };
      // This is a copy: with short windows the range overlaps the place that is written.
      const std::vector<float> before(at(first), at(first + count));
      for (int64_t i = 0; i < count; ++i) {
        const auto from = before.begin() + order[static_cast<size_t>(i)] * static_cast<int64_t>(frame);
        std::copy(from, from + static_cast<int64_t>(frame), at(place + i));
      }
    }
  }
}

}  // namespace tachy
