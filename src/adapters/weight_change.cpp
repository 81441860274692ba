#include "adapters/weight_change.h"

#include <algorithm>
#include <cmath>

#include "adapters/low_rank.h"
#include "base/error.h"
#include "cpu/widen.h"

namespace tachy {
namespace {

using Kind = WeightChange::Kind;
using Values = std::vector<float>;

// Returns rows [first, first + count) of one of the file's matrices.
Values wide_rows(const Tensor& m, int64_t first, int64_t count) {
  const int64_t width = m.dim(1);
  Values out(static_cast<size_t>(count * width));
  cpu::widen(static_cast<const char*>(m.data) + first * width * dtype_size(m.dtype), m.dtype, count * width,
             out.data());
  return out;
}
Values wide(const Tensor& m) { return wide_rows(m, 0, m.dim(0)); }

// Returns rows of B·A.
Values product_rows(const Tensor& b, const Tensor& a, int64_t first, int64_t count) {
  Values out(static_cast<size_t>(count * a.dim(1)), 0.0f);
  add_low_rank(wide_rows(b, first, count).data(), wide(a).data(), count, a.dim(0), a.dim(1), 1, out.data());
  return out;
}

void add(const Values& delta, double factor, const Tensor& rows) {
  const auto f = static_cast<float>(factor);
  float* w = rows.as<float>();
  for (size_t i = 0; i < delta.size(); ++i) w[i] += f * delta[i];
}

void apply_low_rank(const WeightChange& c, double factor, int64_t first, const Tensor& rows) {
  add_low_rank(wide_rows(c.up, first, rows.dim(0)).data(), wide(c.down).data(), rows.dim(0), c.down.dim(0),
               c.down.dim(1), static_cast<float>(factor), rows.as<float>());
}

Values hadamard_rows(const WeightChange& c, int64_t first, int64_t count) {
  Values out = product_rows(c.up, c.down, first, count);
  const Values other = product_rows(c.up_2, c.down_2, first, count);
  for (size_t i = 0; i < out.size(); ++i) out[i] *= other[i];
  return out;
}

// Returns W1 [a, b] or W2 [c, d], from one matrix or two factors.
Values kronecker_factor(const Tensor& up, const Tensor& down) {
  return down.defined() ? product_rows(up, down, 0, up.dim(0)) : wide(up);
}
int64_t factor_columns(const Tensor& up, const Tensor& down) {
  return down.defined() ? down.dim(1) : up.dim(1);
}

void apply_kronecker(const WeightChange& c, double factor, int64_t first, const Tensor& rows) {
  const Values w1 = kronecker_factor(c.up, c.down), w2 = kronecker_factor(c.up_2, c.down_2);
  const int64_t height = c.up_2.dim(0), b = factor_columns(c.up, c.down),
                d = factor_columns(c.up_2, c.down_2);
  for (int64_t r = 0; r < rows.dim(0); ++r) {
    const float* left = w1.data() + (first + r) / height * b;
    const float* right = w2.data() + (first + r) % height * d;
    float* out = rows.as<float>() + r * rows.dim(1);
    for (int64_t j = 0; j < b; ++j)
      for (int64_t k = 0; k < d; ++k) out[j * d + k] += static_cast<float>(factor) * left[j] * right[k];
  }
}

// W·A1·A2 uses the unchanged W, so it is computed before B1·B2 is added.
void apply_product(const WeightChange& c, double factor, int64_t first, const Tensor& rows) {
  const int64_t n = rows.dim(0), in = c.up_2.dim(0), rank = c.up_2.dim(1);
  Values through(static_cast<size_t>(n * rank), 0.0f);
  add_low_rank(rows.as<float>(), wide(c.up_2).data(), n, in, rank, 1, through.data());
  add_low_rank(through.data(), wide(c.down_2).data(), n, rank, in, static_cast<float>(factor),
               rows.as<float>());
  apply_low_rank(c, factor, first, rows);
}

// Adds the difference that a change makes to W, times the factor, to `rows`.
void add_change(const WeightChange& c, double factor, int64_t first, const Tensor& rows) {
  switch (c.kind) {
    case Kind::low_rank:
      return apply_low_rank(c, factor, first, rows);
    case Kind::full:
    case Kind::replace:
      return add(wide_rows(c.up, first, rows.dim(0)), factor, rows);
    case Kind::hadamard:
      return add(hadamard_rows(c, first, rows.dim(0)), factor, rows);
    case Kind::kronecker:
      return apply_kronecker(c, factor, first, rows);
    case Kind::product:
      return apply_product(c, factor, first, rows);
  }
}

// Computes W + strength·(m·V/|V| - W) with V = W + s·D, row by row.
void apply_magnitude(const WeightChange& c, double strength, int64_t first, const Tensor& rows) {
  const int64_t width = rows.dim(1);
  const Values before(rows.as<float>(), rows.as<float>() + rows.numel());
  add_change(c, c.scale, first, rows);
  const Values lengths = wide_rows(c.magnitude.view({-1, 1}), first, rows.dim(0));
  for (int64_t r = 0; r < rows.dim(0); ++r) {
    float* v = rows.as<float>() + r * width;
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += static_cast<double>(v[i]) * v[i];
    const double factor = squares > 0 ? lengths[static_cast<size_t>(r)] / std::sqrt(squares) : 0;
    for (int64_t i = 0; i < width; ++i) {
      const double w = before[static_cast<size_t>(r * width + i)];
      v[i] = static_cast<float>(w + strength * (factor * v[i] - w));
    }
  }
}

double squares_of(const Values& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return sum;
}

// Returns the Gram matrix of B's columns, or of A's rows.
std::vector<double> gram(const Tensor& m, bool of_columns) {
  const Values v = wide(m);
  const auto rows = m.dim(0), columns = m.dim(1), n = of_columns ? columns : rows;
  const auto at = [&](int64_t i, int64_t k) {
    return static_cast<double>(v[static_cast<size_t>(of_columns ? k * columns + i : i * columns + k)]);
  };
  std::vector<double> out(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < (of_columns ? rows : columns); ++k) sum += at(i, k) * at(j, k);
      out[static_cast<size_t>(i * n + j)] = out[static_cast<size_t>(j * n + i)] = sum;
    }
  return out;
}

}  // namespace

