// The definition of the shortcuts. The CPU runs it, too, since it touches each value once, which is little
// compared with the convolutions' thousands of flops per value.
#include "ops/shortcut/shortcut_impl.h"

namespace tachy::ops {
namespace {

template <class Sum>
void add_averaged(const ShortcutArgs& a, int64_t t, int64_t i, int64_t j, float* y) {
  const int64_t fs = a.space_factor, area = fs * fs, factor = a.time_factor * area, co = a.y.dim(3);
  const int64_t group = a.x.dim(3) * factor / co;
  for (int64_t o = 0; o < co; ++o) {
    Sum sum = 0;
    for (int64_t e = o * group; e < (o + 1) * group; ++e) {
      const int64_t inner = e % factor, frame = t + inner / area;
      if (frame < 0) continue;
      const int64_t row = i + inner % area / fs, column = j + inner % fs;
      sum +=
          a.x.as<float>()[frame * a.x.stride(0) + row * a.x.stride(1) + column * a.x.stride(2) + e / factor];
    }
    y[o] += static_cast<float>(sum / static_cast<Sum>(group));
  }
}

void add_duplicated(const ShortcutArgs& a, int64_t t, int64_t i, int64_t j, float* y) {
  const int64_t ft = a.time_factor, fs = a.space_factor, factor = ft * fs * fs, co = a.y.dim(3);
  const int64_t repeats = co * factor / a.x.dim(3), phase = t % ft * fs * fs + i % fs * fs + j % fs;
  const float* x = a.x.as<float>() + t / ft * a.x.stride(0) + i / fs * a.x.stride(1) + j / fs * a.x.stride(2);
  for (int64_t o = 0; o < co; ++o) y[o] += x[(o * factor + phase) / repeats];
}

template <class Sum>
void run(const ShortcutArgs& a, Stream& stream) {
  const int64_t height = a.y.dim(1), width = a.y.dim(2), co = a.y.dim(3), ft = a.time_factor;
  const int64_t pad = (ft - a.x.dim(0) % ft) % ft;
  stream.pool->run(a.y.dim(0) * height, [&](int64_t row, int) {
    const int64_t t = row / height, i = row % height;
    for (int64_t j = 0; j < width; ++j) {
      float* y = a.y.as<float>() + t * a.y.stride(0) + (i * width + j) * co;
      if (a.duplicated)
        add_duplicated(a, t + a.dropped, i, j, y);
      else
        add_averaged<Sum>(a, t * ft - pad, i * a.space_factor, j * a.space_factor, y);
    }
  });
}

}  // namespace

void shortcut_ref(const ShortcutArgs& a, Stream& stream) { run<double>(a, stream); }
void shortcut_working(const ShortcutArgs& a, Stream& stream) { run<float>(a, stream); }

}  // namespace tachy::ops
