// How weights of convolutions are packed for a GPU: on the host, row by row, into memory whose pieces end anywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cuda/conv/conv.h"
#include "ops/codes.h"
#include "ops/conv3d/conv3d.h"
#include "ops/scaled_conv3d/scaled_conv3d.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"
#include "stand_in_gpu.h"
#include "tensor/upload_rows.h"

namespace tachy {
namespace {

// Memory of a GPU of this capability, on the host.
class HostGpu : public test::StandInGpu {
 public:
  explicit HostGpu(int major) { info_.major = major; }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
};

// The same, where uploads are made in pieces of `piece` bytes.
class PiecesGpu final : public HostGpu, public test::StandInStreaming {
 public:
  PiecesGpu(int major, size_t piece) : HostGpu(major), piece_(piece) {}
  size_t free_bytes() const override { return HostGpu::free_bytes(); }
  void upload_pieces(void* to, size_t bytes, const MakePiece& make) override { make(to, 0, bytes); }
  void upload_all(std::span<const Upload> uploads, ThreadPool& pool) override {
    for (const Upload& u : uploads) {
      largest = std::max(largest, u.bytes);
      pool.run(static_cast<int64_t>((u.bytes + piece_ - 1) / piece_), [&](int64_t i, int) {
        const size_t begin = static_cast<size_t>(i) * piece_;
        u.make(static_cast<char*>(u.to) + begin, begin, std::min(piece_, u.bytes - begin));
      });
    }
  }

  size_t largest = 0;  // bytes of the largest upload

 private:
  size_t piece_;
};

class ConvPacking : public ::testing::Test {
 protected:
  // Packs by `pack(packed, stream)` into `bytes` bytes, on GPUs that take pieces of several sizes and on one that takes none, and
  // returns what all of them hold.
  template <class Pack>
  std::vector<uint8_t> packed_by(int major, DType activation, int64_t bytes, const Pack& pack) {
    std::vector<uint8_t> first;
    HostGpu whole(major);
    PiecesGpu pages(major, 4096), slots(major, StreamingMemory::kPieceBytes);
    for (HostGpu* gpu : {&whole, static_cast<HostGpu*>(&pages), static_cast<HostGpu*>(&slots)}) {
      std::vector<uint8_t> memory(static_cast<size_t>(bytes) + 64, 0xa5);
      Stream stream{.arena = &arena_, .pool = &pool_, .gpu = gpu, .memory = gpu};
      stream.precision.activation = activation;
      pack(Tensor(memory.data(), DType::u8, {bytes}), stream);
      for (size_t i = static_cast<size_t>(bytes); i < memory.size(); ++i) EXPECT_EQ(memory[i], 0xa5);
      memory.resize(static_cast<size_t>(bytes));
      if (first.empty()) first = memory;
      EXPECT_EQ(memory, first);
    }
    EXPECT_LE(slots.largest, StreamingMemory::kPieceBytes);
    return first;
  }

  std::vector<float> values(int64_t count) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& v : out) {
      state_ = state_ * 1664525u + 1013904223u;
      v = static_cast<float>(static_cast<int32_t>(state_)) * 0x1p-31f;
    }
    return out;
  }

  static float value_at(const std::vector<uint8_t>& bytes, DType dtype, int64_t i) {
    const auto size = static_cast<size_t>(dtype_size(dtype));
    const uint8_t* at = bytes.data() + static_cast<size_t>(i) * size;
    if (dtype == DType::f32) return *reinterpret_cast<const float*>(at);
    const uint16_t bits = *reinterpret_cast<const uint16_t*>(at);
    return dtype == DType::bf16 ? to_float(bf16_t{bits}) : to_float(f16_t{bits});
  }
  static float rounded(float v, DType dtype) {
    return dtype == DType::f32 ? v : dtype == DType::bf16 ? to_float(to_bf16(v)) : to_float(to_f16(v));
  }

