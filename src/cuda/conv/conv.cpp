// Packing and shapes of the GPU's convolutions.
#include "cuda/conv/conv.h"

#include <cstring>
#include <vector>

#include "cuda/gpu.h"

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

template <class T>
void pack_rows(int64_t rows, int64_t co, int64_t ci, int64_t taps,
               const std::function<void(int64_t, float*)>& weight, T (*narrow)(float), char* to,
               ThreadPool& pool) {
  const int64_t padded = conv_padded_ci(ci), k = conv_packed_k(ci, taps);
  pool.run(rows, [&](int64_t row, int) {
    std::vector<float> plain(static_cast<size_t>(ci * taps));
    weight(row, plain.data());
    std::vector<T> out(static_cast<size_t>(k), narrow(0.0f));
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = 0; c < ci; ++c)
        out[static_cast<size_t>(tap * (padded ? padded : ci) + c)] =
            narrow(plain[static_cast<size_t>(c * taps + tap)]);
    std::memcpy(to + row * k * static_cast<int64_t>(sizeof(T)), out.data(), out.size() * sizeof(T));
  });
}

}  // namespace

void conv_pack(DType dtype, int64_t phases, int64_t co, int64_t ci, int64_t taps,
               const std::function<void(int64_t, float*)>& weight, const Tensor& packed, Stream& stream) {
  std::vector<char> host(static_cast<size_t>(conv_packed_bytes(dtype, phases, co, ci, taps)));
  const int64_t rows = phases * co;
  switch (dtype) {
    case DType::f32:
      pack_rows<float>(
          rows, co, ci, taps, weight, [](float v) { return v; }, host.data(), *stream.pool);
      break;
    case DType::bf16:
      pack_rows<bf16_t>(rows, co, ci, taps, weight, to_bf16, host.data(), *stream.pool);
      break;
    case DType::f16:
      pack_rows<f16_t>(rows, co, ci, taps, weight, to_f16, host.data(), *stream.pool);
      break;
    default:
      fail(ErrorCode::unsupported, "convolution: expected weights as f32, f16 or bf16, got {}",
           dtype_name(dtype));
  }
  stream.gpu->upload(packed.data, host.data(), host.size());
}

}  // namespace tachy::cuda
