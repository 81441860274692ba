#include "nn/rounded_weight.h"

#include <algorithm>
#include <bit>

#include "ops/quantize/quantize.h"

namespace tachy::nn {
namespace {

constexpr int64_t kScaleRows = 256;  // of a piece of scales, whose making reads all of these rows

// A place to run an op from within the pool that loads: it has a thread of its own.
struct Alone {
  ThreadPool pool{1};
  Arena scratch{0};
  Stream stream{.arena = &scratch, .pool = &pool};
};

class Codes final : public DerivedTensor {
 public:
  explicit Codes(RoundedWeight rounded) : rounded_(std::move(rounded)) {}
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
  RoundedWeight rounded_;
};

class Scales final : public DerivedTensor {
 public:
  Scales(RoundedWeight rounded, int64_t base) : rounded_(std::move(rounded)), base_(base) {}
  std::string_view encoding() const override { return "scales"; }
  void decode(int64_t first, const Tensor& rows) const override { rounded_.scales(base_ + first, rows); }

 private:
  RoundedWeight rounded_;
  int64_t base_;  // the first of its rows
};

}  // namespace

RoundedWeight::RoundedWeight(const WeightPart& from, DType dtype)
    : from_(from),
      dtype_(dtype),
      known_(std::make_shared<std::vector<std::atomic<float>>>(static_cast<size_t>(from.tensor.dim(0)))) {}

// Some rows at a time, so that they stay in a core's cache: body(values, from row `first` on).
template <class Body>
void RoundedWeight::values(int64_t first, int64_t count, ThreadPool& alone, Body&& body) const {
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

void RoundedWeight::codes(int64_t first, const Tensor& q, const Tensor& scale) const {
  Alone alone;
  values(first, q.dim(0), alone.pool, [&](const Tensor& x, int64_t row) {
    const int64_t end = row + x.dim(0);
    ops::quantize({.x = x, .block = {1, 0}, .scale = scale.slice(0, row, end), .q = q.slice(0, row, end)},
                  alone.stream);
  });
  for (int64_t i = 0; i < scale.dim(0); ++i)
    (*known_)[static_cast<size_t>(first + i)].store(scale.as<float>()[i], std::memory_order_relaxed);
}

// What quantize makes of a row's largest value.
void RoundedWeight::scales(int64_t first, const Tensor& scale) const {
  bool all = true;
  for (int64_t i = 0; i < scale.dim(0); ++i) {
    scale.as<float>()[i] = (*known_)[static_cast<size_t>(first + i)].load(std::memory_order_relaxed);
    all = all && scale.as<float>()[i] != 0;
  }
  if (all) return;
  Alone alone;
  values(first, scale.dim(0), alone.pool, [&](const Tensor& x, int64_t row) {
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
                    alone.stream);
    }
  });
}

void RoundedWeight::fill_codes(const Tensor& to, ParamStore& store) const {
  store.fill(to, {Tensor(nullptr, dtype_, {rows(), width()}), std::make_shared<Codes>(*this)});
}

void RoundedWeight::fill_scales(const Tensor& to, ParamStore& store) const {
  for (int64_t row = 0; row < rows(); row += kScaleRows) {
    const int64_t some = std::min(kScaleRows, rows() - row);
    store.fill(to.slice(0, row, row + some),
               {Tensor(nullptr, DType::f32, {some, 1}), std::make_shared<Scales>(*this, row)});
  }
}

}  // namespace tachy::nn
