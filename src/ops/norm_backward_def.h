// The common code of the definitions of the norms' backward passes. A norm of a row is n_j = (x_j − mean)·r.
// With g_j = ∂L/∂n_j and E the mean over the row
//   ∂L/∂x_j = r·(g_j − E[g] − n_j·E[g·n])       (without centring the term E[g] is absent)
#pragma once

#include <cmath>
#include <cstdint>

namespace tachy::ops {

template <class Real>
struct NormRow {
  Real mean, r;
  Real normed(Real x) const { return (x - mean) * r; }
};

// Mean (0 unless centred) and 1/sqrt(variance + eps) of a row.
template <class Store, class Real>
NormRow<Real> norm_row(const Store* x, int64_t c, Real eps, bool centred) {
  Real sum = 0, squares = 0;
  for (int64_t j = 0; centred && j < c; ++j) sum += Real(x[j]);
  const Real mean = centred ? sum / Real(c) : Real(0);
  for (int64_t j = 0; j < c; ++j) squares += (Real(x[j]) - mean) * (Real(x[j]) - mean);
  return {mean, Real(1) / std::sqrt(squares / Real(c) + eps)};
}

// Calls store(j, ∂L/∂x_j) for every j, with g(j) = ∂L/∂n_j.
template <class Store, class Real, class Gradient, class Result>
void norm_row_backward(const Store* x, int64_t c, const NormRow<Real>& row, bool centred, Gradient&& g,
                       Result&& store) {
  Real sum = 0, product = 0;
  for (int64_t j = 0; j < c; ++j) {
    sum += g(j);
    product += g(j) * row.normed(Real(x[j]));
  }
  const Real mean_g = centred ? sum / Real(c) : Real(0), mean_product = product / Real(c);
  for (int64_t j = 0; j < c; ++j) store(j, row.r * (g(j) - mean_g - row.normed(Real(x[j])) * mean_product));
}

}  // namespace tachy::ops
