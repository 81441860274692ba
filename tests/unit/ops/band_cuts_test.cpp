// Rows of a convolution have the same bits in a band as in the whole picture. A band has a row more above and
// below, as its neighbours have them, where the picture goes on; the results of those two rows are nobody's.
#include "cut_fixture.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv3d/conv3d.h"
#include "ops/scaled_conv3d/scaled_conv3d.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"

namespace tachy {
namespace {

class BandCuts : public CutFixture {
 protected:
  // Returns rows [first, end) of all frames, contiguous.
  Tensor rows_of(const Tensor& x, int64_t first, int64_t end) {
    const Tensor out = blank(x.dtype, {x.dim(0), end - first, x.dim(2), x.dim(3)});
    for (int64_t t = 0; t < x.dim(0); ++t)
      std::memcpy(out.select(0, t).data, x.select(0, t).slice(0, first, end).data,
                  static_cast<size_t>(out.bytes() / x.dim(0)));
    return out;
  }
  struct Band {
    int64_t first, end, from, to;  // its rows, and those with the neighbours' rows
  };
  static std::vector<Band> bands_of(int64_t rows) {
    std::vector<Band> out;
    for (const int64_t size : {1, 2, 5, 16})
      for (const int64_t first : {int64_t{0}, (rows - size) / 2 / 2 * 2, rows - size})
        if (size < rows)
          out.push_back(
              {first, first + size, std::max<int64_t>(0, first - 1), std::min(rows, first + size + 1)});
    return out;
  }
  using Whole = std::function<Tensor(const Tensor& x, Stream& stream)>;

  // `call` makes y of x, whose height is `scale` times that of x.
  void expect_same_bands(const Tensor& x, const std::string& what, Compute compute, const Whole& call,
                         int64_t scale = 1) {
    const auto run = [&](const Tensor& of) {
      Tensor y;
      measure_and_run([&](Stream& stream) {
        stream.precision.compute = compute;
        y = call(of, stream);
      });
      return y;
    };
    const Tensor y = run(x);
    for (const Band& b : bands_of(x.dim(1))) {
      const Tensor part = run(rows_of(x, b.from, b.to));
      ASSERT_TRUE(same_bits(rows_of(part, (b.first - b.from) * scale, (b.end - b.from) * scale),
                            rows_of(y, b.first * scale, b.end * scale)))
          << what << ", " << name_of(compute) << ": rows [" << b.first << ", " << b.end << ") of " << x.dim(1)
          << ", " << x.dim(3) << " channels, width " << x.dim(2);
    }
  }
  struct Size {
    int64_t h, w, ci, co;
  };
  // Wide and narrow rows, few and many channels, the first and the last convolution of a decoder.
  static constexpr Size kSizes[] = {{11, 29, 20, 36}, {40, 6, 16, 16}, {9, 30, 96, 96},
                                    {31, 20, 32, 3},  {18, 13, 4, 24}, {21, 44, 3, 96}};
};

TEST_F(BandCuts, OfACausalConvolution) {
  for (const Compute compute : computes())
    for (const auto& [h, w, ci, co] : kSizes) {
      const Tensor x = random({3, h, w, ci}), bias = random({co}), weight = random({co, ci, 3, 3, 3}),
                   packed = blank(DType::u8, {ops::packed_conv3d_bytes(co, ci, 3, 3, 3, compute)});
      measure_and_run([&](Stream& stream) {
        stream.precision.compute = compute;
        ops::pack_conv3d_weight(weight, packed, stream);
      });
      expect_same_bands(x, "causal_conv3d", compute, [&](const Tensor& all, Stream& stream) {
        const Tensor y = blank({1, all.dim(1), w, co});
        poison(y);
        ops::causal_conv3d({.x = all.slice(0, 2, 3),
                            .cache = all.slice(0, 0, 2),
                            .history = 2,
                            .packed = packed,
                            .bias = bias,
                            .y = y},
                           stream);
        return y;
      });
    }
}

TEST_F(BandCuts, OfAnUpsamplingConvolution) {
  for (const Compute compute : computes())
    for (const auto& [h, w, ci, co] : kSizes) {
      const Tensor x = random({2, h, w, ci}), bias = random({co}), weight = random({co, ci, 3, 3}),
                   packed = blank(DType::u8, {ops::packed_upsample_conv2d_bytes(co, ci, compute)});
      measure_and_run([&](Stream& stream) {
        stream.precision.compute = compute;
        ops::pack_upsample_conv2d_weight(weight, packed, stream);
      });
      expect_same_bands(
          x, "upsample_conv2d", compute,
          [&](const Tensor& part, Stream& stream) {
            const Tensor y = blank({2, 2 * part.dim(1), 2 * w, co});
            poison(y);
            ops::upsample_conv2d({.x = part, .packed = packed, .bias = bias, .y = y}, stream);
            return y;
          },
          2);
    }
}

// Rows 2i, 2i + 1 and 2i + 2 make row i, so that a band needs only a row below.
TEST_F(BandCuts, OfAHalvingConvolution) {
  for (const Compute compute : computes())
    for (const auto& [half, w, ci, co] : kSizes) {
      const int64_t h = 2 * half, out_w = (w - 2) / 2 + 1;
      const Tensor x = random({1, h, w, ci}), bias = random({co}), weight = random({co, ci, 3, 3}),
                   packed = blank(DType::u8, {ops::packed_conv2d_bytes(co, ci, 3, 3, compute)});
      measure_and_run([&](Stream& stream) {
        stream.precision.compute = compute;
        ops::pack_conv2d_weight(weight, packed, stream);
      });
      const auto run = [&](int64_t first, int64_t end) {
        const Tensor y = blank({1, end - first, out_w, co});
        poison(y);
        measure_and_run([&](Stream& stream) {
          stream.precision.compute = compute;
          ops::conv2d({.x = x.slice(1, 2 * first, std::min(h, 2 * end + 1)),
                       .packed = packed,
                       .stride = 2,
                       .pad_top = 0,
                       .pad_left = 0,
                       .pad_bottom = end == half ? 1 : 0,
                       .bias = bias,
                       .y = y},
                      stream);
        });
        return y;
      };
      const Tensor y = run(0, half);
      for (const Band& b : bands_of(half))
        ASSERT_TRUE(same_bits(run(b.first, b.end), rows_of(y, b.first, b.end)))
            << name_of(compute) << ": rows [" << b.first << ", " << b.end << ") of " << half << ", " << ci
            << " channels, width " << w;
    }
}

TEST_F(BandCuts, OfAConvolutionInEightBits) {
  const int64_t h = 9, w = 21, ci = 16, co = 20;
  const Tensor x = filled(DType::f8_e4m3, {2, h, w, ci}), bias = random({co}),
               weight = random({co, ci, 3, 3, 3});
  Tensor packed;
  measure_and_run([&](Stream& stream) {
    if (!packed.defined()) packed = blank(DType::u8, {ops::packed_scaled_conv3d_bytes(co, ci, stream)});
    ops::pack_scaled_conv3d_weight(weight, 1, packed, stream);
  });
  expect_same_bands(x, "scaled_conv3d", Compute::f32, [&](const Tensor& part, Stream& stream) {
    const Tensor y = blank({2, part.dim(1), w, co});
    poison(y);
    ops::scaled_conv3d({.x = part, .packed = packed, .bias = bias, .y = y}, stream);
    return y;
  });
}

}  // namespace
}  // namespace tachy
