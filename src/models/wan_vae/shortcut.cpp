// Wan2.2's shortcuts round whole blocks, without weights. A factor of ft in time and fs in space turns a
// position's neighbourhood into F = ft·fs² channels (index c·F + dt·fs² + dy·fs + dx), and back:
//   averaged:   y[o] += mean of g = Ci·F/Co consecutive expanded channels; zeros in front where a chunk's
//   frames
//               (the first chunk's) are no multiple of ft
//   duplicated: y[o](ft·t + dt, fs·y + dy, fs·x + dx) += x[e div (Co·F/Ci)](t, y, x), e = o's expanded index;
//               the first chunk begins at the last of its ft frames
// Plain loops: these passes touch each value once beside convolutions of thousands of flops a value.
#include <cstring>

#include "models/wan_vae/layers.h"
#include "ops/elementwise/elementwise.h"

namespace tachy::wan_vae {
namespace {

class Save : public Layer {
 public:
  explicit Save(int id) : id_(static_cast<size_t>(id)) {}
  const char* name() const override { return "shortcut"; }
  void run(const Tensor& x, const Tensor&, Pass& pass) const override {
    ops::copy({.x = x, .y = pass.saved[id_]}, pass.stream);
  }

 private:
  size_t id_;
};

class AddAveraged : public Layer {
 public:
  AddAveraged(int id, const ShortcutShape& s) : id_(static_cast<size_t>(id)), s_(s) {
    const int64_t factor = s.time_factor * s.space_factor * s.space_factor;
    check(s.ci * factor % s.co == 0, ErrorCode::unsupported, "vae: a shortcut of {} x {} channels to {}",
          s.ci, factor, s.co);
  }

  const char* name() const override { return "shortcut"; }
  void run(const Tensor&, const Tensor& y, Pass& pass) const override {
    const Tensor& from = pass.saved[id_];
    if (pass.stream.measuring()) return;
    check(!pass.stream.gpu, ErrorCode::unsupported,
          "vae: Wan2.2's shortcuts run on the CPU only so far; use --device cpu");
    const int64_t height = y.dim(1), width = y.dim(2), ft = s_.time_factor, fs = s_.space_factor;
    const int64_t pad = (ft - from.dim(0) % ft) % ft;
    pass.stream.pool->run(y.dim(0) * height, [&](int64_t row, int) {
      const int64_t t = row / height, i = row % height;
      for (int64_t j = 0; j < width; ++j)
        add_position(from, t * ft - pad, i * fs, j * fs, y.as<float>() + (row * width + j) * s_.co);
    });
  }

 private:
  void add_position(const Tensor& from, int64_t t, int64_t i, int64_t j, float* y) const {
    const int64_t fs = s_.space_factor, area = fs * fs, factor = s_.time_factor * area;
    const int64_t group = s_.ci * factor / s_.co;
    for (int64_t o = 0; o < s_.co; ++o) {
      double sum = 0;
      for (int64_t e = o * group; e < (o + 1) * group; ++e) {
        const int64_t inner = e % factor, frame = t + inner / area;
        if (frame < 0) continue;
        const int64_t row = i + inner % area / fs, column = j + inner % fs;
        sum += from.as<float>()[frame * from.strides[0] + row * from.strides[1] + column * from.strides[2] +
                                e / factor];
      }
      y[o] += static_cast<float>(sum / static_cast<double>(group));
    }
  }

  size_t id_;
  ShortcutShape s_;
};

class AddDuplicated : public Layer {
 public:
  AddDuplicated(int id, const ShortcutShape& s) : id_(static_cast<size_t>(id)), s_(s) {
    const int64_t factor = s.time_factor * s.space_factor * s.space_factor;
    check(s.co * factor % s.ci == 0, ErrorCode::unsupported, "vae: a shortcut of {} channels to {} x {}",
          s.ci, s.co, factor);
  }

  const char* name() const override { return "shortcut"; }
  void run(const Tensor&, const Tensor& y, Pass& pass) const override {
    const Tensor& from = pass.saved[id_];
    if (pass.stream.measuring()) return;
    check(!pass.stream.gpu, ErrorCode::unsupported,
          "vae: Wan2.2's shortcuts run on the CPU only so far; use --device cpu");
    const int64_t height = y.dim(1), width = y.dim(2), ft = s_.time_factor, fs = s_.space_factor;
    const int64_t factor = ft * fs * fs, repeats = s_.co * factor / s_.ci,
                  dropped = pass.first() ? ft - 1 : 0;
    pass.stream.pool->run(y.dim(0) * height, [&](int64_t row, int) {
      const int64_t t = row / height + dropped, i = row % height;
      for (int64_t j = 0; j < width; ++j) {
        const int64_t phase = t % ft * fs * fs + i % fs * fs + j % fs;
        const float* x =
            from.as<float>() + t / ft * from.strides[0] + i / fs * from.strides[1] + j / fs * from.strides[2];
        float* to = y.as<float>() + (row * width + j) * s_.co;
        for (int64_t o = 0; o < s_.co; ++o) to[o] += x[(o * factor + phase) / repeats];
      }
    });
  }

 private:
  size_t id_;
  ShortcutShape s_;
};

}  // namespace

LayerPtr make_save(int id) { return std::make_unique<Save>(id); }
LayerPtr make_add_averaged(int id, const ShortcutShape& shape) {
  return std::make_unique<AddAveraged>(id, shape);
}
LayerPtr make_add_duplicated(int id, const ShortcutShape& shape) {
  return std::make_unique<AddDuplicated>(id, shape);
}

}  // namespace tachy::wan_vae
