#include "ops/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {

void rope_cuda(const RopeArgs& args, Stream& stream);  // rope_sm80.cu

std::span<const Impl<RopeArgs>> rope_impls() {
  static constexpr Impl<RopeArgs> table[] = {
      gpu_impl<rope_cuda>("cuda"), {"cpu", nullptr, rope_cpu}, {"ref", nullptr, rope_ref}};
  return table;
}

void rope(const RopeArgs& a, Stream& stream) {
  const char* op = "rope";
  expect_float(op, "x", a.x, {-1, -1, -1, -1}, stream);
  const int64_t l = a.x.dim(1), d = a.x.dim(3);
  require(d % 2 == 0, "{}: expected an even head dim, got {}", op, d);
  expect_f32(op, "cos", a.cos, {l, d / 2});
  expect_f32(op, "sin", a.sin, {l, d / 2});
  expect_float(op, "y", a.y, {a.x.dim(0), l, a.x.dim(2), d}, stream);
  expect_same_dtype(op, "y", a.y, a.x);
  if (count_pass(op, a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<RopeArgs>(op, rope_impls(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

namespace {

// The angles' cosines and sines for each position of an axis: [extent, pairs].
struct RopeAxis {
  int64_t extent, inner, pairs;  // token t has position t / inner % extent
  std::vector<float> cos, sin;

  RopeAxis(int64_t positions, int64_t tokens_each, int64_t dim, double theta, const RopeTime& time = {})
      : extent(positions),
        inner(tokens_each),
        pairs(dim / 2),
        cos(static_cast<size_t>(extent * pairs)),
        sin(cos.size()) {
    for (int64_t p = 0; p < pairs; ++p) {
      const double frequency =
          p + 1 == time.riflex ? 0.9 * 2 * std::numbers::pi / static_cast<double>(extent)
                               : 1.0 / std::pow(theta, static_cast<double>(2 * p) / static_cast<double>(dim));
      for (int64_t i = 0; i < extent; ++i) {
        const int64_t position = time.first + (time.reverse ? extent - 1 - i : i);
        const double angle = static_cast<double>(position) * frequency;
        const auto at = static_cast<size_t>(i * pairs + p);
        cos[at] = static_cast<float>(std::cos(angle)), sin[at] = static_cast<float>(std::sin(angle));
      }
    }
  }
};

// Each token's row has the pairs of all axes, one axis after the other.
void fill_rows(std::span<const RopeAxis> axes, int64_t tokens, const Tensor& cos, const Tensor& sin,
               std::span<const int32_t> place = {}) {
  for (int64_t token = 0; token < tokens; ++token) {
    const int64_t row = place.empty() ? token : place[static_cast<size_t>(token)];
    float *c = cos.as<float>() + row * cos.stride(0), *s = sin.as<float>() + row * sin.stride(0);
    for (const RopeAxis& axis : axes) {
      const auto from = static_cast<ptrdiff_t>(token / axis.inner % axis.extent * axis.pairs);
      c = std::copy_n(axis.cos.begin() + from, axis.pairs, c);
      s = std::copy_n(axis.sin.begin() + from, axis.pairs, s);
    }
  }
}

void check_tables(const char* op, int64_t tokens, int64_t head_dim, const Tensor& cos, const Tensor& sin) {
  require(head_dim > 0 && head_dim % 2 == 0, "{}: expected an even head dim, got {}", op, head_dim);
  expect_f32(op, "cos", cos, {tokens, head_dim / 2});
  expect_f32(op, "sin", sin, {tokens, head_dim / 2});
}

}  // namespace

void rope_table_1d(int64_t length, int64_t head_dim, double theta, const Tensor& cos, const Tensor& sin,
                   const RopeTime& time) {
  const char* op = "rope_table_1d";
  require(length >= 0, "{}: expected a length, got {}", op, length);
  check_tables(op, length, head_dim, cos, sin);
  if (cos.device == Device::null) return;
  const RopeAxis axis(length, 1, head_dim, theta, time);
  fill_rows({&axis, 1}, length, cos, sin);
}

void rope_table_3d(int64_t frames, int64_t rows, int64_t columns, int64_t head_dim, double theta,
                   const Tensor& cos, const Tensor& sin, const RopeTime& time,
                   std::span<const int32_t> place) {
  const char* op = "rope_table_3d";
  require(frames >= 0 && rows >= 0 && columns >= 0, "{}: expected a grid, got {} x {} x {}", op, frames, rows,
          columns);
  const int64_t tokens = frames * rows * columns;
  check_tables(op, tokens, head_dim, cos, sin);
  require(place.empty() || static_cast<int64_t>(place.size()) == tokens, "{}: expected {} places, got {}", op,
          tokens, place.size());
  for (const int32_t at : place)
    require(at >= 0 && at < tokens, "{}: expected places in [0, {}), got {}", op, tokens, at);
  if (cos.device == Device::null) return;
  const int64_t side = 2 * (head_dim / 6), first = head_dim - 2 * side;
  require(time.riflex >= 0 && time.riflex <= first / 2, "{}: expected a pair of the time axis's {}, got {}",
          op, first / 2, time.riflex);
  const RopeAxis axes[] = {
      {frames, rows * columns, first, theta, time}, {rows, columns, side, theta}, {columns, 1, side, theta}};
  fill_rows(axes, tokens, cos, sin, place);
}

}  // namespace tachy::ops
