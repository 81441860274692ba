// Rotary positions: (a, b) → (a·cos − b·sin, a·sin + b·cos) for pairs of channels of each head of x
// [B, L, H, D]. The pairs are (2p, 2p + 1), or with `halves` (p, p + D/2).
//   rope      by the caller's tables cos and sin [L, D/2]
//   rope_1d   by angles (first + i) · theta^(−2p/D) of token i
//   rope_3d   by frame, row and column of a video's grid, as Wan splits D (ops/rope/rope.h)
// `back` rotates the other way, which is the backward pass. Tables that are made here are kept for later
// calls.
#include "bind/convert.h"
#include "bind/ops.h"
#include "bind/rows.h"
#include "ops/rope/rope_impl.h"

namespace tachy::python {
namespace {

constexpr int64_t kSlabValues = int64_t{1} << 18;

struct Rotation {
  Tensor cos, sin;
  ops::RopePairs pairs;
  bool back;
};

void expect_heads(const char* op, const Tensor& x) {
  expect_value(op, "x", x);
  require(x.rank == 4 && x.dim(3) % 2 == 0, "{}: expected x [batch, tokens, heads, even head dim], got {}",
          op, shown(x));
}

void rotate(const Rotation& r, const Tensor& x, const Tensor& y, Stream& stream) {
  if (r.back)
    return ops::rope_backward({.dy = x, .cos = r.cos, .sin = r.sin, .pairs = r.pairs, .dx = y}, stream);
  const ops::RopeArgs args{.x = x, .cos = r.cos, .sin = r.sin, .pairs = r.pairs, .y = y};
  x.dtype == DType::f64 ? ops::rope_ref(args, stream) : ops::rope(args, stream);
}

// Uses the whole tensor if the op takes it; otherwise it takes a copy on a GPU, and a slab of tokens at a
// time on the CPU.
void run_rotation(const Rotation& r, const Tensor& x, const Tensor& y, Context& context) {
  Stream& stream = context.stream();
  const DType work = work_dtype(x.dtype, context);
  const auto fits = [&](const Tensor& t) { return t.dtype == work && t.inner_contiguous(); };
  if (fits(x) && fits(y)) return rotate(r, x, y, stream);
  const int64_t tokens = x.dim(1), token_values = x.dim(2) * x.dim(3);
  const int64_t step = context.on_gpu() ? tokens : std::max<int64_t>(1, kSlabValues / token_values);
  const Tensor slab = context.scratch(work, {1, std::min(step, tokens), x.dim(2), x.dim(3)});
  for (int64_t b = 0; b < x.dim(0); ++b)
    for (int64_t begin = 0; begin < tokens; begin += step) {
      const int64_t end = std::min(tokens, begin + step);
      const auto part = [&](const Tensor& t) { return t.slice(0, b, b + 1).slice(1, begin, end); };
      const Tensor here = slab.slice(1, 0, end - begin);
      convert(part(x), here, context);
      rotate({r.cos.slice(0, begin, end), r.sin.slice(0, begin, end), r.pairs, r.back}, here, here, stream);
      convert(here, part(y), context);
    }
}

ops::RopePairs pairs_of(const Value& halves) {
  return halves.integer ? ops::RopePairs::halves : ops::RopePairs::adjacent;
}

Results results(Inputs in) {
  const char* op = "rope";
  const Tensor& x = in[0].tensor;
  expect_heads(op, x);
  for (const int i : {1, 2}) {
    const char* name = i == 1 ? "cos" : "sin";
    const Tensor& t = in[static_cast<size_t>(i)].tensor;
    expect_value(op, name, t);
    require(t.rank == 2 && t.dim(0) == x.dim(1) && t.dim(1) == x.dim(3) / 2,
            "{}: expected {} [{}, {}], got {}", op, name, x.dim(1), x.dim(3) / 2, shown(t));
  }
  return {Result::contiguous(x.dtype, x.shape())};
}

void run(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor& x = in[0].tensor;
  const DType dtype = parameter_dtype(x.dtype);
  const Rotation r{contiguous_as(in[1].tensor, dtype, context), contiguous_as(in[2].tensor, dtype, context),
                   pairs_of(in[3]), in[4].integer != 0};
  run_rotation(r, x, out[0], context);
}

// Returns cosines and sines [L, D/2] that `make` fills in; they are kept under these words.
template <class Make>
Rotation kept_rotation(const std::string& words, const Tensor& x, const Value& halves, const Value& back,
                       Context& context, Make&& make) {
  const int64_t tokens = x.dim(1), pairs = x.dim(3) / 2;
  const Tensor both = context.table(words, DType::f32, {2, tokens, pairs},
                                    [&](const Tensor& t) { make(t.select(0, 0), t.select(0, 1)); });
  const DType dtype = parameter_dtype(x.dtype);
  return {contiguous_as(both.select(0, 0), dtype, context), contiguous_as(both.select(0, 1), dtype, context),
          pairs_of(halves), back.integer != 0};
}

void expect_theta(const char* op, double theta) {
  require(theta > 0 && theta < 1e300, "{}: expected theta above 0, got {}", op, theta);
}

Results results_1d(Inputs in) {
  const char* op = "rope_1d";
  const Tensor& x = in[0].tensor;
  expect_heads(op, x);
  expect_theta(op, in[1].number);
  return {Result::contiguous(x.dtype, x.shape())};
}

void run_1d(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor& x = in[0].tensor;
  const double theta = in[1].number;
  const ops::RopeTime time{in[2].integer, in[3].integer != 0};
  const std::string words =
      fmt::format("rope {} {} {} {} {}", x.dim(1), x.dim(3), theta, time.first, time.reverse);
  const Rotation r =
      kept_rotation(words, x, in[4], in[5], context, [&](const Tensor& cos, const Tensor& sin) {
        ops::rope_table_1d(x.dim(1), x.dim(3), theta, cos, sin, time);
      });
  run_rotation(r, x, out[0], context);
}

Results results_3d(Inputs in) {
  const char* op = "rope_3d";
  const Tensor& x = in[0].tensor;
  expect_heads(op, x);
  const int64_t frames = in[1].integer, rows = in[2].integer, columns = in[3].integer;
  require(frames >= 0 && rows >= 0 && columns >= 0 && frames <= x.dim(1) && rows <= x.dim(1) &&
              columns <= x.dim(1) && frames * rows * columns == x.dim(1),
          "{}: expected a grid of {} tokens as x has, got {} x {} x {}", op, x.dim(1), frames, rows, columns);
  expect_theta(op, in[4].number);
  return {Result::contiguous(x.dtype, x.shape())};
}

void run_3d(Inputs in, std::span<const Tensor> out, Context& context) {
  const Tensor& x = in[0].tensor;
  const int64_t frames = in[1].integer, rows = in[2].integer, columns = in[3].integer;
  const double theta = in[4].number;
  const ops::RopeTime time{0, in[5].integer != 0};
  const std::string words =
      fmt::format("rope {} x {} x {} {} {} {}", frames, rows, columns, x.dim(3), theta, time.reverse);
  const Rotation r =
      kept_rotation(words, x, in[6], in[7], context, [&](const Tensor& cos, const Tensor& sin) {
        ops::rope_table_3d(frames, rows, columns, x.dim(3), theta, cos, sin, time);
      });
  run_rotation(r, x, out[0], context);
}

}  // namespace

const Op kRope{"rope", "(Tensor x, Tensor cos, Tensor sin, bool halves, bool back) -> Tensor", results, run,
               true};
const Op kRope1d{"rope_1d",
                 "(Tensor x, float theta, int first, bool reverse_time, bool halves, bool back) -> Tensor",
                 results_1d, run_1d, true};
const Op kRope3d{
    "rope_3d",
    "(Tensor x, int frames, int rows, int columns, float theta, bool reverse_time, bool halves, bool "
    "back) -> Tensor",
    results_3d, run_3d, true};

}  // namespace tachy::python