  // Expects rows [taps, padded channels] of want(row, channel, tap), with zeros between.
  template <class Want>
  static void expect_rows(const std::vector<uint8_t>& bytes, int64_t first, DType dtype, int64_t rows,
                          int64_t ci, int64_t taps, const Want& want) {
    const int64_t padded = ci % 8 == 0 ? (ci + 31) / 32 * 32 : ci;
    const int64_t k = ci % 8 == 0 ? taps * padded : (taps * ci + 31) / 32 * 32;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<float> expected(static_cast<size_t>(k), 0.0f);
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t c = 0; c < ci; ++c)
          expected[static_cast<size_t>(tap * padded + c)] = rounded(want(row, c, tap), dtype);
      for (int64_t i = 0; i < k; ++i)
        ASSERT_EQ(value_at(bytes, dtype, first + row * k + i), expected[static_cast<size_t>(i)])
            << "row " << row << ", value " << i;
    }
  }

  ThreadPool pool_{3};
  Arena arena_{0};
  uint32_t state_ = 7;
};

TEST_F(ConvPacking, EachRowHasItsTapsBesideEachOther) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
    for (const auto& [co, ci] : {std::pair<int64_t, int64_t>{5, 3}, {3, 8}, {70, 40}, {9, 96}, {2, 33}}) {
      const auto weight = values(co * ci * 27);
      const int64_t bytes = cuda::conv_packed_bytes(dtype, 1, co, ci, 27);
      const auto packed = packed_by(8, dtype, bytes, [&](const Tensor& to, Stream& stream) {
        ASSERT_EQ(ops::packed_conv3d_bytes(co, ci, 3, 3, 3, stream), bytes);
        ops::pack_conv3d_weight(Tensor(const_cast<float*>(weight.data()), DType::f32, {co, ci, 3, 3, 3}), to,
                                stream);
      });
      expect_rows(packed, 0, dtype, co, ci, 27, [&, c_in = ci](int64_t o, int64_t c, int64_t tap) {
        return weight[static_cast<size_t>((o * c_in + c) * 27 + tap)];
      });
    }
}

TEST_F(ConvPacking, HopperAlsoHasSumsOfTapsOfARow) {
  const int64_t co = 72, ci = 64;
  const auto weight = values(co * ci * 27);
  const int64_t plain = cuda::conv_packed_bytes(DType::bf16, 1, co, ci, 27);
  const int64_t bytes = plain + cuda::conv_packed_bytes(DType::bf16, 1, co, ci, 18);
  std::vector<bf16_t> halves;
  for (const float v : weight) halves.push_back(to_bf16(v));
  const auto packed = packed_by(9, DType::bf16, bytes, [&](const Tensor& to, Stream& stream) {
    ops::pack_conv3d_weight(Tensor(halves.data(), DType::bf16, {co, ci, 3, 3, 3}), to, stream);
  });
  const auto at = [&](int64_t o, int64_t c, int64_t tap) {
    return to_float(halves[static_cast<size_t>((o * ci + c) * 27 + tap)]);
  };
  expect_rows(packed, 0, DType::bf16, co, ci, 27, at);
  expect_rows(packed, plain / 2, DType::bf16, co, ci, 18, [&](int64_t o, int64_t c, int64_t tap) {
    const int64_t row = tap / 2 * 3;
    const float outer = at(o, c, row) + (tap % 2 ? -1.0f : 1.0f) * at(o, c, row + 1) + at(o, c, row + 2);
    return 0.5f * outer;
  });
}

