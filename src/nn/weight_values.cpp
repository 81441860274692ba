// Converts or decodes the values of a file's tensor into host memory.
#include <algorithm>

#include "base/stress.h"
#include "nn/params.h"
#include "ops/elementwise/elementwise.h"
#include "weights/mapped_file.h"

namespace tachy::nn {
namespace {

// The number of values of a file's tensor that are converted at a time.
constexpr int64_t kPieceValues = int64_t{4} << 20;

// The number of values of a derived tensor that a thread makes at a time.
constexpr int64_t kDecodeValues = int64_t{1} << 18;

template <class T, T (*Round)(float)>
void narrow(const float* from, int64_t count, void* to, ThreadPool& pool) {
  constexpr int64_t kStep = 1 << 16;
  auto* out = static_cast<T*>(to);
  pool.run((count + kStep - 1) / kStep, [&](int64_t tile, int) {
    stress_pause();
    for (int64_t i = tile * kStep, end = std::min(count, i + kStep); i < end; ++i) out[i] = Round(from[i]);
  });
}

}  // namespace

void convert_weight(const Tensor& source, const Tensor& to, ThreadPool& pool) {
  if (to.dtype == source.dtype) {
    constexpr size_t kStep = size_t{1} << 20;
    const auto bytes = static_cast<size_t>(to.bytes());
    return pool.run(static_cast<int64_t>((bytes + kStep - 1) / kStep), [&](int64_t tile, int) {
      const size_t begin = static_cast<size_t>(tile) * kStep;
      stress_pause();
      copy_from_file(static_cast<char*>(to.data) + begin, static_cast<const char*>(source.data) + begin,
                     std::min(kStep, bytes - begin));
    });
  }
  Arena none(0);
  Stream host{.arena = &none, .pool = &pool};
  const int64_t count = to.numel(), piece = std::min(count, kPieceValues);
  if (to.dtype == DType::f32) return ops::widen(source.view({-1}), to.view({-1}), host);
  const auto wide = std::make_unique_for_overwrite<float[]>(
      source.dtype != DType::f32 ? static_cast<size_t>(piece) : 0);  // values before they are narrowed
  for (int64_t begin = 0; begin < count; begin += piece) {
    const int64_t n = std::min(piece, count - begin);
    Tensor values = source.flat(begin, n);
    if (source.dtype != DType::f32) {
      values = Tensor(wide.get(), DType::f32, {n});
      ops::widen(source.flat(begin, n), values, host);
    }
    void* out = to.flat(begin, n).data;
    if (to.dtype == DType::bf16) narrow<bf16_t, to_bf16>(values.as<float>(), n, out, pool);
    if (to.dtype == DType::f16) narrow<f16_t, to_f16>(values.as<float>(), n, out, pool);
  }
}

void decode_weight(const WeightPart& weight, int64_t first, const Tensor& to, ThreadPool& pool) {
  const int64_t width = weight.tensor.numel() / std::max<int64_t>(weight.tensor.dim(0), 1);
  const int64_t count = to.numel(),
                step = std::max<int64_t>(kDecodeValues / std::max<int64_t>(width, 1), 1) * width;
  if (count == 0) return;
  pool.run((count + step - 1) / step, [&](int64_t tile, int) {
    const int64_t begin = tile * step;
    stress_pause();
    decode_values(*weight.derived, width, first * width + begin,
                  to.flat(begin, std::min(step, count - begin)));
  });
}

}  // namespace tachy::nn
