// Tests quantize on float32 and on the 16-bit floats of weights: on every instruction set it gives the
// definition's bytes and scales, for all 16-bit values, odd widths, strides, and blocks of all kinds.
#include "ops/quantize/quantize.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <random>
#include <vector>

#include "ops/quantize/quantize_impl.h"

namespace tachy::ops {
namespace {

struct Made {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

Made run(void (*impl)(const QuantizeArgs&, Stream&), const Tensor& x, QuantBlock block, DType to) {
  ThreadPool pool(2);
  Arena arena(1 << 20);
  Stream stream{.arena = &arena, .pool = &pool};
  const QuantGrid grid(x, block);
  Made made{std::vector<uint8_t>(static_cast<size_t>(x.numel()), 0x55),
            std::vector<float>(static_cast<size_t>(grid.bands * grid.strips))};
  impl({.x = x,
        .block = block,
        .scale = Tensor(made.scales.data(), DType::f32, {grid.bands, grid.strips}),
        .q = Tensor(made.codes.data(), to, {x.dim(0), x.dim(1)})},
       stream);
  return made;
}

void expect_as_defined(const Tensor& x, const std::string& what) {
  for (const DType to : {DType::f8_e4m3, DType::f8_e5m2, DType::i8})
    for (const QuantBlock block : {QuantBlock{1, 0}, {0, 0}, {1, 32}, {3, 20}}) {
      const Made want = run(quantize_ref, x, block, to), got = run(quantize_cpu, x, block, to);
      EXPECT_EQ(got.codes, want.codes)
          << what << " to " << dtype_name(to) << ", blocks of " << block.rows << " x " << block.columns;
      for (size_t i = 0; i < want.scales.size(); ++i)  // a scale may be any of several NaNs
        EXPECT_TRUE(got.scales[i] == want.scales[i] ||
                    (std::isnan(got.scales[i]) && std::isnan(want.scales[i])))
            << what << ", scale " << i;
    }
}

template <class Body>
void on_every_target(Body&& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST(Quantize, EveryValueOf16Bits) {
  for (const int64_t width : {128, 1024, 509}) {
    const int64_t rows = 65536 / width;
    std::vector<uint16_t> bits(static_cast<size_t>(rows * width));
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    on_every_target([&](const char* target) {
      for (const DType from : {DType::bf16, DType::f16})
        expect_as_defined(Tensor(bits.data(), from, {rows, width}),
                          std::string(target) + ": " + std::string(dtype_name(from)));
    });
  }
}

TEST(Quantize, OddWidthsAndStrides) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  for (const int64_t width : {1, 7, 15, 33, 70, 1001}) {
    constexpr int64_t kRows = 9;
    const int64_t stride = width + 3;
    std::vector<float> wide(static_cast<size_t>(kRows * stride));
    std::vector<bf16_t> bf16;
    std::vector<f16_t> f16;
    for (float& v : wide) v = normal(random), bf16.push_back(to_bf16(v)), f16.push_back(to_f16(v));
    on_every_target([&](const char* target) {
      for (const Tensor& x : {Tensor(wide.data(), DType::f32, {kRows, stride}),
                              Tensor(bf16.data(), DType::bf16, {kRows, stride}),
                              Tensor(f16.data(), DType::f16, {kRows, stride})})
        expect_as_defined(x.slice(1, 2, 2 + width),
                          std::string(target) + ": " + std::string(dtype_name(x.dtype)));
    });
  }
}

}  // namespace
}  // namespace tachy::ops
