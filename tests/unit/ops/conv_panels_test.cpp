// Tests convolutions on panels (cpu/conv_panels.h) with random shapes, strides, paddings and missing frames,
// in every arithmetic of this CPU. Results are within rounding of plain loops in double, and have the same
// bits for any number of threads and for output rows that are computed alone.
#include "cpu/conv_panels.h"

#include <cstring>

#include "base/thread_pool.h"
#include "cut_fixture.h"

namespace tachy {
namespace {

using cpu::PanelConv;

class ConvPanels : public CutFixture {
 protected:
  struct Problem {
    PanelConv conv;
    // `x` has frames, `weight` is [co, ci, taps, kh, kw], and `plain` is in the packed order [taps, kh, kw,
    // ci, co].
    Tensor x, weight, packed, plain;
    int64_t out_h, out_w;
  };

  int64_t draw(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }

  Problem problem(Compute compute, bool codes) {
    Problem p{.conv = {.compute = compute, .h = draw(1, 12), .w = draw(1, 40), .ci = draw(1, 40)}};
    PanelConv& c = p.conv;
    c.co = draw(0, 3) ? draw(1, 110) : draw(1, 4);
    c.kernel_t = draw(1, 3), c.kernel_h = draw(1, 3), c.kernel_w = draw(1, 3);
    c.stride = draw(1, 3), c.time_stride = draw(1, 2), c.outputs = draw(1, 3);
    c.pad_top = draw(0, 2), c.pad_left = draw(0, 2);
    c.pad_bottom = std::max(draw(0, 2), c.kernel_h - c.h - c.pad_top);
    c.pad_right = std::max(draw(0, 2), c.kernel_w - c.w - c.pad_left);
    p.out_h = (c.h + c.pad_top + c.pad_bottom - c.kernel_h) / c.stride + 1;
    p.out_w = (c.w + c.pad_left + c.pad_right - c.kernel_w) / c.stride + 1;
    const int64_t frames = (c.outputs - 1) * c.time_stride + c.kernel_t;
    c.x = codes ? DType::f8_e4m3 : DType::f32;
    p.x = filled(c.x, {frames, c.h, c.w, c.ci});
    const int64_t missing = draw(0, 2) ? 0 : draw(1, frames);
    for (int64_t f = 0; f < frames; ++f)
      c.inputs.push_back(f < missing ? nullptr : p.x.slice(0, f, f + 1).data);
    p.weight = random({c.co, c.ci, c.kernel_t, c.kernel_h, c.kernel_w});
    p.packed =
        blank(DType::u8, {cpu::conv_panels_bytes(c.kernel_t, c.co, c.ci, c.kernel_h, c.kernel_w, compute)});
    cpu::pack_conv_panels(p.weight, p.packed.data, compute, pool_);
    p.plain = blank({c.kernel_t, c.kernel_h, c.kernel_w, c.ci, c.co});
    cpu::unpack_conv_panels(p.packed.data, c.kernel_t, c.co, c.ci, c.kernel_h, c.kernel_w,
                            p.plain.as<float>(), compute);
    c.packed = p.packed.data;
    if (draw(0, 1)) c.bias = random({c.co}).as<float>();
    if (draw(0, 1)) c.residual = random({c.outputs, p.out_h, p.out_w, c.co}).as<float>();
    return p;
  }

  static void run(PanelConv conv, const Tensor& y, int threads) {
    poison(y);
    ThreadPool pool(threads);
    conv.y = y.as<float>();
    Arena measure;
    Stream stream{.arena = &measure, .pool = &pool};
    cpu::run_panel_conv(conv, stream);
    Arena arena(measure.peak());
    stream.arena = &arena;
    cpu::run_panel_conv(conv, stream);
  }

  // Returns a pixel of an input as the product sees it.
  static float value(const Problem& p, int64_t frame, int64_t at) {
    if (p.conv.x == DType::f8_e4m3) return to_float(p.x.slice(0, frame, frame + 1).as<f8_e4m3_t>()[at]);
    const float v = p.x.slice(0, frame, frame + 1).as<float>()[at];
    return p.conv.compute == Compute::bf16 ? to_float(to_bf16(v)) : v;
  }

