// A linear layer in 8 bits is compared with the definition of its rounding in float64, from any source of its
// weight, alone and joined, planned to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/linear.h"
#include "nn_case.h"

namespace tachy::nn {
namespace {

using test::HostRun;
using test::RandomFile;

constexpr int64_t kIn = 72, kEach = 20, kRows = 9;
constexpr const char* kParts[] = {"a.to_q", "a.to_k", "a.to_v"};

// Rounds values to 8 bits with one scale, in float64, by the rule that ops/quantize describes.
std::vector<double> rounded(const float* values, int64_t count, Products products) {
  float amax = 0;
  for (int64_t i = 0; i < count; ++i) amax = std::max(amax, std::abs(values[i]));
  const float scale = amax / (products == Products::int8 ? 127.0f : 448.0f);
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    const float code = values[i] / scale;
    out.push_back((products == Products::int8 ? std::nearbyint(code) : to_float(to_f8_e4m3(code))) *
                  static_cast<double>(scale));
  }
  return out;
}

RandomFile file_of(DType dtype) {
  RandomFile file;
  for (const char* name : kParts) file.add_linear(name, kIn, kEach, dtype);
  return file;
}

struct Made {
  std::vector<float> y;
  std::string form;
  size_t bytes, planned;
};

Made run(const RandomFile& file, Products products, const std::vector<float>& x) {
  HostRun host;
  host.stream.precision.products = products;
  const Scope scope = file.scope();
  const Scope parts[] = {scope.sub(kParts[0]), scope.sub(kParts[1]), scope.sub(kParts[2])};
  const auto all = [](std::string_view layer) { return layer.starts_with("a."); };
  ParamStore store({}, host.stream), plan({.plan_only = true}, host.stream);
  store.set_eight_bits(all), plan.set_eight_bits(all);
  Linear::joined(parts, plan, kIn, kEach);
  const Linear joined = Linear::joined(parts, store, kIn, kEach);
  Made made{std::vector<float>(static_cast<size_t>(kRows * 3 * kEach), NAN), joined.form(), store.bytes(),
            plan.bytes()};
  joined(Tensor(const_cast<float*>(x.data()), DType::f32, {kRows, kIn}),
         Tensor(made.y.data(), DType::f32, {kRows, 3 * kEach}), host.stream);
  return made;
}

TEST(ScaledLinear, RoundsRowsOfBothAndSumsExactly) {
  const auto x = HostRun::rows(kRows, kIn);
  for (const auto& [products, form] : {std::pair{Products::e4m3, "fp8"}, {Products::int8, "int8"}}) {
    const RandomFile file = file_of(DType::f32);
    const Made made = run(file, products, x);
    EXPECT_EQ(made.form, form);
    EXPECT_EQ(made.bytes, made.planned);
    double rough = 0, size = 0;  // the part of the result that rounding removes
    for (int64_t part = 0; part < 3; ++part) {
      const auto* w = static_cast<const float*>(file.entries[static_cast<size_t>(2 * part)].data);
      const auto* bias = static_cast<const float*>(file.entries[static_cast<size_t>(2 * part + 1)].data);
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t j = 0; j < kEach; ++j) {
          const auto a = rounded(x.data() + i * kIn, kIn, products), b = rounded(w + j * kIn, kIn, products);
          double want = bias[j], exact = bias[j];
          for (int64_t k = 0; k < kIn; ++k) {
            want += a[static_cast<size_t>(k)] * b[static_cast<size_t>(k)];
            exact += static_cast<double>(x[static_cast<size_t>(i * kIn + k)]) * w[j * kIn + k];
          }
          EXPECT_NEAR(made.y[static_cast<size_t>(i * 3 * kEach + part * kEach + j)], want, 2e-6) << form;
          rough += (want - exact) * (want - exact), size += exact * exact;
        }
    }
    EXPECT_GT(std::sqrt(rough / size), 1e-3) << "nothing was rounded";
    EXPECT_LT(std::sqrt(rough / size), products == Products::int8 ? 0.02 : 0.06);
  }
}

// Two branches of guidance differ much in size: scales of one may not be used for the other, in one call or
// in two.
TEST(ScaledLinear, ScalesAreOfTheRowsAtHand) {
  HostRun host;
  const RandomFile file = file_of(DType::f32);
  const auto small = HostRun::rows(kRows, kIn, 1);
  auto large = HostRun::rows(kRows, kIn, 2);
  for (float& v : large) v *= 300;
  std::vector<float> both = small;
  both.insert(both.end(), large.begin(), large.end());
  for (const Products products : {Products::e4m3, Products::int8}) {
    host.stream.precision.products = products;
    ParamStore store({}, host.stream);
    store.set_eight_bits([](std::string_view) { return true; });
    const Linear linear(file.scope().sub(kParts[0]), store, kIn, kEach);
    const auto of = [&](const std::vector<float>& x) {
      const auto rows = static_cast<int64_t>(x.size()) / kIn;
      std::vector<float> y(static_cast<size_t>(rows * kEach), NAN);
      linear(Tensor(const_cast<float*>(x.data()), DType::f32, {rows, kIn}),
             Tensor(y.data(), DType::f32, {rows, kEach}), host.stream);
      return y;
    };
    const auto alone = of(small), after = of(large), again = of(small);
    EXPECT_EQ(again, alone);
    std::vector<float> one_by_one = alone;
    one_by_one.insert(one_by_one.end(), after.begin(), after.end());
    EXPECT_EQ(of(both), one_by_one) << "the branches in one call";
  }
}

TEST(ScaledLinear, DerivedWeightsGiveTheBitsOfStoredOnes) {
  const auto x = HostRun::rows(kRows, kIn);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const RandomFile file = file_of(dtype);
    for (const Products products : {Products::e4m3, Products::int8})
      EXPECT_EQ(run(file, products, x).y, run(file.derived(), products, x).y);
  }
}

// The layer keeps codes in rows that are padded to whole panels, a sum for each row, scales, biases, and
// nothing else.
TEST(ScaledLinear, Int8IsKeptOnceAndPacked) {
  const Made made = run(file_of(DType::f32), Products::int8, HostRun::rows(kRows, kIn));
  EXPECT_EQ(made.bytes, made.planned);
  EXPECT_EQ(made.bytes, align_up((128 + 4) * 64) + 2 * align_up(3 * kEach * 4));
}

TEST(ScaledLinear, LayersThatTheModelDoesNotNameKeepTheirForm) {
  HostRun host;
  host.stream.precision.products = Products::e4m3;
  const RandomFile file = file_of(DType::f32);
  ParamStore store({}, host.stream);
  store.set_eight_bits([](std::string_view layer) { return layer == kParts[0]; });
  EXPECT_STREQ(Linear(file.scope().sub(kParts[0]), store, kIn, kEach).form(), "fp8");
  EXPECT_STREQ(Linear(file.scope().sub(kParts[1]), store, kIn, kEach).form(), "packed");
}

}  // namespace
}  // namespace tachy::nn
