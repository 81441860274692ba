// A fixture for tests of ops with random inputs: tensors that live as long as the test, and calls in memory
// of the measured size.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <random>
#include <string>

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

  // Returns a seed that is new in every run; a failure reports the seed, and TACHY_TEST_SEED repeats it.
  static unsigned seed_of_run() {
    const char* asked = std::getenv("TACHY_TEST_SEED");
    return asked ? static_cast<unsigned>(std::strtoul(asked, nullptr, 10)) : std::random_device{}();
  }

  ThreadPool pool_{2};
  const unsigned seed_ = seed_of_run();
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, "TACHY_TEST_SEED=" + std::to_string(seed_)};
  std::mt19937 engine_{seed_};
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
  // `got` and `want` are the same sums in float32 in a different order. So a score differs by a few roundings
  // of its largest partial sum, which is at most |q| |k| scale. A weight differs by that fraction of itself,
  // and the output by that fraction of the largest |v|.
  static void expect_near(const ops::AttentionArgs& got, const ops::AttentionArgs& want, const char* what) {
    double values = 0;
    for (int64_t i = 0; i < want.v.numel(); ++i)
      values = std::max<double>(values, std::abs(want.v.as<float>()[i]));
    const double score = longest(want.q) * longest(want.k) * want.scale;
    // In 180 runs the error was at most 0.36 of this bound.
    const double bound = std::numeric_limits<float>::epsilon() * (1 + score) * values;
    for (int64_t i = 0; i < want.out.numel(); ++i)
      ASSERT_NEAR(got.out.as<float>()[i], want.out.as<float>()[i], bound) << what << ", value " << i;
    for (int64_t i = 0; i < want.lse.numel(); ++i) {
      const float x = got.lse.as<float>()[i], y = want.lse.as<float>()[i];
      ASSERT_TRUE(x == y || std::abs(x - y) < 2e-5)
          << what << ", lse " << i << ": " << x << ", expected " << y;
    }
  }

 private:
  // Returns the greatest Euclidean length of a row of a contiguous [..., D] tensor.
  static double longest(const Tensor& t) {
    const int64_t d = t.dim(t.rank - 1);
    double most = 0;
    for (int64_t row = 0; row < t.numel() / d; ++row) {
      double squares = 0;
      for (int64_t i = 0; i < d; ++i) squares += std::pow(double{t.as<float>()[row * d + i]}, 2);
      most = std::max(most, squares);
    }
    return std::sqrt(most);
  }
};

}  // namespace tachy