  static void expect_sums(const Problem& p, const Tensor& y) {
    const PanelConv& c = p.conv;
    const double rounding = 0x1p-23 * static_cast<double>(c.kernel_t * c.kernel_h * c.kernel_w * c.ci + 2);
    const float* got = y.as<float>();
    for (int64_t t = 0; t < c.outputs; ++t)
      for (int64_t i = 0; i < p.out_h; ++i)
        for (int64_t j = 0; j < p.out_w; ++j)
          for (int64_t o = 0; o < c.co; ++o, ++got) {
            const double bias = c.bias ? c.bias[o] : 0,
                         residual = c.residual ? c.residual[got - y.as<float>()] : 0;
            double sum = bias + residual, size = std::abs(bias) + std::abs(residual);
            const float* w = p.plain.as<float>() + o;
            for (int64_t r = 0; r < c.kernel_t; ++r)
              for (int64_t q = 0; q < c.kernel_h * c.kernel_w; ++q) {
                const int64_t row = i * c.stride + q / c.kernel_w - c.pad_top,
                              column = j * c.stride + q % c.kernel_w - c.pad_left,
                              frame = t * c.time_stride + r;
                const bool inside = c.inputs[static_cast<size_t>(frame)] && row >= 0 && row < c.h &&
                                    column >= 0 && column < c.w;
                for (int64_t k = 0; k < c.ci; ++k, w += c.co) {
                  if (!inside) continue;
                  const double product = 1.0 * *w * value(p, frame, (row * c.w + column) * c.ci + k);
                  sum += product, size += std::abs(product);
                }
              }
            ASSERT_NEAR(*got, sum, rounding * size)
                << "frame " << t << ", row " << i << ", column " << j << ", channel " << o << " of " << c.co;
          }
  }

  // Computes output rows [first, end) of the same convolution, from the input rows that they read.
  void expect_same_rows(const Problem& p, const Tensor& y, int64_t first, int64_t end) {
    PanelConv c = p.conv;
    const int64_t from = first * c.stride - c.pad_top, to = (end - 1) * c.stride + c.kernel_h - c.pad_top;
    const int64_t begin = std::clamp<int64_t>(from, 0, c.h - 1), stop = std::clamp(to, begin + 1, c.h);
    if (from > begin || to < stop) return;  // the rows read only the padding
    for (const void*& frame : c.inputs)
      if (frame) frame = static_cast<const char*>(frame) + begin * c.w * c.ci * dtype_size(c.x);
    c.pad_top = begin - from, c.pad_bottom = to - stop, c.h = stop - begin;
    std::vector<float> residual;
    const int64_t row = p.out_w * c.co;
    for (int64_t t = 0; c.residual && t < c.outputs; ++t)
      residual.insert(residual.end(), c.residual + (t * p.out_h + first) * row,
                      c.residual + (t * p.out_h + end) * row);
    if (c.residual) c.residual = residual.data();
    const Tensor part = blank({c.outputs, end - first, p.out_w, c.co});
    run(c, part, 2);
    for (int64_t t = 0; t < c.outputs; ++t)
      ASSERT_EQ(0, std::memcmp(part.as<float>() + t * (end - first) * row,
                               y.as<float>() + (t * p.out_h + first) * row,
                               static_cast<size_t>((end - first) * row) * sizeof(float)))
          << "rows " << first << " to " << end << " of frame " << t;
  }
};

TEST_F(ConvPanels, RandomShapesKeepToPlainLoops) {
  for (const Compute compute : computes())
    for (int i = 0; i < 60; ++i) {
      const Problem p = problem(compute, i % 6 == 5);
      SCOPED_TRACE(::testing::Message()
                   << name_of(compute) << ", " << p.conv.h << "x" << p.conv.w << "x" << p.conv.ci << " to "
                   << p.conv.co << ", kernel " << p.conv.kernel_t << "x" << p.conv.kernel_h << "x"
                   << p.conv.kernel_w << ", stride " << p.conv.stride);
      const Tensor y = blank({p.conv.outputs, p.out_h, p.out_w, p.conv.co}),
                   other = blank(y.dtype, {y.numel()});
      run(p.conv, y, 1);
      ASSERT_NO_FATAL_FAILURE(expect_sums(p, y));
      run(p.conv, other, 3);
      ASSERT_TRUE(same_bits(y, other)) << "one thread and three differ";
      const int64_t first = draw(0, p.out_h - 1);
      ASSERT_NO_FATAL_FAILURE(expect_same_rows(p, y, first, draw(first + 1, p.out_h)));
    }
}

}  // namespace
}  // namespace tachy
