// A weight that is kept as in its file gives the same bits as its values kept whole, in a fraction of the
// bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "nn/weight_form.h"
#include "nn_case.h"
#include "weights/quantized/quantized_tensor.h"

namespace tachy::nn {
namespace {

using test::HostRun;

constexpr int64_t kStoredIn = 512, kStoredRows = 5;

// Holds blocks of GGUF in memory.
class Blocks final : public DerivedTensor {
 public:
  Blocks(std::string_view name, int64_t rows) : type_(*find_gguf_type(name)) {
    std::mt19937 random(3);
    const int64_t blocks = rows * kStoredIn / type_.block_values;
    for (int64_t i = 0; i < blocks * type_.block_bytes; ++i)
      bytes_.push_back(static_cast<std::byte>(random()));
    // The blocks' float16 scales must be finite and below 2, so bit 6 of the upper byte is cleared. It is
    // also cleared in some values.
    for (int64_t i = 1; i < blocks * type_.block_bytes; i += 2)
      bytes_[static_cast<size_t>(i)] &= std::byte{0xbf};
  }
  std::string_view encoding() const override { return type_.name; }
  void decode(int64_t first, const Tensor& rows) const override {
    const int64_t a_row = kStoredIn / type_.block_values;
    ASSERT_EQ(rows.numel() % kStoredIn, 0);
    type_.decode(bytes_.data() + first * a_row * type_.block_bytes, rows.numel() / type_.block_values,
                 rows.as<float>());
  }
  std::optional<StoredValues> stored(int64_t rows, int64_t width) const override {
    return StoredValues{.bytes = Tensor(const_cast<std::byte*>(bytes_.data()), DType::u8,
                                        {rows, width / type_.block_values * type_.block_bytes}),
                        .type = &type_};
  }

 private:
  const GgufType& type_;
  std::vector<std::byte> bytes_;
};

WeightPart blocks(std::string_view type, int64_t rows) {
  return {Tensor(nullptr, DType::f32, {rows, kStoredIn}), std::make_shared<Blocks>(type, rows)};
}

// Holds 8-bit values with scales, whose memory lives as long as the test.
struct EightBits {
  std::vector<uint8_t> codes;
  std::vector<float> scales;

  WeightPart part(DType dtype, int64_t rows, int64_t scale_rows, int64_t pieces) {
    std::mt19937 random(5);
    codes.resize(static_cast<size_t>(rows * kStoredIn)),
        scales.resize(static_cast<size_t>(scale_rows * pieces));
    for (uint8_t& code : codes) code = static_cast<uint8_t>(random() & 0xbf);  // never NaN
    for (float& scale : scales) scale = 0.01f + static_cast<float>(random() % 1000) * 1e-4f;
    auto weight = make_quantized(Quantization::scaled,
                                 {.data = reinterpret_cast<const std::byte*>(codes.data()),
                                  .dtype = dtype,
                                  .rows = rows,
                                  .width = kStoredIn,
                                  .scale = {reinterpret_cast<const std::byte*>(scales.data()), DType::f32},
                                  .scale_rows = scale_rows,
                                  .scale_blocks = pieces});
    return {Tensor(nullptr, DType::f32, {rows, kStoredIn}), std::move(weight)};
  }
};

struct MadeStored {
  std::vector<float> y;
  size_t bytes;
};

template <class Make>
MadeStored run(std::span<const WeightPart> parts, Make&& make) {
  HostRun host;
  ParamStore store({}, host.stream), plan({.plan_only = true}, host.stream);
  make(parts, plan);
  const WeightPtr weight = make(parts, store);
  EXPECT_EQ(store.bytes(), plan.bytes());
  const auto x = HostRun::rows(kStoredRows, kStoredIn);
  MadeStored made{std::vector<float>(static_cast<size_t>(kStoredRows * weight->out()), NAN), store.bytes()};
  weight->product({.x = Tensor(const_cast<float*>(x.data()), DType::f32, {kStoredRows, kStoredIn}),
                   .weight = {},
                   .y = Tensor(made.y.data(), DType::f32, {kStoredRows, weight->out()})},
                  host.stream);
  return made;
}

// The bytes are the sum of what the parts take in a file, each rounded up to where the next one may begin.
void expect_same(std::span<const WeightPart> parts, size_t bytes, const char* what) {
  const MadeStored stored = run(parts, make_stored_weight), dense = run(parts, make_dense_weight);
  EXPECT_EQ(stored.y, dense.y) << what;
  EXPECT_TRUE(std::ranges::any_of(stored.y, [](float v) { return v != 0; })) << what;
  EXPECT_EQ(stored.bytes, bytes) << what;
}

TEST(StoredWeight, BlocksGiveTheBitsOfTheirValues) {
  for (const char* name :
       {"q4_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"}) {
    const WeightPart part = blocks(name, 24);
    const GgufType& type = *find_gguf_type(name);
    expect_same({&part, 1},
                align_up(static_cast<size_t>(24 * kStoredIn / type.block_values * type.block_bytes)), name);
  }
}

TEST(StoredWeight, JoinedPartsMayBeOfDifferentTypes) {
  const WeightPart parts[] = {blocks("q4_k", 16), blocks("q4_k", 16), blocks("q6_k", 16)};
  expect_same(parts, 2 * align_up(16 * 2 * 144) + align_up(16 * 2 * 210), "q4_k, q4_k, q6_k");
}

TEST(StoredWeight, EightBitsWithAnyGridOfScales) {
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8})
    for (const int64_t scale_rows : {1, 24})
      for (const int64_t pieces : {1, 4}) {
        EightBits memory;
        const WeightPart part = memory.part(dtype, 24, scale_rows, pieces);
        expect_same({&part, 1},
                    align_up(24 * kStoredIn) + align_up(static_cast<size_t>(scale_rows * pieces * 4)),
                    dtype_name(dtype).data());
      }
}

TEST(StoredWeight, EightBitsWithoutScales) {
  EightBits memory;
  memory.part(DType::f8_e4m3, 24, 1, 1);
  const WeightPart part{Tensor(memory.codes.data(), DType::f8_e4m3, {24, kStoredIn})};
  expect_same({&part, 1}, align_up(24 * kStoredIn) + align_up(4), "plain e4m3");
}

TEST(StoredWeight, WhatIsMadeInAnotherWayIsNotKeptSo) {
  HostRun host;
  ParamStore store({}, host.stream);
  std::vector<float> values(24 * kStoredIn);
  const WeightPart parts[] = {blocks("q4_k", 24), {Tensor(values.data(), DType::f32, {24, kStoredIn})}};
  EXPECT_EQ(make_stored_weight(parts, store), nullptr);
  EXPECT_NE(make_stored_weight({parts, 1}, store), nullptr);
}

}  // namespace
}  // namespace tachy::nn
