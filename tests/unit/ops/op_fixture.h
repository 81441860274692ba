// What tests of ops with random inputs share: tensors that live as long as the test, and a call in memory of the measured size.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <random>

#include "ops/attention/attention.h"
#include "ops/impl_table.h"

namespace tachy {

class OpFixture : public ::testing::Test {
 protected:
  using Dims = std::initializer_list<int64_t>;
  Tensor blank(DType dtype, Dims dims) {
    Tensor t(nullptr, dtype, dims);
    t.data = buffers_.emplace_back(static_cast<size_t>(t.bytes())).data();
    return t;
  }
  Tensor blank(Dims dims) { return blank(DType::f32, dims); }
  Tensor random(Dims dims) {
    const Tensor t = blank(dims);
    for (int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = normal_(engine_);
    return t;
  }
  template <class Call>
  void measure_and_run(Call&& call) {
    Arena measure;
    Stream stream{.arena = &measure, .pool = &pool_};
    call(stream);
    Arena arena(measure.peak());
    stream.arena = &arena;
    call(stream);
  }

  ThreadPool pool_{2};
  std::mt19937 engine_{std::random_device{}()};
  std::normal_distribution<float> normal_;
  std::deque<Buffer> buffers_;
};

class AttentionFixture : public OpFixture {
 protected:
  void run(const ops::AttentionArgs& args, const char* impl) {
    ops::set_forced_impl("attention", impl);
    measure_and_run([&](Stream& stream) { ops::attention(args, stream); });
    ops::set_forced_impl("attention", nullptr);
  }
  static void expect_near(const ops::AttentionArgs& got, const ops::AttentionArgs& want, double bound,
                          const char* what) {
    for (int64_t i = 0; i < want.out.numel(); ++i)
      ASSERT_NEAR(got.out.as<float>()[i], want.out.as<float>()[i], bound) << what << ", value " << i;
    for (int64_t i = 0; i < want.lse.numel(); ++i) {
      const float x = got.lse.as<float>()[i], y = want.lse.as<float>()[i];
      ASSERT_TRUE(x == y || std::abs(x - y) < 2e-5)
          << what << ", lse " << i << ": " << x << ", expected " << y;
    }
  }
};

}  // namespace tachy
