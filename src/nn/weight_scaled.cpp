// A weight in 8 bits with a scale a row; each product rounds its x in the same way, a scale a row. Codes and
// scales are made on the host, row by row, while the file is read, so that they take their places like any
// other weight: uploaded, or streamed with their block. On a CPU int8 codes are kept in the order in which its
// products read them, and in no other.
//
// Codes and scales are two tensors, which take their places one after the other. Both need every value of a row, so
// the scales that were made beside the codes are kept until they are asked for: 4 bytes a row in place of a second
// look at the file, or a second decoding.
#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>

#include "nn/weight_form.h"
#include "ops/quantize/quantize.h"
#include "ops/scaled_gemm/scaled_gemm.h"

namespace tachy::nn {
namespace {

DType codes_of(Products products) { return products == Products::int8 ? DType::i8 : DType::f8_e4m3; }

constexpr int64_t kScaleRows = 256;  // of a piece of scales, whose making reads all of these rows

// The scales of a weight's rows as far as they are known, from any thread.
class KnownScales {
 public:
  explicit KnownScales(int64_t rows) : at_(static_cast<size_t>(rows)) {}

  void note(int64_t first, const Tensor& scale) {
    for (int64_t i = 0; i < scale.dim(0); ++i)
      at_[static_cast<size_t>(first + i)].store(scale.as<float>()[i], std::memory_order_relaxed);
  }
  // False where one of them is not known yet.
  bool read(int64_t first, const Tensor& scale) const {
    for (int64_t i = 0; i < scale.dim(0); ++i) {
      const float known = at_[static_cast<size_t>(first + i)].load(std::memory_order_relaxed);
      if (known == 0) return false;  // which no scale is
      scale.as<float>()[i] = known;
    }
    return true;
  }

 private:
  std::vector<std::atomic<float>> at_;
};

// Rows of a weight as codes and their scales. Nested in the pool that loads, so it has a thread of its own.
class Rounded {
 public:
  Rounded(const WeightPart& from, DType dtype)
      : from_(from), dtype_(dtype), known_(std::make_shared<KnownScales>(from.tensor.dim(0))) {}
  int64_t width() const { return from_.tensor.dim(1); }
  DType dtype() const { return dtype_; }

  // Some rows at a time, so that they stay in a core's cache: body(values, from row `first` on).
  template <class Body>
  void values(int64_t first, int64_t count, ThreadPool& alone, Body&& body) const {
    const int64_t step = std::clamp<int64_t>((int64_t{1} << 16) / width(), 1, count);
    const auto wide = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(step * width()));
    for (int64_t row = 0; row < count; row += step) {
      const int64_t some = std::min(step, count - row);
      const Tensor values(wide.get(), DType::f32, {some, width()});
      if (from_.derived)
        from_.derived->decode(first + row, values);
      else
        convert_weight(from_.tensor.slice(0, first + row, first + row + some), values, alone);
      body(values, row);
    }
  }

  // q [count, width] of dtype() and scale [count, 1] f32, on the host.
  void codes(int64_t first, const Tensor& q, const Tensor& scale) const {
    ThreadPool alone(1);
    Arena scratch(0);
    Stream host{.arena = &scratch, .pool = &alone};
    values(first, q.dim(0), alone, [&](const Tensor& x, int64_t row) {
      const int64_t end = row + x.dim(0);
      ops::quantize({.x = x, .block = {1, 0}, .scale = scale.slice(0, row, end), .q = q.slice(0, row, end)},
                    host);
    });
    known_->note(first, scale);
  }

  // scale [count, 1] f32, on the host: what quantize makes of a row's largest value.
  void scales(int64_t first, const Tensor& scale) const {
    if (known_->read(first, scale)) return;
    ThreadPool alone(1);
    Arena scratch(0);
    Stream host{.arena = &scratch, .pool = &alone};
    values(first, scale.dim(0), alone, [&](const Tensor& x, int64_t row) {
      for (int64_t i = 0; i < x.dim(0); ++i) {
        const float* from = x.as<float>() + i * width();
        uint32_t bits = 0;  // of |x|, which as integers order like |x|, NaN above all
        for (int64_t j = 0; j < width(); ++j)
          bits = std::max(bits, std::bit_cast<uint32_t>(from[j]) & 0x7fffffffu);
        auto largest = std::bit_cast<float>(bits);
        uint8_t code = 0;
        ops::quantize({.x = Tensor(&largest, DType::f32, {1, 1}),
                       .block = {1, 0},
                       .scale = scale.slice(0, row + i, row + i + 1),
                       .q = Tensor(&code, dtype_, {1, 1})},
                      host);
      }
    });
  }

 private:
  WeightPart from_;
  DType dtype_;
  std::shared_ptr<KnownScales> known_;  // of all copies of this
};

class Codes final : public DerivedTensor {
 public:
  explicit Codes(Rounded rounded) : rounded_(std::move(rounded)) {}
  std::string_view encoding() const override { return "codes"; }
  void decode(int64_t first, const Tensor& rows) const override {
    const int64_t count = rows.dim(0), width = rounded_.width();
    std::vector<uint8_t> codes(static_cast<size_t>(count * width));
    std::vector<float> scales(static_cast<size_t>(count));
    rounded_.codes(first, Tensor(codes.data(), rounded_.dtype(), {count, width}),
                   Tensor(scales.data(), DType::f32, {count, 1}));
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
  Scales(Rounded rounded, int64_t base) : rounded_(std::move(rounded)), base_(base) {}
  std::string_view encoding() const override { return "scales"; }
  void decode(int64_t first, const Tensor& rows) const override { rounded_.scales(base_ + first, rows); }

 private:
  Rounded rounded_;
  int64_t base_;  // the first of its rows
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
      const Rounded rounded(part, dtype_);
      store.fill(codes_.slice(0, first, end),
                 {Tensor(nullptr, dtype_, {end - first, in}), std::make_shared<Codes>(rounded)});
      for (int64_t row = 0; row < end - first; row += kScaleRows) {
        const int64_t some = std::min(kScaleRows, end - first - row);
        store.fill(scales_.slice(0, first + row, first + row + some),
                   {Tensor(nullptr, DType::f32, {some, 1}), std::make_shared<Scales>(rounded, row)});
      }
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
        rounded.codes(begin, all.slice(0, first + begin, first + end),
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
