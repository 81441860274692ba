// Products of some rows, queries or frames have the same bits alone and beside others. With
// TACHY_BF16=amx-emulated this runs as on a CPU with AMX (isa.cmake).
#include "cut_fixture.h"
#include "ops/attention/attention.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv3d/conv3d.h"
#include "ops/gemm/gemm.h"
#include "ops/lora/lora.h"
#include "ops/scaled_conv3d/scaled_conv3d.h"
#include "ops/scaled_gemm/scaled_gemm.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"

namespace tachy {
namespace {

using ops::AttentionArgs;
using ops::GemmArgs;

class ProductCuts : public CutFixture {
 protected:
  GemmArgs gemm_of(int64_t m, int64_t n, int64_t k, DType dtype, bool packed, Compute compute) {
    GemmArgs a{.x = random({m, k}), .weight = filled(dtype, {n, k}), .bias = random({n})};
    a.act = ops::Activation::gelu_tanh, a.multiply = random({m, n}), a.residual = random({m, n});
    a.gate = random({1, n});
    if (packed) {
      a.packed = blank(DType::u8, {ops::packed_gemm_bytes(n, k, compute)});
      measure_and_run([&](Stream& stream) {
        stream.precision.compute = compute;
        ops::pack_gemm_weight(a.weight, a.packed, stream);
      });
    }
    return a;
  }
  void expect_same_rows(const GemmArgs& a, Compute compute, const Cuts& cuts, const std::string& what) {
    const Tensor y = blank({a.x.dim(0), a.weight.dim(0)});
    expect_same(
        y, cuts, what,
        [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
          GemmArgs own = a;
          own.x = part(a.x, first, end), own.multiply = part(a.multiply, first, end);
          own.residual = part(a.residual, first, end), own.y = result;
          ops::gemm(own, stream);
        },
        compute);
  }
};

TEST_F(ProductCuts, RowsOfALinearLayer) {
  for (const Compute compute : computes())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const bool packed : {false, true}) {
        // In these calls K is longer than a block and not a whole panel, K has several blocks, and attention
        // is the shipped model's.
        const GemmArgs a = gemm_of(400, 61, 563, dtype, packed, compute);
        expect_same_rows(a, compute, cuts_of(400),
                         fmt::format("{}{}", dtype_name(dtype), packed ? ", packed" : ""));
      }
}

TEST_F(ProductCuts, RowsOfALinearLayerBeyondAPass) {
  const Cuts cuts = {{0, 4096}, {4096, 4097}, {4000, 4200}, {4103, 4230}};
  for (const Compute compute : computes())
    expect_same_rows(gemm_of(4230, 20, 33, DType::f32, true, compute), compute, cuts, "4230 rows");
}

// The columns are slabs of a weight that is made when it is needed (nn/weight_derived.cpp).
TEST_F(ProductCuts, ColumnsOfALinearLayer) {
  for (const Compute compute : computes())
    for (const int64_t m : {1, 40, 250}) {
      const GemmArgs a = gemm_of(m, 200, 100, DType::f32, false, compute);
      const Tensor y = blank({m, 200});
      const auto run = [&](int64_t first, int64_t end, const Tensor& result) {
        GemmArgs own = a;
        own.weight = a.weight.slice(0, first, end), own.bias = a.bias.slice(0, first, end), own.y = result;
        for (Tensor GemmArgs::*t : {&GemmArgs::multiply, &GemmArgs::residual, &GemmArgs::gate})
          own.*t = (a.*t).slice(1, first, end);
        measure_and_run([&](Stream& stream) {
          stream.precision.compute = compute;
          ops::gemm(own, stream);
        });
      };
      run(0, 200, y);
      const Tensor other = blank({m, 200});
      for (int64_t first = 0; first < 200; first += 37) {
        const int64_t end = std::min<int64_t>(200, first + 37);
        run(first, end, other.slice(1, first, end));
      }
      EXPECT_TRUE(same_bits(y, other)) << m << " rows, " << name_of(compute);
    }
}

TEST_F(ProductCuts, RowsOfAdapters) {
  for (const bool indexed : {false, true}) {
    const int64_t m = 400;
    ops::LoraArgs a{
        .x = random({m, 70}), .a = random({3, 20, 70}), .b = random({3, 60, 20}), .scales = random({3})};
    if (indexed) {
      a.index = blank(DType::i32, {m});
      for (int64_t i = 0; i < m; ++i) a.index.as<int32_t>()[i] = static_cast<int32_t>(i * i % 4) - 1;
    }
    expect_same(blank({m, 60}), cuts_of(m), indexed ? "one a row" : "all",
                [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
                  ops::LoraArgs own = a;
                  own.x = part(a.x, first, end), own.index = part(a.index, first, end), own.y = result;
                  ops::lora(own, stream);
                });
  }
}

TEST_F(ProductCuts, RowsOfALinearLayerInEightBits) {
  for (const DType dtype : {DType::i8, DType::f8_e4m3}) {
    const int64_t m = dtype == DType::i8 ? 400 : 70;  // on a CPU e4m3 has only its definition, which is slow
    ops::ScaledGemmArgs a{.x = filled(dtype, {m, 90}),
                          .x_scale = random({m}),
                          .weight = filled(dtype, {70, 90}),
                          .weight_scale = random({70}),
                          .addend = random({m, 70}),
                          .act = ops::Activation::silu};
    expect_same(blank({m, 70}), cuts_of(m), std::string(dtype_name(dtype)),
                [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
                  ops::ScaledGemmArgs own = a;
                  own.x = part(a.x, first, end), own.x_scale = part(a.x_scale, first, end);
                  own.addend = part(a.addend, first, end), own.y = result;
                  ops::scaled_gemm(own, stream);
                });
  }
}

// The mask moves with the queries of a piece.
TEST_F(ProductCuts, QueriesOfAttention) {
  const int64_t queries = 300, keys = 330, heads = 2, depth = 40;
  const Tensor q = random({1, queries, heads, depth}), k = random({1, keys, heads, depth}),
               v = random({1, keys, heads, depth}), key_bias = random({1, keys}),
               bias = random({heads, queries, keys});
  struct Mask {
    const char* name;
    bool key_bias, bias, causal;
    int64_t block, window;
  };
  for (const Compute compute : computes())
    for (const Mask& mask : {Mask{"plain", false, false, false, 1, 0},
                             {"biases", true, true, false, 1, 0},
                             {"causal", false, false, true, 1, 0},
                             {"window", true, false, true, 1, 50}})
      expect_same(
          blank({queries, heads, depth}), cuts_of(queries), mask.name,
          [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
            AttentionArgs a{.q = q.slice(1, first, end), .k = k, .v = v, .scale = 0.2f};
            if (mask.key_bias) a.key_bias = key_bias;
            if (mask.bias) a.bias = bias.slice(1, first, end);
            a.causal = mask.causal, a.causal_offset = mask.causal ? keys - queries + first : 0;
            a.causal_block = mask.block, a.window = mask.window;
            a.out = result.view({1, end - first, heads, depth});
            ops::attention(a, stream);
          },
          compute);
}

// Only some heads are processed at a time if that keeps a GPU's queue short (nn/attention.cpp), and items of
// a batch are processed one by one.
TEST_F(ProductCuts, HeadsAndItemsOfAttention) {
  const int64_t batch = 3, heads = 5, queries = 70, keys = 90, depth = 24;
  for (const Compute compute : computes()) {
    const AttentionArgs a{.q = random({batch, queries, heads, depth}),
                          .k = random({batch, keys, heads, depth}),
                          .v = random({batch, keys, heads, depth}),
                          .scale = 0.2f,
                          .out = blank({batch, queries, heads, depth})};
    const auto run = [&](const AttentionArgs& args) {
      measure_and_run([&](Stream& stream) {
        stream.precision.compute = compute;
        ops::attention(args, stream);
      });
    };
    run(a);
    const Tensor other = blank({batch, queries, heads, depth});
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; h += 2) {
        const auto some = [&](const Tensor& t) {
          return t.slice(0, b, b + 1).slice(2, h, std::min(heads, h + 2));
        };
        run({.q = some(a.q), .k = some(a.k), .v = some(a.v), .scale = 0.2f, .out = some(other)});
      }
    EXPECT_TRUE(same_bits(a.out, other)) << name_of(compute);
  }
}

