// A weight as it is in its file (blocks of GGUF, or 8-bit values with or without scales), where the stream
// computes. Each product first makes the whole matrix in scratch, in the activations' dtype. With many rows
// this pass over memory is short compared with the product. y has the same bits as with a dense weight.
#include <array>
#include <memory>
#include <vector>

#include "nn/weight_form.h"
#include "ops/decode_blocks/decode_blocks.h"
#include "ops/quantize/quantize.h"

namespace tachy::nn {
namespace {

// The scales of a stored weight on their way to the place where the stream computes.
class StoredScales final : public DerivedTensor {
 public:
  explicit StoredScales(std::vector<float> values) : values_(std::move(values)) {}
  std::string_view encoding() const override { return "scales"; }
  void decode(int64_t first, const Tensor& rows) const override {
    const int64_t width = rows.numel() / rows.dim(0);
    for (int64_t i = 0; i < rows.numel(); ++i)
      rows.as<float>()[i] = values_[static_cast<size_t>(first * width + i)];
  }

 private:
  std::vector<float> values_;
};

bool eight_bit_values(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::i8;
}

std::optional<StoredValues> stored_values(const WeightPart& part) {
  const Tensor& weight = part.tensor;
  if (part.derived) return part.derived->stored(weight.dim(0), weight.dim(1));
  if (!eight_bit_values(weight.dtype) || !weight.contiguous()) return std::nullopt;
  return StoredValues{.bytes = weight, .scales = {1.0f}, .scale_rows = 1, .scale_pieces = 1};
}

class StoredWeight final : public WeightForm {
 public:
  StoredWeight(std::span<const StoredValues> parts, int64_t in, ParamStore& store) : in_(in) {
    for (const StoredValues& from : parts) {
      Part part{.type = from.type, .bytes = store.allocate(from.bytes.dtype, from.bytes.shape())};
      store.fill(part.bytes, from.bytes);
      if (!from.type) {
        part.scales = store.allocate(DType::f32, {from.scale_rows, from.scale_pieces});
        store.fill(part.scales, {Tensor(nullptr, DType::f32, part.scales.shape()),
                                 std::make_shared<StoredScales>(from.scales)});
        part.block = {.rows = from.scale_rows == 1 ? 0 : 1, .columns = in / from.scale_pieces};
      }
      out_ += part.bytes.dim(0);
      parts_.push_back(std::move(part));
    }
  }
  const char* name() const override { return "stored"; }
  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }

  void product(ops::GemmArgs args, Stream& stream) const override {
    const ArenaScope scope(*stream.arena);
    args.weight = matrix(stream).values;
    ops::gemm(args, stream);
  }

  bool has_matrix() const override { return true; }
  Matrix matrix(Stream& stream) const override {
    const Tensor all = stream.arena->tensor(stream.precision.activation, {out_, in_});
    int64_t first = 0;
    for (const Part& part : parts_) {
      const int64_t end = first + part.bytes.dim(0);
      const Tensor rows = all.slice(0, first, end);
      if (part.type)
        ops::decode_blocks({.type = part.type, .blocks = part.bytes, .y = rows}, stream);
      else
        ops::dequantize({.q = part.bytes, .block = part.block, .scale = part.scales, .y = rows}, stream);
      first = end;
    }
    return {.values = all, .scratch = true};
  }

 private:
  struct Part {
    const GgufType* type;
    Tensor bytes, scales = {};
    ops::QuantBlock block = {};
  };
  std::vector<Part> parts_;
  int64_t in_, out_ = 0;
};

}  // namespace

WeightPtr make_stored_weight(std::span<const WeightPart> parts, ParamStore& store) {
  std::vector<StoredValues> stored;
  for (const WeightPart& part : parts) {
    auto values = stored_values(part);
    if (!values || (values->type && store.on_gpu() && !ops::decodes_on_gpu(*values->type))) return nullptr;
    stored.push_back(*std::move(values));
  }
  return std::make_unique<StoredWeight>(stored, parts.front().tensor.dim(1), store);
}

}  // namespace tachy::nn
