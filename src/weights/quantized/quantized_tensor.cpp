#include "weights/quantized/quantized_tensor.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace tachy {
namespace {

constexpr int64_t kMxBlock = 32, kNvBlock = 16;

using Table = std::array<float, 256>;

template <class Value>
Table table_of() {
  Table out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = to_float(Value{static_cast<uint8_t>(i)});
  return out;
}

const Table& table(DType dtype) {
  static const Table e4m3 = table_of<f8_e4m3_t>(), e5m2 = table_of<f8_e5m2_t>(), i8 = [] {
    Table out;
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(static_cast<int8_t>(i));
    return out;
  }();
  return dtype == DType::f8_e4m3 ? e4m3 : dtype == DType::f8_e5m2 ? e5m2 : i8;
}

// The values of four bits: a sign, two bits of exponent and one of mantissa.
constexpr float kE2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

float e8m0(uint8_t bits) {  // 2^(bits - 127); 255 is NaN
  if (bits == 255) return std::bit_cast<float>(0x7fc00000u);
  return bits == 0 ? 0x1p-127f : std::bit_cast<float>(uint32_t{bits} << 23);
}

class QuantizedTensor : public DerivedTensor {
 public:
  explicit QuantizedTensor(QuantizedWeight weight) : w_(std::move(weight)) {}

  void decode(int64_t first, const Tensor& rows) const final {
    check(first >= 0 && first + rows.dim(0) <= w_.rows && rows.numel() == rows.dim(0) * w_.width,
          ErrorCode::internal, "{}: rows {} to {} of {}x{} values", encoding(), first, first + rows.dim(0),
          w_.rows, w_.width);
    for (int64_t i = 0; i < rows.dim(0); ++i) {
      float* out = rows.as<float>() + i * w_.width;
      decode_row(first + i, out);
      if (!w_.column_scale.data) continue;
      for (int64_t j = 0; j < w_.width; ++j) out[j] *= w_.column_scale[j];
    }
  }

 protected:
  virtual void decode_row(int64_t row, float* out) const = 0;
  const uint8_t* bytes_at(int64_t offset) const { return reinterpret_cast<const uint8_t*>(w_.data) + offset; }
  uint8_t block_scale(int64_t row, int64_t block, int64_t blocks) const {
    return static_cast<uint8_t>(w_.block_scale[tiled_place(row, block, blocks)]);
  }
  // A weight of this size has too many scales to check them when the file is opened.
  float checked_scale(float scale, int64_t row, int64_t block) const {
    if (!std::isfinite(scale)) [[unlikely]]
      fail(ErrorCode::corrupt, "{}: the scale of block {} of row {} is {}: the file is damaged", w_.name,
           block, row, scale);
    return scale;
  }

  QuantizedWeight w_;
};

class ScaledTensor final : public QuantizedTensor {
 public:
  using QuantizedTensor::QuantizedTensor;
  std::string_view encoding() const override {
    return w_.dtype == DType::f8_e4m3   ? "f8_e4m3 with scales"
           : w_.dtype == DType::f8_e5m2 ? "f8_e5m2 with scales"
                                        : "i8 with scales";
  }
  std::optional<StoredValues> stored(int64_t rows, int64_t width) const override {
    if (w_.column_scale.data || rows != w_.rows || width != w_.width) return std::nullopt;
    StoredValues out{.bytes = Tensor(const_cast<std::byte*>(w_.data), w_.dtype, {rows, width}),
                     .scale_rows = w_.scale_rows,
                     .scale_pieces = w_.scale_blocks};
    for (int64_t i = 0; i < w_.scale_rows * w_.scale_blocks; ++i)
      out.scales.push_back(checked_scale(w_.scale[i], i / w_.scale_blocks, i % w_.scale_blocks));
    return out;
  }

 private:
  void decode_row(int64_t row, float* out) const override {
    const Table& values = table(w_.dtype);
    const uint8_t* in = bytes_at(row * w_.width);
    const int64_t block = w_.width / w_.scale_blocks, scales = w_.scale_rows == 1 ? 0 : row * w_.scale_blocks;
    for (int64_t b = 0; b < w_.scale_blocks; ++b) {
      const float scale = checked_scale(w_.scale[scales + b], row, b);
      for (int64_t j = b * block; j < (b + 1) * block; ++j) out[j] = values[in[j]] * scale;
    }
  }
};

class Mxfp8Tensor final : public QuantizedTensor {
 public:
  using QuantizedTensor::QuantizedTensor;
  std::string_view encoding() const override { return "mxfp8"; }

 private:
  void decode_row(int64_t row, float* out) const override {
    const Table& values = table(DType::f8_e4m3);
    const uint8_t* in = bytes_at(row * w_.width);
    const int64_t blocks = w_.width / kMxBlock;
    for (int64_t b = 0; b < blocks; ++b) {
      const float scale = checked_scale(e8m0(block_scale(row, b, blocks)), row, b);
      for (int64_t j = b * kMxBlock; j < (b + 1) * kMxBlock; ++j) out[j] = values[in[j]] * scale;
    }
  }
};

class Nvfp4Tensor final : public QuantizedTensor {
 public:
  using QuantizedTensor::QuantizedTensor;
  std::string_view encoding() const override { return "nvfp4"; }

 private:
  void decode_row(int64_t row, float* out) const override {
    const Table& scales = table(DType::f8_e4m3);
    const uint8_t* in = bytes_at(row * w_.width / 2);
    const int64_t blocks = w_.width / kNvBlock;
    for (int64_t b = 0; b < blocks; ++b) {
      const float scale = checked_scale(w_.scale[0] * scales[block_scale(row, b, blocks)], row, b);
      // the first value is in the upper half
      for (int64_t j = b * kNvBlock; j < (b + 1) * kNvBlock; j += 2) {
        out[j] = kE2m1[in[j / 2] >> 4] * scale;
        out[j + 1] = kE2m1[in[j / 2] & 15] * scale;
      }
    }
  }
};

}  // namespace

float FileValues::operator[](int64_t i) const {
  const std::byte* at = data + i * dtype_size(dtype);
  if (dtype == DType::f32) {
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return dtype == DType::f16 ? to_float(f16_t{bits}) : to_float(bf16_t{bits});
}

int64_t tiled_bytes(int64_t rows, int64_t columns) {
  return (rows + 127) / 128 * 128 * ((columns + 3) / 4 * 4);
}

int64_t tiled_place(int64_t row, int64_t column, int64_t columns) {
  const int64_t tiles = (columns + 3) / 4, tile = row / 128 * tiles + column / 4, inner = row % 128;
  return tile * 512 + inner % 32 * 16 + inner / 32 * 4 + column % 4;
}

std::shared_ptr<const DerivedTensor> make_quantized(Quantization kind, QuantizedWeight weight) {
  switch (kind) {
    case Quantization::scaled:
      return std::make_shared<ScaledTensor>(std::move(weight));
    case Quantization::mxfp8:
      return std::make_shared<Mxfp8Tensor>(std::move(weight));
    case Quantization::nvfp4:
      return std::make_shared<Nvfp4Tensor>(std::move(weight));
  }
  fail(ErrorCode::internal, "quantised weights: no kind {}", static_cast<int>(kind));
}

}  // namespace tachy