TEST_F(ConvPacking, UpsamplingHasAKernelForEachPhase) {
  const int64_t co = 6, ci = 16;
  const auto weight = values(co * ci * 9);
  const auto packed =
      packed_by(8, DType::f32, cuda::conv_packed_bytes(DType::f32, 4, co, ci, 4),
                [&](const Tensor& to, Stream& stream) {
                  ops::pack_upsample_conv2d_weight(
                      Tensor(const_cast<float*>(weight.data()), DType::f32, {co, ci, 3, 3}), to, stream);
                });
  // Row tap 0 of phase 0 is kernel row 0, tap 1 the sum of rows 1 and 2; in phase 1 they are the sum of rows 0 and 1, and row 2.
  expect_rows(packed, 0, DType::f32, 4 * co, ci, 4, [&](int64_t row, int64_t c, int64_t tap) {
    const int64_t phase = row / co, o = row % co;
    const auto of = [](int64_t ph, int64_t k) { return ph == 0 ? k > 0 : k > 1; };
    double sum = 0;
    for (int64_t p = 0; p < 3; ++p)
      for (int64_t q = 0; q < 3; ++q)
        if (of(phase / 2, p) == (tap / 2 == 1) && of(phase % 2, q) == (tap % 2 == 1))
          sum += weight[static_cast<size_t>(((o * ci + c) * 3 + p) * 3 + q)];
    return static_cast<float>(sum);
  });
}

TEST_F(ConvPacking, CodesHaveAScaleForEachRow) {
  const int64_t co = 37, ci = 40, row = ci * 27, padded = 64;
  for (const DType dtype : {DType::f8_e4m3, DType::i8}) {
    auto weight = values(co * row);
    std::fill_n(weight.begin() + 5 * row, row, 0.0f);
    const float x_scale = 0.125f;
    Stream asking{.arena = &arena_, .pool = &pool_};
    HostGpu gpu(9);
    asking.gpu = &gpu, asking.memory = &gpu;
    const int64_t bytes = ops::packed_scaled_conv3d_bytes(co, ci, asking);
    const auto packed = packed_by(9, DType::bf16, bytes, [&](const Tensor& to, Stream& stream) {
      ops::pack_scaled_conv3d_weight(Tensor(weight.data(), DType::f32, {co, ci, 3, 3, 3}), x_scale, to,
                                     stream, dtype);
    });
    for (int64_t o = 0; o < co; ++o) {
      float largest = 0;
      for (int64_t i = 0; i < row; ++i)
        largest = std::max(largest, std::abs(weight[static_cast<size_t>(o * row + i)]));
      const float scale = largest > 0 ? largest / ops::top_code(dtype) : 1.0f;
      float found = 0;
      std::memcpy(&found, packed.data() + bytes - (co - o) * 4, 4);
      ASSERT_EQ(found, x_scale * scale) << "row " << o;
      for (int64_t tap = 0; tap < 27; ++tap)
        for (int64_t c = 0; c < padded; ++c) {
          const uint8_t want =
              c < ci ? ops::code_of(weight[static_cast<size_t>(o * row + c * 27 + tap)] / scale, dtype) : 0;
          ASSERT_EQ(packed[static_cast<size_t>((o * 27 + tap) * padded + c)], want)
              << "row " << o << ", tap " << tap << ", channel " << c;
        }
    }
  }
}

TEST_F(ConvPacking, RowsLargerThanAPieceComeInParts) {
  const int64_t rows = 3;
  const size_t row_bytes = StreamingMemory::kPieceBytes + 12345;
  std::vector<uint8_t> to(static_cast<size_t>(rows) * row_bytes + 1, 0xa5);
  PiecesGpu gpu(8, StreamingMemory::kPieceBytes);
  upload_rows(
      gpu, to.data(), rows, row_bytes,
      [&](int64_t first, int64_t count, void* out) {
        for (int64_t i = 0; i < count; ++i)
          std::memset(static_cast<char*>(out) + static_cast<size_t>(i) * row_bytes,
                      static_cast<int>(first + i + 1), row_bytes);
      },
      pool_);
  for (int64_t row = 0; row < rows; ++row)
    for (size_t i = 0; i < row_bytes; ++i) ASSERT_EQ(to[static_cast<size_t>(row) * row_bytes + i], row + 1);
  EXPECT_EQ(to.back(), 0xa5);
}

}  // namespace
}  // namespace tachy
