#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/shortcut/shortcut_impl.h"

namespace tachy::ops {

std::span<const Impl<ShortcutArgs>> shortcut_table() {
  static constexpr Impl<ShortcutArgs> table[] = {gpu_impl<shortcut_cuda>("cuda"),
                                                 {"ref", nullptr, shortcut_ref}};
  return table;
}

void shortcut(const ShortcutArgs& a, Stream& stream) {
  const char* op = "shortcut";
  const int64_t ft = a.time_factor, fs = a.space_factor;
  require(ft >= 1 && fs >= 1 && a.dropped >= 0 && a.dropped < ft,
          "shortcut: expected factors >= 1 and fewer dropped frames than the factor in time, got {}, {}, {}",
          ft, fs, a.dropped);
  expect_float(op, "x", a.x, {-1, -1, -1, -1}, stream);
  expect_float(op, "y", a.y, {-1, -1, -1, -1}, stream);
  expect_contiguous(op, "x", a.x);
  expect_contiguous(op, "a frame of y", a.y.slice(0, 0, std::min<int64_t>(1, a.y.dim(0))));
  expect_same_dtype(op, "y", a.y, a.x);
  const int64_t t = a.x.dim(0), h = a.x.dim(1), w = a.x.dim(2), ci = a.x.dim(3), co = a.y.dim(3);
  const int64_t factor = ft * fs * fs;
  if (a.duplicated) {
    require(co * factor % ci == 0, "shortcut: expected {} x {} channels to be a multiple of {}", co, factor,
            ci);
    expect_shape(op, "y", a.y, {t * ft - a.dropped, h * fs, w * fs, co});
  } else {
    require(ci * factor % co == 0, "shortcut: expected {} x {} channels to be a multiple of {}", ci, factor,
            co);
    expect_shape(op, "y", a.y, {(t + ft - 1) / ft, h / fs, w / fs, co});
  }
  if (count_pass(op, a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<ShortcutArgs>(op, shortcut_table(), a, stream);
  if (!stream.measuring() && a.y.numel() > 0) impl.run(a, stream);
}

}  // namespace tachy::ops
