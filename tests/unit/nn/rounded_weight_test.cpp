// Tests a matrix that is rounded to 8 bits while it is read, compared with plain loops: for every 16-bit
// value, from any source, and in any pieces.
#include "nn/rounded_weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "../pipelines/host_device.h"
#include "nn/weight_form.h"
#include "nn_case.h"
#include "weights/quantized/quantized_tensor.h"

namespace tachy::nn {
namespace {

using tachy::test::HostDevice;
using test::HostRun;

struct Rounded {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

// Rounds one row by the rule that ops/quantize describes.
void round_row(const float* x, int64_t width, DType to, uint8_t* codes, float* scale) {
  float amax = 0;
  bool finite = true;
  for (int64_t j = 0; j < width; ++j) {
    finite = finite && std::isfinite(x[j]);
    amax = std::max(amax, std::abs(x[j]));
  }
  const float top = to == DType::i8 ? 127.0f : 448.0f;
  *scale = amax == 0 ? 1.0f : std::max(amax / top, 0x1p-126f);
  if (!finite) {
    *scale = INFINITY;
    for (int64_t j = 0; j < width; ++j)
      if (std::isnan(x[j])) *scale = NAN;
  }
  for (int64_t j = 0; j < width; ++j) {
    float v = x[j] / *scale;
    if (std::isnan(v)) {
      codes[j] = to == DType::i8 ? 0 : 0x7f;
      continue;
    }
    v = std::clamp(v, -top, top);
    codes[j] =
        to == DType::i8 ? static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(v))) : to_f8_e4m3(v).bits;
  }
}

Rounded plain(const std::vector<float>& values, int64_t width, DType to) {
  const int64_t rows = static_cast<int64_t>(values.size()) / width;
  Rounded out{std::vector<uint8_t>(values.size()), std::vector<float>(static_cast<size_t>(rows))};
  for (int64_t i = 0; i < rows; ++i)
    round_row(values.data() + i * width, width, to, out.codes.data() + i * width,
              &out.scales[static_cast<size_t>(i)]);
  return out;
}

// Makes the rounded matrix through a store on the host.
Rounded made(const WeightPart& part, DType to) {
  HostRun host;
  ParamStore store({}, host.stream);
  const RoundedWeight rounded(part, to);
  const int64_t rows = rounded.rows(), width = rounded.width();
  Rounded out{std::vector<uint8_t>(static_cast<size_t>(rows * width), 0xaa),
              std::vector<float>(static_cast<size_t>(rows))};
  rounded.fill_codes(Tensor(out.codes.data(), to, {rows, width}), store);
  rounded.fill_scales(Tensor(out.scales.data(), DType::f32, {rows, 1}), store);
  return out;
}

Rounded as_filled(const Tensor& codes, const Tensor& scales) {
  const auto* from = static_cast<const uint8_t*>(codes.data);
  return {{from, from + codes.numel()}, {scales.as<float>(), scales.as<float>() + scales.numel()}};
}

void expect_same(const Rounded& got, const Rounded& want, const std::string& what) {
  EXPECT_EQ(got.codes, want.codes) << what;
  ASSERT_EQ(got.scales.size(), want.scales.size());
  for (size_t i = 0; i < got.scales.size(); ++i)
    if (!(std::isnan(got.scales[i]) && std::isnan(want.scales[i])))
      EXPECT_EQ(got.scales[i], want.scales[i]) << what << ", row " << i;
}

// Returns the float32 value that `bits` of a dtype stand for.
float widened(DType dtype, uint32_t bits) {
  if (dtype == DType::bf16) return to_float(bf16_t{static_cast<uint16_t>(bits)});
  if (dtype == DType::f16) return to_float(f16_t{static_cast<uint16_t>(bits)});
  if (dtype == DType::f8_e4m3) return to_float(f8_e4m3_t{static_cast<uint8_t>(bits)});
  return to_float(f8_e5m2_t{static_cast<uint8_t>(bits)});
}

// The matrix has all 16-bit values: those of one exponent and sign are in a row of their own, so that each
// row has another scale; then come rows across exponents, some with NaN and infinity.
TEST(RoundedWeight, EveryValueOf16BitsAsPlainLoopsRoundIt) {
  for (const DType from : {DType::bf16, DType::f16})
    for (const int64_t width : {128, 1024, 2048, 509}) {
      const int64_t rows = 65536 / width;
      std::vector<uint16_t> bits(static_cast<size_t>(rows * width));
      for (size_t i = 0; i < bits.size(); ++i)
        bits[i] = static_cast<uint16_t>(width == 2048 ? i * 40503u : i);  // an odd factor reaches every value
      std::vector<float> values;
      for (const uint16_t b : bits) values.push_back(widened(from, b));
      for (const DType to : {DType::f8_e4m3, DType::i8})
        expect_same(made({Tensor(bits.data(), from, {rows, width})}, to), plain(values, width, to),
                    std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
    }
}

// The quotients lie in the middle between two codes and next to it, where a rounding that is only nearly
// right differs.
TEST(RoundedWeight, TiesAndTheirNeighboursInFloat32) {
  for (const int64_t width : {257, 1031}) {
    std::vector<float> values;
    std::mt19937 random(3);
    for (int64_t row = 0; row < 130; ++row) {
      const float top = std::ldexp(1.0f + 0x1p-23f * static_cast<float>(random() % (1 << 23)),
                                   static_cast<int>(random() % 40) - 20);
      for (int64_t j = 0; j < width; ++j) {
        const auto code = static_cast<uint8_t>(random() % 126);
        const float middle =
            (to_float(f8_e4m3_t{code}) + to_float(f8_e4m3_t{static_cast<uint8_t>(code + 1)})) / 2;
        float v = middle * (top / 448);
        for (int step = static_cast<int>(random() % 5); step > 0; --step)
          v = std::nextafter(v, random() % 2 ? INFINITY : 0.0f);
        values.push_back(j == row % width ? top : random() % 2 ? v : -v);
      }
    }
    const auto rows = static_cast<int64_t>(values.size()) / width;
    for (const DType to : {DType::f8_e4m3, DType::i8})
      expect_same(made({Tensor(values.data(), DType::f32, {rows, width})}, to), plain(values, width, to),
                  "ties");
  }
}

TEST(RoundedWeight, BytesOfAFileWithAndWithoutScales) {
  constexpr int64_t kRows = 70, kWidth = 264;
  std::vector<uint8_t> bytes(kRows * kWidth);
  std::mt19937 random(5);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  const auto table = [](DType dtype, uint8_t b) {
    return dtype == DType::i8 ? static_cast<float>(static_cast<int8_t>(b)) : widened(dtype, b);
  };
  for (const DType from : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    std::vector<float> values(bytes.size());
    if (from != DType::i8) {
      for (size_t i = 0; i < bytes.size(); ++i) values[i] = table(from, bytes[i]);
      for (const DType to : {DType::f8_e4m3, DType::i8})
        expect_same(made({Tensor(bytes.data(), from, {kRows, kWidth})}, to), plain(values, kWidth, to),
                    "without scales");
    }
    for (const auto& [scale_rows, pieces] : {std::pair<int64_t, int64_t>{1, 1}, {kRows, 1}, {kRows, 4}}) {
      std::vector<float> scales(static_cast<size_t>(scale_rows * pieces));
      for (float& s : scales) s = 0.01f + 0.001f * static_cast<float>(random() % 97);
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t j = 0; j < kWidth; ++j)
          values[static_cast<size_t>(i * kWidth + j)] =
              table(from, bytes[static_cast<size_t>(i * kWidth + j)]) *
              scales[static_cast<size_t>((scale_rows == 1 ? 0 : i * pieces) + j / (kWidth / pieces))];
      auto weight = make_quantized(Quantization::scaled,
                                   {.data = reinterpret_cast<const std::byte*>(bytes.data()),
                                    .dtype = from,
                                    .rows = kRows,
                                    .width = kWidth,
                                    .scale = {reinterpret_cast<const std::byte*>(scales.data()), DType::f32},
                                    .scale_rows = scale_rows,
                                    .scale_blocks = pieces});
      for (const DType to : {DType::f8_e4m3, DType::i8})
        expect_same(made({Tensor(nullptr, DType::bf16, {kRows, kWidth}), weight}, to),
                    plain(values, kWidth, to), std::string(dtype_name(from)) + " with scales");
    }
  }
}

std::vector<bf16_t> some_rows(int64_t rows, int64_t width) {
  std::vector<bf16_t> out;
  for (const float v : HostRun::rows(rows, width)) out.push_back(to_bf16(v * 0.02f));
  return out;
}

// An upload asks for pieces that begin and end anywhere, and for scales before all codes are made.
TEST(RoundedWeight, PiecesThatCutRows) {
  constexpr int64_t kRows = 300, kWidth = 777;
  auto file = some_rows(kRows, kWidth);
  const WeightPart part{Tensor(file.data(), DType::bf16, {kRows, kWidth})};
  const Rounded want = made(part, DType::f8_e4m3);
  const RoundedWeight rounded(part, DType::f8_e4m3);
  HostRun host;
  HostDevice device(size_t{1} << 26);
  host.stream.memory = &device;
  ParamStore store({}, host.stream);
  const Tensor codes = store.allocate(DType::f8_e4m3, {kRows, kWidth}),
               scales = store.allocate(DType::f32, {kRows, 1});
  store.fill_together([&] {
    rounded.fill_scales(scales, store);
    rounded.fill_codes(codes, store);
  });
  expect_same(as_filled(codes, scales), want, "pieces of 4096 bytes");
  const RoundedWeight asked_for_scales(part, DType::f8_e4m3);  // asks only for scales
  std::vector<float> own(kRows);
  asked_for_scales.scales(0, Tensor(own.data(), DType::f32, {kRows, 1}));
  EXPECT_EQ(own, want.scales);
}

// On request the device itself rounds, for parts of several sizes.
TEST(RoundedWeight, TheDeviceRoundsToTheSameBits) {
  constexpr int64_t kWidth = 520;
  std::vector<std::vector<bf16_t>> files;
  std::vector<WeightPart> parts;
  for (const int64_t rows : {1, 33, 400}) {
    files.push_back(some_rows(rows, kWidth));
    parts.push_back({Tensor(files.back().data(), DType::bf16, {rows, kWidth})});
  }
  for (const DType to : {DType::f8_e4m3, DType::i8})
    for (const bool together : {false, true}) {
      HostRun host;
      HostDevice device(size_t{700} << 10);  // so little memory that rows go in several pieces
      host.stream.memory = &device;
      ParamStore store({}, host.stream);
      std::vector<std::pair<Tensor, Tensor>> out;
      for (const WeightPart& part : parts)
        out.push_back(
            {store.allocate(to, part.tensor.shape()), store.allocate(DType::f32, {part.tensor.dim(0), 1})});
      EXPECT_FALSE(store.fill_rounded(out[0].first, out[0].second, parts[0])) << "nobody asked for it";
      ::setenv("TACHY_ROUND_WEIGHTS", "device", 1);
      const auto fill = [&] {
        for (size_t i = 0; i < parts.size(); ++i)
          EXPECT_TRUE(store.fill_rounded(out[i].first, out[i].second, parts[i]));
      };
      together ? store.fill_together(fill) : fill();
      ::unsetenv("TACHY_ROUND_WEIGHTS");
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto& [codes, scales] = out[i];
        expect_same(as_filled(codes, scales), made(parts[i], to), "on the device");
      }
    }
}

}  // namespace
}  // namespace tachy::nn
