#include "nn/rounded_weight.h"

#include <algorithm>

#include "ops/quantize/quantize.h"
#include "weights/mapped_file.h"

namespace tachy::nn {
namespace {

constexpr int64_t kScaleRows = 256;  // rows in a piece of scales, which may have to be read completely
constexpr int64_t kValues =
    int64_t{1}  // The values that a thread reads and rounds at a time, so that they stay in its core's cache.
    << 16;

class Codes final : public DerivedTensor {
 public:
  explicit Codes(RoundedWeight rounded) : rounded_(std::move(rounded)) {}
  std::string_view encoding() const override { return "codes"; }
  bool makes(DType dtype) const override { return dtype == rounded_.dtype(); }
  void decode(int64_t first, const Tensor& rows) const override {
    std::vector<float> scales(static_cast<size_t>(rows.dim(0)));
    rounded_.codes(first, rows, Tensor(scales.data(), DType::f32, {rows.dim(0), 1}));
  }

 private:
  RoundedWeight rounded_;
};

class RoundedScales final : public DerivedTensor {
 public:
  RoundedScales(RoundedWeight rounded, int64_t base) : rounded_(std::move(rounded)), base_(base) {}
  std::string_view encoding() const override { return "scales"; }
  void decode(int64_t first, const Tensor& rows) const override { rounded_.scales(base_ + first, rows); }

 private:
  RoundedWeight rounded_;
  int64_t base_;  // index of its first row
};

// The stored 8-bit values if they need only a multiplication, or no change in a file without scales.
std::optional<StoredValues> stored_bytes(const WeightPart& from) {
  const Tensor& t = from.tensor;
  if (from.derived) {
    auto stored = from.derived->stored(t.dim(0), t.dim(1));
    return stored && !stored->type ? std::move(stored) : std::nullopt;
  }
  if (t.dtype != DType::f8_e4m3 && t.dtype != DType::f8_e5m2) return std::nullopt;
  return StoredValues{.bytes = t, .scales = {1}, .scale_rows = 1, .scale_pieces = 1};
}

bool quantize_reads(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace

// What one thread of the loading pool needs: a single-threaded place to run an op, memory for rows as they
// were read, and memory for the rows as float32.
struct RoundedWeight::Scratch {
  ThreadPool pool{1};
  Arena none{0};
  Stream stream{.arena = &none, .pool = &pool};
  std::unique_ptr<std::byte[]> read, wide;

  Scratch(int64_t read_bytes, int64_t wide_values)
      : read(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(read_bytes))),
        wide(std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(wide_values) * 4)) {}
};

RoundedWeight::RoundedWeight(const WeightPart& from, DType dtype)
    : from_(from),
      stored_(stored_bytes(from)),
      dtype_(dtype),
      known_(std::make_shared<std::vector<std::atomic<float>>>(static_cast<size_t>(from.tensor.dim(0)))) {}

int64_t RoundedWeight::rows_at_a_time() const { return (kValues + width() - 1) / width(); }

// Copies some rows into the scratch, in the form that quantize reads. They are copied from the file and not
// read from the mapping, because one page fault per page costs more than the rounding.
Tensor RoundedWeight::values(int64_t first, int64_t count, Scratch& scratch) const {
  const Tensor wide(scratch.wide.get(), DType::f32, {count, width()});
  const auto read = [&](const Tensor& file) {
    const Tensor rows = file.slice(0, first, first + count);
    copy_from_file(scratch.read.get(), rows.data, static_cast<size_t>(rows.bytes()));
    return Tensor(scratch.read.get(), file.dtype, {count, width()});
  };
  if (stored_) {
    const int64_t pieces = stored_->scale_pieces, scales = stored_->scale_rows == 1 ? 1 : count;
    const float* from = stored_->scales.data() + (stored_->scale_rows == 1 ? 0 : first * pieces);
    ops::dequantize({.q = read(stored_->bytes),
                     .block = {stored_->scale_rows == 1 ? 0 : 1, width() / pieces},
                     .scale = Tensor(const_cast<float*>(from), DType::f32, {scales, pieces}),
                     .y = wide},
                    scratch.stream);
    return wide;
  }
  if (from_.derived) {
    from_.derived->decode(first, wide);
    return wide;
  }
  if (quantize_reads(from_.tensor.dtype)) return read(from_.tensor);
  convert_weight(from_.tensor.slice(0, first, first + count), wide, scratch.pool);
  return wide;
}

void RoundedWeight::codes(int64_t first, const Tensor& q, const Tensor& scale) const {
  const int64_t count = q.dim(0), step = std::min(rows_at_a_time(), count);
  const bool raw = stored_ || (!from_.derived && quantize_reads(from_.tensor.dtype));
  const bool widened = stored_ || from_.derived || !quantize_reads(from_.tensor.dtype);
  const DType file = stored_ ? stored_->bytes.dtype : from_.tensor.dtype;
  Scratch scratch(raw ? step * width() * dtype_size(file) : 0, widened ? step * width() : 0);
  for (int64_t row = 0; row < count; row += step) {
    const int64_t some = std::min(step, count - row);
    ops::quantize({.x = values(first + row, some, scratch),
                   .block = {1, 0},
                   .scale = scale.slice(0, row, row + some),
                   .q = q.slice(0, row, row + some)},
                  scratch.stream);
  }
  for (int64_t i = 0; i < count; ++i)
    (*known_)[static_cast<size_t>(first + i)].store(scale.as<float>()[i], std::memory_order_relaxed);
}

// If the codes have not been made yet, they are made here to get their scales.
void RoundedWeight::scales(int64_t first, const Tensor& scale) const {
  const int64_t count = scale.dim(0);
  const auto known = [&](int64_t i) {
    return (*known_)[static_cast<size_t>(first + i)].load(std::memory_order_relaxed);
  };
  std::vector<uint8_t> unused;
  for (int64_t i = 0; i < count;) {
    scale.as<float>()[i] = known(i);
    int64_t end = i + 1;
    if (scale.as<float>()[i] == 0) {
      while (end < count && end - i < rows_at_a_time() && known(end) == 0) ++end;
      unused.resize(static_cast<size_t>((end - i) * width()));
      codes(first + i, Tensor(unused.data(), dtype_, {end - i, width()}), scale.slice(0, i, end));
    }
    i = end;
  }
}

void RoundedWeight::fill_codes(const Tensor& to, ParamStore& store) const {
  store.fill(to, {Tensor(nullptr, dtype_, {rows(), width()}), std::make_shared<Codes>(*this)});
}

void RoundedWeight::fill_scales(const Tensor& to, ParamStore& store) const {
  for (int64_t row = 0; row < rows(); row += kScaleRows) {
    const int64_t some = std::min(kScaleRows, rows() - row);
    store.fill(to.slice(0, row, row + some),
               {Tensor(nullptr, DType::f32, {some, 1}), std::make_shared<RoundedScales>(*this, row)});
  }
}

}  // namespace tachy::nn