// A causal convolution over a clip is compared with one over its pieces, each with the frames before it.
TEST_F(ProductCuts, FramesOfACausalConvolution) {
  const int64_t frames = 9, h = 11, w = 29, ci = 20, co = 36;
  for (const Compute compute : computes()) {
    const Tensor x = random({frames, h, w, ci}), residual = random({frames, h, w, co}), bias = random({co}),
                 weight = random({co, ci, 3, 3, 3}),
                 packed = blank(DType::u8, {ops::packed_conv3d_bytes(co, ci, 3, 3, 3, compute)});
    measure_and_run([&](Stream& stream) {
      stream.precision.compute = compute;
      ops::pack_conv3d_weight(weight, packed, stream);
    });
    const Cuts cuts = {{0, 1}, {1, 2}, {0, 4}, {1, 5}, {2, 9}, {8, 9}};
    expect_same(
        blank({frames, h, w, co}), cuts, "causal_conv3d",
        [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
          const int64_t before = std::min<int64_t>(2, first);
          ops::CausalConv3dArgs a{.x = part(x, first, end), .history = before};
          if (before > 0) a.cache = part(x, first - before, first);
          a.packed = packed, a.bias = bias, a.residual = part(residual, first, end), a.y = result;
          ops::causal_conv3d(a, stream);
        },
        compute);
  }
}

