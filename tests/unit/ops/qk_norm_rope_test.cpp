// Tests a norm of each head (QkNormRopeArgs::norm_heads) on random shapes, for tensors with an action
// module's layout: the frames of a place are a batch item whose rows are far apart, and each frame has its
// row of a table.
#include "ops/qk_norm_rope/qk_norm_rope.h"

#include <gmock/gmock.h>

#include "op_fixture.h"

namespace tachy {
namespace {

using testing::HasSubstr;

class QkNormRopeOfHeads : public OpFixture {
 protected:
  struct Shape {
    int64_t places, frames, heads, width;
    int64_t channels() const { return heads * width; }
  };
  Shape any_shape() {
    const auto up_to = [&](int most) { return std::uniform_int_distribution<int64_t>(1, most)(engine_); };
    return {up_to(9), up_to(4), up_to(6), 2 * up_to(40)};
  }
  // Returns rows [frames·places, channels] of wider rows, place by place.
  static Tensor by_places(const Tensor& rows, const Shape& s) {
    Tensor t(rows.data, rows.dtype, {s.places, s.frames, s.channels()});
    t.strides[0] = rows.stride(0), t.strides[1] = s.places * rows.stride(0);
    return t;
  }
  // Returns the first columns of a wider table.
  Tensor table(const Shape& s) { return random({s.frames, 3 * s.width / 2}).slice(1, 0, s.width / 2); }
};

TEST_F(QkNormRopeOfHeads, IsTheNormAndTheRotationOfEachHead) {
  for (const char* impl : {"cpu", "ref"})
    for (int repeat = 0; repeat < 60; ++repeat) {
      const Shape s = any_shape();
      const int64_t c = s.channels(), rows = s.frames * s.places;
      const bool turns = repeat % 3 > 0;
      const Tensor from = random({rows, c + 3}), to = random({rows, c + 5});
      ops::QkNormRopeArgs args{.x = by_places(from, s),
                               .eps = 1e-5f,
                               .scale = 0.7f,
                               .heads = static_cast<int>(s.heads),
                               .norm_heads = true,
                               .y = by_places(to, s)};
      if (turns) args.cos = table(s), args.sin = table(s);
      ops::set_forced_impl("qk_norm_rope", impl);
      measure_and_run([&](Stream& stream) { ops::qk_norm_rope(args, stream); });
      ops::set_forced_impl("qk_norm_rope", nullptr);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t h = 0; h < s.heads; ++h) {
          const float *x = from.select(0, row).as<float>() + h * s.width,
                      *y = to.select(0, row).as<float>() + h * s.width;
          double squares = 0;
          for (int64_t j = 0; j < s.width; ++j) squares += double{x[j]} * x[j];
          const double r = 0.7f / std::sqrt(squares / static_cast<double>(s.width) + 1e-5f);
          for (int64_t j = 0; j < s.width; j += 2) {
            const double u = x[j] * r, v = x[j + 1] * r;
            double co = 1, si = 0;
            if (turns) {
              co = args.cos.select(0, row / s.places).as<float>()[j / 2];
              si = args.sin.select(0, row / s.places).as<float>()[j / 2];
            }
            const double bound = 4e-6 * (std::abs(u) + std::abs(v)) * (std::abs(co) + std::abs(si)) + 1e-7;
            ASSERT_NEAR(y[j], u * co - v * si, bound) << impl << ' ' << row << ' ' << h << ' ' << j;
            ASSERT_NEAR(y[j + 1], u * si + v * co, bound) << impl << ' ' << row << ' ' << h << ' ' << j;
          }
        }
    }
}

// The result equals, to the bit, that of calls for one frame each, in which heads are the tokens; bytes
// between the rows are not touched.
TEST_F(QkNormRopeOfHeads, IsToTheBitACallOfEachFrame) {
  for (const char* impl : {"cpu", "ref"})
    for (int repeat = 0; repeat < 40; ++repeat) {
      const Shape s = any_shape();
      const int64_t c = s.channels(), rows = s.frames * s.places, wide = 3 * c + 1;
      const Tensor once = random({rows, wide}), each = blank({rows, wide});
      std::copy_n(once.as<float>(), once.numel(), each.as<float>());
      const Tensor cos = table(s), sin = table(s);
      const auto q = [&](const Tensor& t) { return t.slice(1, 0, c); };
      const auto k = [&](const Tensor& t) { return t.slice(1, c, 2 * c); };
      ops::set_forced_impl("qk_norm_rope", impl);
      measure_and_run([&](Stream& stream) {
        ops::qk_norm_rope({.x = by_places(q(once), s),
                           .heads = static_cast<int>(s.heads),
                           .norm_heads = true,
                           .cos = cos,
                           .sin = sin,
                           .y = by_places(q(once), s),
                           .x2 = by_places(k(once), s),
                           .y2 = by_places(k(once), s)},
                          stream);
      });
      measure_and_run([&](Stream& stream) {
        for (int64_t f = 0; f < s.frames; ++f)
          for (int64_t h = 0; h < s.heads; ++h) {
            const auto part = [&](const Tensor& t) {
              const Tensor head =
                  t.slice(0, f * s.places, (f + 1) * s.places).slice(1, h * s.width, (h + 1) * s.width);
              Tensor out(head.data, head.dtype, {s.places, 1, s.width});
              out.strides[0] = t.stride(0);
              return out;
            };
            ops::qk_norm_rope({.x = part(q(each)),
                               .cos = cos.slice(0, f, f + 1),
                               .sin = sin.slice(0, f, f + 1),
                               .y = part(q(each)),
                               .x2 = part(k(each)),
                               .y2 = part(k(each))},
                              stream);
          }
      });
      ops::set_forced_impl("qk_norm_rope", nullptr);
      for (int64_t i = 0; i < once.numel(); ++i)
        ASSERT_EQ(once.as<float>()[i], each.as<float>()[i]) << impl << ' ' << i;
    }
}

TEST_F(QkNormRopeOfHeads, HasNoWeight) {
  const Tensor x = random({1, 2, 8}), weight = random({8});
  measure_and_run([&](Stream& stream) {
    const auto error = [&](const ops::QkNormRopeArgs& args) -> std::string {
      try {
        ops::qk_norm_rope(args, stream);
      } catch (const Error& e) {
        return e.message();
      }
      return "";
    };
    EXPECT_THAT(error({.x = x, .weight = weight, .heads = 2, .norm_heads = true, .y = x}),
                HasSubstr("a norm of each head has no weight"));
    EXPECT_THAT(error({.x = x, .heads = 2, .norm_heads = true, .y = x, .x2 = x, .weight2 = weight, .y2 = x}),
                HasSubstr("a norm of each head has no weight"));
    EXPECT_EQ(error({.x = x, .heads = 2, .norm_heads = true, .y = x}), "");
  });
}

}  // namespace
}  // namespace tachy
