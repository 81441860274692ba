// Packing and shapes of the GPU's convolutions.
#include "cuda/conv/conv.h"

#include <algorithm>
#include <memory>

#include "cuda/gpu.h"
#include "tensor/upload_rows.h"

namespace tachy::cuda {
namespace {

// A tile has 512 positions, with which a small picture does not fill a GPU: 60x104 positions of 384 channels take 109 µs
// where "sm90" takes 77. The height does not count, because frames may be divided among GPUs by rows, whose bits must
// not depend on it.
constexpr int64_t kWinogradWidth = 112;

}  // namespace

int64_t conv_padded_ci(int64_t ci) { return ci % 8 == 0 ? (ci + 31) / 32 * 32 : 0; }

int64_t conv_packed_k(int64_t ci, int64_t taps) {
  const int64_t padded = conv_padded_ci(ci);
  return padded ? taps * padded : (taps * ci + 31) / 32 * 32;
}

int64_t conv_packed_bytes(DType dtype, int64_t phases, int64_t co, int64_t ci, int64_t taps) {
  return phases * co * conv_packed_k(ci, taps) * dtype_size(dtype);
}

bool conv_winograd_packs(const Gpu& gpu, DType dtype, int64_t co, int64_t ci) {
  return gpu.info().major == 9 && dtype == DType::bf16 && ci % 32 == 0 && co % 8 == 0 && co >= 64;
}

bool conv_winograd_is_first(const Gpu& gpu, DType dtype, int64_t co, int64_t ci, int64_t width) {
  return conv_winograd_packs(gpu, dtype, co, ci) && width >= kWinogradWidth;
}

bool conv_winograd_normalises(int64_t co) { return co <= 96; }

ConvProblem conv_problem(const Tensor& x, const Tensor& y, int64_t phases) {
  ConvProblem problem{.x = x, .y = y};
  device::ConvShape& s = problem.shape;
  const auto narrow = [](int64_t v) {
    check(v <= 0x7fffffff, ErrorCode::unsupported, "convolution: a size of {} is too large", v);
    return static_cast<int>(v);
  };
  const int64_t side = phases == 4 ? 2 : 1;
  s.in_height = narrow(x.dim(1)), s.in_width = narrow(x.dim(2)), s.ci = narrow(x.dim(3));
  s.frames = narrow(y.dim(0)), s.height = narrow(y.dim(1) / side), s.width = narrow(y.dim(2) / side);
  s.co = narrow(y.dim(3)), s.phases = narrow(phases);
  s.kernel_t = s.kernel_h = s.kernel_w = s.stride = s.time_stride = 1;
  s.y_frame = y.stride(0), s.y_row = side * y.stride(1), s.y_column = side * y.stride(2);
  s.y_phase_row = y.stride(1), s.y_phase_column = y.stride(2);
  return problem;
}

namespace {

float same(float v) { return v; }

template <class T, T (*kNarrow)(float)>
void pack(int64_t rows, int64_t ci, int64_t taps, const std::function<void(int64_t, float*)>& weight,
          const Tensor& packed, Stream& stream) {
  const int64_t padded = conv_padded_ci(ci), k = conv_packed_k(ci, taps), step = padded ? padded : ci;
  const auto make = [&](int64_t first, int64_t count, void* out) {
    const auto values = static_cast<size_t>(ci * taps);
    const auto plain = std::make_unique_for_overwrite<float[]>(values);
    const auto narrowed = std::make_unique_for_overwrite<T[]>(values);
    for (int64_t i = 0; i < count; ++i) {
      weight(first + i, plain.get());
      std::transform(plain.get(), plain.get() + values, narrowed.get(), [](float v) { return kNarrow(v); });
      T* const row = static_cast<T*>(out) + i * k;
      if (k > ci * taps) std::fill_n(row, k, kNarrow(0.0f));
      gather_taps(narrowed.get(), ci, taps, step, row);
    }
  };
  upload_rows(*stream.gpu, packed.data, rows, static_cast<size_t>(k) * sizeof(T), make, *stream.pool);
}

}  // namespace

void conv_pack(DType dtype, int64_t phases, int64_t co, int64_t ci, int64_t taps,
               const std::function<void(int64_t, float*)>& weight, const Tensor& packed, Stream& stream) {
  const int64_t rows = phases * co;
  switch (dtype) {
    case DType::f32:
      return pack<float, same>(rows, ci, taps, weight, packed, stream);
    case DType::bf16:
      return pack<bf16_t, to_bf16>(rows, ci, taps, weight, packed, stream);
    case DType::f16:
      return pack<f16_t, to_f16>(rows, ci, taps, weight, packed, stream);
    default:
      fail(ErrorCode::unsupported, "convolution: expected weights as f32, f16 or bf16, got {}",
           dtype_name(dtype));
  }
}

}  // namespace tachy::cuda