const char* kind_name(const WeightChange& c) {
  switch (c.kind) {
    case Kind::low_rank:
      return c.magnitude.defined() ? "DoRA" : "LoRA";
    case Kind::full:
      return "delta";
    case Kind::replace:
      return "set_weight";
    case Kind::hadamard:
      return c.magnitude.defined() ? "LoHa with DoRA" : "LoHa";
    case Kind::kronecker:
      return c.magnitude.defined() ? "LoKr with DoRA" : "LoKr";
    case Kind::product:
      return c.magnitude.defined() ? "GLoRA with DoRA" : "GLoRA";
  }
  return "";
}

void apply_change(const WeightChange& c, double strength, int64_t first, const Tensor& rows) {
  if (c.magnitude.defined()) return apply_magnitude(c, strength, first, rows);
  if (c.kind != Kind::replace) return add_change(c, strength * c.scale, first, rows);
  Values values = wide_rows(c.up, first, rows.dim(0));
  for (size_t i = 0; i < values.size(); ++i) values[i] -= rows.as<float>()[i];
  add(values, strength, rows);
}

double change_norm_squared(const WeightChange& c) {
  const double s = c.scale * c.scale;
  if (c.magnitude.defined()) return 0;
  if (c.kind == Kind::full) return s * squares_of(wide(c.up));
  if (c.kind == Kind::hadamard) return s * squares_of(hadamard_rows(c, 0, c.up.dim(0)));
  if (c.kind == Kind::kronecker)
    return s * squares_of(kronecker_factor(c.up, c.down)) * squares_of(kronecker_factor(c.up_2, c.down_2));
  if (c.kind != Kind::low_rank) return 0;
  const auto b = gram(c.up, true), a = gram(c.down, false);  // |B·A|² = tr(BᵀB·AAᵀ)
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return s * std::max(sum, 0.0);
}

}  // namespace tachy
