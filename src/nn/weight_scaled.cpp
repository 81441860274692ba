// A weight in 8 bits with a scale per row; each product rounds the rows of its x in the same way. Codes and
// scales are made on the host (nn/rounded_weight.h) or, if requested, on the device
// (ParamStore::fill_rounded). On a CPU, int8 codes are kept only in the order in which its products read
// them.
#include <algorithm>
#include <memory>

#include "nn/rounded_weight.h"
#include "nn/weight_form.h"
#include "ops/quantize/quantize.h"
#include "ops/scaled_gemm/scaled_gemm.h"

namespace tachy::nn {
namespace {

DType dtype_of(Products products) { return products == Products::int8 ? DType::i8 : DType::f8_e4m3; }

class ScaledWeight final : public WeightForm {
 public:
  ScaledWeight(std::span<const WeightPart> parts, ParamStore& store)
      : dtype_(dtype_of(store.stream().precision.products)), on_gpu_(store.on_gpu()) {
    int64_t rows = 0;
    for (const WeightPart& part : parts) rows += part.tensor.dim(0);
    const int64_t in = parts.front().tensor.dim(1);
    scales_ = store.allocate(DType::f32, {rows, 1});
    if (dtype_ == DType::i8 && !store.on_gpu() && !store.stream().memory) {
      codes_ = Tensor(nullptr, dtype_, {rows, in});
      packed_ = store.allocate(DType::u8, {ops::packed_scaled_gemm_bytes(rows, in)});
      if (!store.plan_only()) pack(parts, store.stream());
      return;
    }
    codes_ = store.allocate(dtype_, {rows, in});
    int64_t first = 0;
    for (const WeightPart& part : parts) {
      const int64_t end = first + part.tensor.dim(0);
      const Tensor codes = codes_.slice(0, first, end), scales = scales_.slice(0, first, end);
      if (!store.fill_rounded(codes, scales, part)) {
        const RoundedWeight rounded(part, dtype_);
        rounded.fill_codes(codes, store);
        rounded.fill_scales(scales, store);
      }
      first = end;
    }
  }
  const char* name() const override { return dtype_ == DType::i8 ? "int8" : "fp8"; }
  int64_t out() const override { return codes_.dim(0); }
  int64_t in() const override { return codes_.dim(1); }

  void product(ops::GemmArgs args, Stream& stream) const override {
    check(!args.residual.defined() || args.act == ops::Activation::none, ErrorCode::internal,
          "a linear layer in 8 bits: a residual after an activation");
    const ArenaScope scope(*stream.arena);
    const Codes codes = codes_of(args.x, stream);
    product_of(codes, args, stream);
  }

  // Returns nothing for int8 on a CPU: the codes are packed there, so the adapters' input is not rounded.
  std::optional<DType> code_dtype() const override {
    return on_gpu_ || dtype_ == DType::f8_e4m3 ? std::optional(dtype_) : std::nullopt;
  }
  Codes codes_of(const Tensor& x, Stream& stream) const override {
    const int64_t rows = x.dim(0);
    const Codes out{stream.arena->tensor(dtype_, {rows, in()}), stream.arena->f32({rows, 1}).view({rows})};
    ops::quantize({.x = x, .block = {1, 0}, .scale = out.scale.view({rows, 1}), .q = out.values}, stream);
    return out;
  }
  void product_of(const Codes& x, const ops::GemmArgs& args, Stream& stream) const override {
    check(!args.multiply.defined() && !args.gate.defined(), ErrorCode::internal,
          "a linear layer in 8 bits: an epilogue that it does not have");
    ops::scaled_gemm({.x = x.values,
                      .x_scale = x.scale,
                      .weight = codes_,
                      .packed = packed_,
                      .weight_scale = scales_.view({out()}),
                      .bias = args.bias,
                      .addend = args.residual,
                      .act = args.act,
                      .y = args.y},
                     stream);
  }

 private:
  // Makes the codes of all rows, and packs them.
  void pack(std::span<const WeightPart> parts, Stream& stream) {
    constexpr int64_t kRows = 32;  // rows that a thread has as float32 at a time
    const auto codes = std::make_unique_for_overwrite<int8_t[]>(static_cast<size_t>(codes_.numel()));
    const Tensor all(codes.get(), dtype_, codes_.shape());
    int64_t first = 0;
    for (const WeightPart& part : parts) {
      stream.throw_if_cancelled();
      const RoundedWeight rounded(part, dtype_);
      const int64_t rows = part.tensor.dim(0);
      stream.pool->run((rows + kRows - 1) / kRows, [&](int64_t task, int) {
        const int64_t begin = task * kRows, end = std::min(rows, begin + kRows);
        rounded.codes(begin, all.slice(0, first + begin, first + end),
                      scales_.slice(0, first + begin, first + end));
      });
      first += rows;
    }
    ops::pack_scaled_gemm_weight(all, packed_, stream);
  }

  DType dtype_;
  bool on_gpu_;
  Tensor codes_, scales_;  // [out, in], [out, 1]
  Tensor packed_;          // if defined, codes_ has only a shape
};

}  // namespace

WeightPtr make_scaled_weight(std::span<const WeightPart> parts, ParamStore& store) {
  return std::make_unique<ScaledWeight>(parts, store);
}

}  // namespace tachy::nn