TEST_F(ProductCuts, FramesOfAConvolutionInEightBits) {
  const int64_t frames = 6, h = 9, w = 21, ci = 16, co = 20;
  const Tensor x = filled(DType::f8_e4m3, {frames, h, w, ci}), bias = random({co}),
               weight = random({co, ci, 3, 3, 3});
  Tensor packed;
  measure_and_run([&](Stream& stream) {
    if (!packed.defined()) packed = blank(DType::u8, {ops::packed_scaled_conv3d_bytes(co, ci, stream)});
    ops::pack_scaled_conv3d_weight(weight, 1, packed, stream);
  });
  const Cuts cuts = {{0, 1}, {1, 2}, {0, 4}, {1, 5}, {2, 6}};
  expect_same(blank({frames, h, w, co}), cuts, "scaled_conv3d",
              [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
                const int64_t before = std::min<int64_t>(2, first);
                ops::ScaledConv3dArgs a{
                    .x = part(x, first, end), .history = before, .packed = packed, .bias = bias};
                if (before > 0) a.cache = part(x, first - before, first);
                a.y = result;
                ops::scaled_conv3d(a, stream);
              });
}

TEST_F(ProductCuts, FramesOfPlaneConvolutions) {
  const int64_t frames = 5, h = 10, w = 26, ci = 20, co = 36;
  const Cuts cuts = {{0, 1}, {4, 5}, {0, 2}, {1, 4}};
  for (const Compute compute : computes()) {
    const Tensor x = random({frames, h, w, ci}), bias = random({co}), weight = random({co, ci, 3, 3}),
                 packed = blank(DType::u8, {ops::packed_conv2d_bytes(co, ci, 3, 3, compute)}),
                 phases = blank(DType::u8, {ops::packed_upsample_conv2d_bytes(co, ci, compute)});
    measure_and_run([&](Stream& stream) {
      stream.precision.compute = compute;
      ops::pack_conv2d_weight(weight, packed, stream);
      ops::pack_upsample_conv2d_weight(weight, phases, stream);
    });
    expect_same(
        blank({frames, h, w, co}), cuts, "conv2d",
        [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
          ops::Conv2dArgs a{.x = part(x, first, end), .packed = packed};
          a.bias = bias, a.y = result;
          ops::conv2d(a, stream);
        },
        compute);
    expect_same(
        blank({frames, 2 * h, 2 * w, co}), cuts, "upsample_conv2d",
        [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
          ops::upsample_conv2d({.x = part(x, first, end), .packed = phases, .bias = bias, .y = result},
                               stream);
        },
        compute);
  }
}

}  // namespace
}  // namespace tachy
