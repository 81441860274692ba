// The definition of the backward pass of a norm over rows with its affine map and its modulation:
//   y = (n · weight + bias) · (1 + scale[row]) + shift[row],  n = x·r or, if centred, (x − mean)·r
// Tensors are those of layernorm_modulate_backward.h; a tensor that is not given is left out of the formula.
#pragma once

#include "ops/norm_backward_def.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

// Throws unless scale, row, dscale and dshift of a norm's backward args fit together and fit its x.
template <class Args>
void expect_modulation_gradients(const char* op, const Args& a, DType param, const Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  require(a.scale.defined() || !(a.dscale.defined() || a.dshift.defined()),
          "{}: dscale and dshift need scale, got none", op);
  if (!a.scale.defined()) return;
  expect_real(op, "scale", a.scale, {-1, c}, param);
  expect_rows(op, a.row, m, a.scale.dim(0), stream);
  if (a.dscale.defined()) expect_real(op, "dscale", a.dscale, {a.scale.dim(0), c}, param);
  if (a.dshift.defined()) expect_real(op, "dshift", a.dshift, {a.scale.dim(0), c}, param);
}

struct ModulatedNormBackward {
  Tensor x, weight, bias, scale, row, dy;
  float eps = 0;
  bool centred = false;
  Tensor dx, dweight, dbias, dscale, dshift;
};

template <class Store, class Real>
class ModulatedNormDefinition {
 public:
  ModulatedNormDefinition(const ModulatedNormBackward& args, NormRow<Real>* rows)
      : a(args), rows_(rows), w_(row_of<Store>(a.weight, 0)), bias_(row_of<Store>(a.bias, 0)) {}

  void row_gradient(int64_t i) const {
    const Store *x = row_of<Store>(a.x, i), *dy = row_of<Store>(a.dy, i);
    const Store* scale = row_of<Store>(a.scale, table_row(i));
    Store* dx = row_of<Store>(a.dx, i);
    const int64_t c = a.x.dim(1);
    rows_[i] = norm_row<Store, Real>(x, c, Real(a.eps), a.centred);
    norm_row_backward<Store, Real>(
        x, c, rows_[i], a.centred,
        [&](int64_t j) { return modulated(dy[j], scale, j) * (w_ ? Real(w_[j]) : Real(1)); },
        [&](int64_t j, Real value) { dx[j] = static_cast<Store>(value); });
  }

  // Sums over the rows, for channel j; `sums` has room for two values per row of the table.
  void channel_gradients(int64_t j, Real* sums) const {
    const int64_t tables = a.scale.defined() ? a.scale.dim(0) : 0;
    Real weight = 0, bias = 0, *scale_sum = sums, *shift_sum = sums + tables;
    for (int64_t r = 0; r < 2 * tables; ++r) sums[r] = 0;
    for (int64_t i = 0; i < a.x.dim(0); ++i) {
      const int64_t r = table_row(i);
      const Store dy = row_of<Store>(a.dy, i)[j];
      const Real n = rows_[i].normed(Real(row_of<Store>(a.x, i)[j]));
      const Real s = modulated(dy, row_of<Store>(a.scale, r), j);
      weight += s * n;
      bias += s;
      if (tables == 0) continue;
      scale_sum[r] += Real(dy) * (n * (w_ ? Real(w_[j]) : Real(1)) + (bias_ ? Real(bias_[j]) : Real(0)));
      shift_sum[r] += Real(dy);
    }
    if (a.dweight.defined()) row_of<Store>(a.dweight, 0)[j] = static_cast<Store>(weight);
    if (a.dbias.defined()) row_of<Store>(a.dbias, 0)[j] = static_cast<Store>(bias);
    for (int64_t r = 0; r < tables; ++r) {
      if (a.dscale.defined()) row_of<Store>(a.dscale, r)[j] = static_cast<Store>(scale_sum[r]);
      if (a.dshift.defined()) row_of<Store>(a.dshift, r)[j] = static_cast<Store>(shift_sum[r]);
    }
  }

 private:
  int64_t table_row(int64_t i) const {
    return a.row.defined() && a.scale.defined() ? a.row.as<int32_t>()[i] : 0;
  }
  static Real modulated(Store dy, const Store* scale, int64_t j) {
    return Real(dy) * (scale ? Real(1) + Real(scale[j]) : Real(1));
  }

  const ModulatedNormBackward& a;
  NormRow<Real>* rows_;
  const Store *w_, *bias_;
};

template <class Store, class Real>
void define_norm_backward(const ModulatedNormBackward& a, Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1), sums = 2 * (a.scale.defined() ? a.scale.dim(0) : 0);
  ArenaScope scope(*stream.arena);
  Arena& arena = *stream.arena;
  auto* rows = static_cast<NormRow<Real>*>(arena.bytes(static_cast<size_t>(m) * sizeof(NormRow<Real>)));
  auto* scratch =
      static_cast<Real*>(arena.bytes(static_cast<size_t>(stream.threads() * sums) * sizeof(Real)));
  if (stream.measuring()) return;
  const ModulatedNormDefinition<Store, Real> definition(a, rows);
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) definition.row_gradient(i);
  });
  parallel_ranges(stream, c, 16, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t j = begin; j < end; ++j) definition.channel_gradients(j, scratch + worker * sums);
  });
}

}  // namespace tachy::ops
