// Tests ops that work row by row, pixel by pixel or frame by frame: rows alone have the same bits as among
// others, even if the whole is so large that it does not fit into the caches.
#include "cut_fixture.h"
#include "ops/activation/activation.h"
#include "ops/add_norm/add_norm.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/glu/glu.h"
#include "ops/group_norm/group_norm.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "ops/quantize/quantize.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rope/rope.h"

namespace tachy {
namespace {

class RowCuts : public CutFixture {
 protected:
  struct Rows {
    int64_t count, width;
    Tensor x, u, weight, bias, gate;
    Cuts cuts;
  };
  // Repeats random values, because drawing as many as this test needs would be slow.
  Tensor repeated(int64_t count, int64_t width) {
    const Tensor some = random({1021}), t = blank({count, width});
    for (int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = some.as<float>()[i % 1021];
    return t;
  }
  Rows rows_of(int64_t count, int64_t width) {
    return {count,           width,           repeated(count, width), repeated(count, width),
            random({width}), random({width}), random({1, width}),     cuts_of(count)};
  }
  using Op = std::function<void(const Tensor& x, const Tensor& u, const Tensor& y, Stream& stream)>;
  void expect_same_rows(const Rows& r, const std::string& what, const Op& op) {
    expect_same(blank({r.count, r.width}), r.cuts, what,
                [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
                  op(part(r.x, first, end), part(r.u, first, end), result, stream);
                });
  }
  void expect_same_norms(const Rows& r, const std::string& what) {
    expect_same_rows(r, "rmsnorm " + what, [&](auto& x, auto&, auto& y, Stream& stream) {
      ops::rmsnorm({.x = x, .weight = r.weight, .y = y}, stream);
    });
    expect_same_rows(r, "layernorm_modulate " + what, [&](auto& x, auto&, auto& y, Stream& stream) {
      ops::layernorm_modulate({.x = x, .scale = r.gate, .shift = r.gate, .y = y}, stream);
    });
    expect_same_rows(r, "add_norm " + what, [&](auto& x, auto& u, auto& y, Stream& stream) {
      ops::add_norm({.x = x, .u = u, .gate = r.gate, .weight = r.weight, .y = y}, stream);
    });
    expect_same_rows(r, "gated_residual " + what, [&](auto& x, auto& u, auto& y, Stream& stream) {
      ops::gated_residual({.x = x, .u = u, .gate = r.gate, .y = y}, stream);
    });
    expect_same_rows(r, "channel_norm " + what, [&](auto& x, auto&, auto& y, Stream& stream) {
      ops::channel_norm({.x = x, .gamma = r.weight, .y = y}, stream);
    });
  }
};

TEST_F(RowCuts, NormsAndSums) {
  expect_same_norms(rows_of(400, 37), "of 37");
  expect_same_norms(rows_of(400, 512), "of 512");
}

TEST_F(RowCuts, BeyondTheCaches) {
  Rows r = rows_of(16500, 768);  // 51 MB
  r.cuts = {{0, 1}, {100, 400}, {16499, 16500}};
  expect_same_norms(r, "past the caches");
}

TEST_F(RowCuts, Elementwise) {
  for (const int64_t width : {37, 500}) {
    const Rows r = rows_of(400, width);
    for (const auto kind : {ops::Activation::silu, ops::Activation::gelu_tanh, ops::Activation::gelu_erf,
                            ops::Activation::mish}) {
      expect_same_rows(r, "activation", [&](auto& x, auto&, auto& y, Stream& stream) {
        ops::activation({.x = x, .kind = kind, .y = y}, stream);
      });
      expect_same_rows(r, "glu", [&](auto& x, auto& u, auto& y, Stream& stream) {
        ops::glu({.a = x, .b = u, .kind = kind, .y = y}, stream);
      });
    }
    expect_same_rows(r, "lincomb", [&](auto& x, auto& u, auto& y, Stream& stream) {
      ops::lincomb({.terms = {{{x, 0.3f}, {u, -1.7f}}}, .count = 2, .out = y}, stream);
    });
    expect_same_rows(r, "copy", [&](auto& x, auto&, auto& y, Stream& stream) {
      ops::copy({.x = x, .scale = r.weight, .shift = r.bias, .channel_axis = 1, .y = y}, stream);
    });
  }
}

TEST_F(RowCuts, QueriesAndKeys) {
  const int64_t rows = 400, heads = 3, depth = 22;
  const Rows r = rows_of(rows, heads * depth);
  const Tensor cos = random({rows, depth / 2}), sin = random({rows, depth / 2});
  expect_same(blank({rows, r.width}), r.cuts, "qk_norm_rope",
              [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
                const auto batch = [&](const Tensor& t) { return t.view({1, end - first, r.width}); };
                ops::qk_norm_rope({.x = batch(part(r.x, first, end)),
                                   .weight = r.weight,
                                   .heads = heads,
                                   .cos = part(cos, first, end),
                                   .sin = part(sin, first, end),
                                   .y = batch(result)},
                                  stream);
              });
  expect_same(blank({rows, r.width}), r.cuts, "rope",
              [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
                const auto by_head = [&](const Tensor& t) { return t.view({1, end - first, heads, depth}); };
                ops::rope({.x = by_head(part(r.x, first, end)),
                           .cos = part(cos, first, end),
                           .sin = part(sin, first, end),
                           .y = by_head(result)},
                          stream);
              });
}

TEST_F(RowCuts, CodesAndScales) {
  const Rows r = rows_of(400, 150);
  for (const DType dtype : {DType::i8, DType::f8_e4m3}) {
    expect_same(
        blank(dtype, {400, 150}), r.cuts, "quantize",
        [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
          const Tensor scale = stream.arena->f32({end - first, 1});
          ops::quantize({.x = part(r.x, first, end), .block = {1, 0}, .scale = scale, .q = result}, stream);
        });
  }
}

TEST_F(RowCuts, PlanesOfAGroupNorm) {
  const Tensor x = random({6, 130, 48}), weight = random({48}), bias = random({48});
  const Cuts cuts = {{0, 1}, {5, 6}, {1, 4}};
  for (const bool channels_first : {false, true})
    expect_same(blank({6, 130, 48}), cuts, "group_norm",
                [&](int64_t first, int64_t end, const Tensor& result, Stream& stream) {
                  const auto planes = [&](const Tensor& t) {
                    return channels_first ? t.view({end - first, 48, 130}) : t;
                  };
                  ops::group_norm({.x = planes(part(x, first, end)),
                                   .groups = 8,
                                   .weight = weight,
                                   .bias = bias,
                                   .channels_first = channels_first,
                                   .y = planes(result)},
                                  stream);
                });
}

}  // namespace
}  // namespace tachy
