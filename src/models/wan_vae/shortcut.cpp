// Wan2.2's shortcuts around whole blocks (ops/shortcut has the formulas). The block's input is kept, averaged
// (down) or duplicated (up), and added to the block's output. The first chunk is one frame; if it is
// upsampled in time, only the last of the resulting frames is used.
#include "ops/shortcut/shortcut.h"

#include "models/wan_vae/layers.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy::wan_vae {
namespace {

class Save : public Layer {
 public:
  explicit Save(int id) : id_(static_cast<size_t>(id)) {}
  const char* name() const override { return "shortcut"; }
  void run(const Tensor& x, const Tensor&, Pass& pass) const override {
    const runtime::Bands& bands = pass.state.bands;
    if (!bands.divided()) return copy_bytes(x, pass.saved[id_], pass.stream);
    ops::copy({.x = bands.own(x), .y = pass.saved[id_]}, pass.stream);
  }

 private:
  size_t id_;
};

class AddSaved : public Layer {
 public:
  AddSaved(int id, const ShortcutShape& s, bool duplicated)
      : id_(static_cast<size_t>(id)), s_(s), duplicated_(duplicated) {
    const int64_t factor = s.time_factor * s.space_factor * s.space_factor;
    check(duplicated ? s.co * factor % s.ci == 0 : s.ci * factor % s.co == 0, ErrorCode::unsupported,
          "vae: a shortcut of {} channels to {} with a factor of {}", s.ci, s.co, factor);
  }

  const char* name() const override { return "shortcut"; }
  void run(const Tensor&, const Tensor& y, Pass& pass) const override {
    ops::shortcut({.x = pass.saved[id_],
                   .time_factor = s_.time_factor,
                   .space_factor = s_.space_factor,
                   .duplicated = duplicated_,
                   .dropped = duplicated_ && pass.first() ? s_.time_factor - 1 : 0,
                   .y = pass.state.bands.own(y)},
                  pass.stream);
  }

 private:
  size_t id_;
  ShortcutShape s_;
  bool duplicated_;
};

}  // namespace

LayerPtr make_save(int id) { return std::make_unique<Save>(id); }
LayerPtr make_add_averaged(int id, const ShortcutShape& shape) {
  return std::make_unique<AddSaved>(id, shape, false);
}
LayerPtr make_add_duplicated(int id, const ShortcutShape& shape) {
  return std::make_unique<AddSaved>(id, shape, true);
}

}  // namespace tachy::wan_vae
