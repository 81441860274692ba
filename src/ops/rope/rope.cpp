#include "ops/rope/rope.h"

#include <cmath>

#include "ops/op_helpers.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {

std::span<const Impl<RopeArgs>> rope_impls() {
  static constexpr Impl<RopeArgs> table[] = {{"cpu", nullptr, rope_cpu}, {"ref", nullptr, rope_ref}};
  return table;
}

void rope(const RopeArgs& a, Stream& stream) {
  const char* op = "rope";
  expect_f32(op, "x", a.x, {-1, -1, -1, -1});
  const int64_t l = a.x.dim(1), d = a.x.dim(3);
  require(d % 2 == 0, "{}: expected an even head dim, got {}", op, d);
  expect_f32(op, "cos", a.cos, {l, d / 2});
  expect_f32(op, "sin", a.sin, {l, d / 2});
  expect_f32(op, "y", a.y, {a.x.dim(0), l, a.x.dim(2), d});
  const auto& impl = pick<RopeArgs>(op, rope_impls(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

void rope_table_3d(int64_t frames, int64_t rows, int64_t columns, int64_t head_dim, double theta, Tensor cos,
                   Tensor sin) {
  const char* op = "rope_table_3d";
  require(head_dim > 0 && head_dim % 2 == 0, "{}: expected an even head dim, got {}", op, head_dim);
  require(frames >= 0 && rows >= 0 && columns >= 0, "{}: expected a grid, got {} x {} x {}", op, frames, rows,
          columns);
  const int64_t tokens = frames * rows * columns, half = head_dim / 2;
  expect_f32(op, "cos", cos, {tokens, half});
  expect_f32(op, "sin", sin, {tokens, half});
  if (cos.device == Device::null) return;
  const int64_t side = 2 * (head_dim / 6), axis_dim[3] = {head_dim - 2 * side, side, side};
  int64_t first_pair = 0;
  for (int axis = 0; axis < 3; ++axis) {
    for (int64_t p = 0; p < axis_dim[axis] / 2; ++p) {
      const double exponent = static_cast<double>(2 * p) / static_cast<double>(axis_dim[axis]);
      const double frequency = 1.0 / std::pow(theta, exponent);
      // One cos and sin per position of the axis, copied to the tokens that share it.
      const int64_t extent = axis == 0 ? frames : axis == 1 ? rows : columns;
      const int64_t inner = axis == 0 ? rows * columns : axis == 1 ? columns : 1;
      const int64_t outer = axis == 0 ? 1 : axis == 1 ? frames : frames * rows;
      for (int64_t position = 0; position < extent; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        const float c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
        for (int64_t o = 0; o < outer; ++o) {
          for (int64_t i = 0; i < inner; ++i) {
            const int64_t token = (o * extent + position) * inner + i;
            cos.as<float>()[token * cos.stride(0) + first_pair + p] = c;
            sin.as<float>()[token * sin.stride(0) + first_pair + p] = s;
          }
        }
      }
    }
    first_pair += axis_dim[axis] / 2;
  }
}

}  // namespace tachy::ops
