// A weight in 8 bits with a scale a row; each product rounds its x in the same way, a scale a row. Codes and
// scales are made on the host, row by row, while the file is read, so that they take their places like any
// other weight: uploaded, or streamed with their block. On a CPU int8 codes are kept in the order in which its
// products read them, and in no other.
#include <algorithm>
#include <cmath>
#include <memory>

#include "nn/weight_form.h"
#include "ops/quantize/quantize.h"
#include "ops/scaled_gemm/scaled_gemm.h"

namespace tachy::nn {
namespace {

DType codes_of(Products products) { return products == Products::int8 ? DType::i8 : DType::f8_e4m3; }

// Rows of a weight as codes and their scales. Nested in the pool that loads, so it has a thread of its own.
class Rounded {
 public:
  Rounded(const WeightPart& from, DType dtype) : from_(from), dtype_(dtype) {}
  int64_t width() const { return from_.tensor.dim(1); }
  DType dtype() const { return dtype_; }
  const WeightPart& from() const { return from_; }

  // q [count, width] of dtype() and scale [count, 1], both on the host.
  void rows(int64_t first, const Tensor& q, const Tensor& scale) const {
    const int64_t count = scale.dim(0);
    std::vector<float> wide(static_cast<size_t>(count * width()));
    const Tensor values(wide.data(), DType::f32, {count, width()});
    ThreadPool alone(1);
    if (from_.derived)
      from_.derived->decode(first, values);
    else
      convert_weight(from_.tensor.slice(0, first, first + count), values, alone);
    Arena scratch(0);
    Stream host{.arena = &scratch, .pool = &alone};
    ops::quantize({.x = values, .block = {1, 0}, .scale = scale, .q = q}, host);
  }

 private:
  WeightPart from_;
  DType dtype_;
};

class Codes final : public DerivedTensor {
 public:
  explicit Codes(Rounded rounded) : rounded_(std::move(rounded)) {}
  std::string_view encoding() const override { return "codes"; }
  void decode(int64_t first, const Tensor& rows) const override {
    const int64_t count = rows.dim(0), width = rounded_.width();
    std::vector<uint8_t> codes(static_cast<size_t>(count * width));
    std::vector<float> scales(static_cast<size_t>(count));
    const Tensor q(codes.data(), rounded_.dtype(), {count, width});
    rounded_.rows(first, q, Tensor(scales.data(), DType::f32, {count, 1}));
    float* to = rows.as<float>();
    for (size_t i = 0; i < codes.size(); ++i)
      to[i] = rounded_.dtype() == DType::i8 ? static_cast<float>(static_cast<int8_t>(codes[i]))
                                            : to_float(f8_e4m3_t{codes[i]});
  }

 private:
  Rounded rounded_;
};

class Scales final : public DerivedTensor {
 public:
  explicit Scales(Rounded rounded) : rounded_(std::move(rounded)) {}
  std::string_view encoding() const override { return "scales"; }
  void decode(int64_t first, const Tensor& rows) const override {
    std::vector<uint8_t> codes(static_cast<size_t>(rows.dim(0) * rounded_.width()));
    rounded_.rows(first, Tensor(codes.data(), rounded_.dtype(), {rows.dim(0), rounded_.width()}), rows);
  }

 private:
  Rounded rounded_;
};

class ScaledWeight final : public WeightForm {
 public:
  ScaledWeight(std::span<const WeightPart> parts, ParamStore& store)
      : dtype_(codes_of(store.stream().precision.products)) {
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
      const auto place = [&](const Tensor& to, std::shared_ptr<const DerivedTensor> from) {
        store.fill(to.slice(0, first, end),
                   {Tensor(nullptr, to.dtype, {end - first, to.dim(1)}), std::move(from)});
      };
      place(codes_, std::make_shared<Codes>(Rounded(part, dtype_)));
      place(scales_, std::make_shared<Scales>(Rounded(part, dtype_)));
      first = end;
    }
  }
  const char* name() const override { return dtype_ == DType::i8 ? "int8" : "fp8"; }
  int64_t out() const override { return codes_.dim(0); }
  int64_t in() const override { return codes_.dim(1); }

  void product(ops::GemmArgs args, Stream& stream) const override {
    check(!args.multiply.defined() && !args.gate.defined() &&
              (!args.residual.defined() || args.act == ops::Activation::none),
          ErrorCode::internal, "a linear layer in 8 bits: an epilogue that it does not have");
    const ArenaScope scope(*stream.arena);
    const int64_t rows = args.x.dim(0);
    const Tensor x = stream.arena->tensor(dtype_, {rows, in()}), scale = stream.arena->f32({rows, 1});
    ops::quantize({.x = args.x, .block = {1, 0}, .scale = scale, .q = x}, stream);
    ops::scaled_gemm({.x = x,
                      .x_scale = scale.view({rows}),
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
  // All rows as codes for as long as it takes to pack them.
  void pack(std::span<const WeightPart> parts, Stream& stream) {
    constexpr int64_t kRows = 32;  // of float32 that a thread has at a time
    const auto codes = std::make_unique_for_overwrite<int8_t[]>(static_cast<size_t>(codes_.numel()));
    const Tensor all(codes.get(), dtype_, codes_.shape());
    int64_t first = 0;
    for (const WeightPart& part : parts) {
      stream.throw_if_cancelled();
      const Rounded rounded(part, dtype_);
      const int64_t rows = part.tensor.dim(0);
      stream.pool->run((rows + kRows - 1) / kRows, [&](int64_t task, int) {
        const int64_t begin = task * kRows, end = std::min(rows, begin + kRows);
        rounded.rows(begin, all.slice(0, first + begin, first + end),
                     scales_.slice(0, first + begin, first + end));
      });
      first += rows;
    }
    ops::pack_scaled_gemm_weight(all, packed_, stream);
  }

  DType dtype_;
  Tensor codes_, scales_;  // [out, in], [out, 1]
  Tensor packed_;          // where it is defined, codes_ has a shape alone
};

}  // namespace

WeightPtr make_scaled_weight(std::span<const WeightPart> parts, ParamStore& store) {
  return std::make_unique<ScaledWeight>(parts, store);
}

}  // namespace tachy::nn
