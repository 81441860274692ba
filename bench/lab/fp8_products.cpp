// Finds out which 8-bit products cuBLASLt really runs, and how fast: y [M, N] = x [M, K]·wᵀ at Wan's shapes
// in bf16; in e4m3 with one scale per row of x and per channel of w (outer vectors), with one scale per 128
// values of x and 128 x 128 of w, and with one scale for each matrix; and in int8 with int32 results. Each is
// also tried with a bias, GELU, a second addend, and fast accumulation on and off. Each product is run,
// because a refusal may appear only in the call. The error is that of 64 sampled outputs against sums in
// double of the same 8-bit values.
//   fp8_products [rounds] [MxNxK …]
#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "cuda/graph.h"
#include "cuda/vendor/cublaslt.h"
#include "tensor/memory.h"

using namespace tachy;

namespace {

template <class F>
F* symbol(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  check(found != nullptr, ErrorCode::unsupported, "no {}", name);
  return reinterpret_cast<F*>(found);
}
#define LT(name) symbol<decltype(cublasLt##name)>("cublasLt" #name)

void must(cublasStatus_t status, const char* what) {
  check(status == CUBLAS_STATUS_SUCCESS, ErrorCode::device, "{}: status {}", what, static_cast<int>(status));
}

enum class Scales { none, scalars, outer, blocks };

struct Way {
  const char* name;
  cudaDataType in;
  Scales scales;
  bool bias = false, gelu = false, addend = false, fast = false;
};

constexpr Way kWays[] = {
    {"bf16", CUDA_R_16BF, Scales::none, true},
    {"e4m3, scalars", CUDA_R_8F_E4M3, Scales::scalars, true, false, false, true},
    {"e4m3, scalars, exact", CUDA_R_8F_E4M3, Scales::scalars, true},
    {"e4m3, outer", CUDA_R_8F_E4M3, Scales::outer, false, false, false, true},
    {"e4m3, outer, bias", CUDA_R_8F_E4M3, Scales::outer, true, false, false, true},
    {"e4m3, outer, bias, exact", CUDA_R_8F_E4M3, Scales::outer, true},
    {"e4m3, outer, bias, gelu", CUDA_R_8F_E4M3, Scales::outer, true, true, false, true},
    {"e4m3, outer, addend", CUDA_R_8F_E4M3, Scales::outer, false, false, true, true},
    {"e4m3, outer, addend, bias, gelu", CUDA_R_8F_E4M3, Scales::outer, true, true, true, true},
    {"e4m3, 1x128 by 128x128", CUDA_R_8F_E4M3, Scales::blocks, true, false, false, true},
    {"e4m3, 1x128 by 128x128, exact", CUDA_R_8F_E4M3, Scales::blocks, true},
    {"int8 to int32", CUDA_R_8I, Scales::none},
};

// The value of an e4m3 byte, in double.
double e4m3(uint8_t byte) {
  const int exponent = byte >> 3 & 15, rest = byte & 7;
  const double size = exponent == 0 ? std::ldexp(rest, -9) : std::ldexp(8 + rest, exponent - 10);
  return byte & 128 ? -size : size;
}

struct Lab {
  std::unique_ptr<cuda::Gpu> gpu = cuda::open_gpu();
  int rounds;
  cublasLtHandle_t handle = nullptr;
  std::mt19937 engine{7};

  template <class T>
  Buffer uploaded(const std::vector<T>& values) {
    Buffer b(values.size() * sizeof(T), gpu.get());
    gpu->upload(b.data(), values.data(), values.size() * sizeof(T));
    return b;
  }

  // Normal values of the type, as their bits: the largest ones of e4m3 and int8 are near
  // the ends of their ranges.
  template <class T>
  std::vector<T> values(int64_t count, cudaDataType type) {
    std::normal_distribution<float> normal;
    std::vector<T> some(1000003), out(static_cast<size_t>(count));
    for (auto& v : some) {
      const float x = normal(engine);
      if (type == CUDA_R_16BF) {
        v = static_cast<T>(to_bf16(x).bits);
      } else if (type == CUDA_R_8I) {
        v = static_cast<T>(static_cast<int8_t>(std::clamp(std::lround(x * 30), -127L, 127L)));
      } else {
        int exponent = 0;
        const float scaled = std::clamp(std::abs(x) * 100, 0.02F, 440.F);
        const float fraction = std::frexp(scaled, &exponent);  // [0.5, 1)
        const int rest = std::min(7, static_cast<int>(fraction * 16) - 8);
        v = static_cast<T>((x < 0 ? 128 : 0) | std::clamp(exponent - 1 + 7, 1, 15) << 3 |
                           (exponent + 6 == 15 ? std::min(rest, 6) : rest));
      }
    }
    for (size_t i = 0; i < out.size(); ++i) out[i] = some[i % some.size()];
    return out;
  }

  struct Operands {
    std::vector<uint8_t> x, w;
    Buffer gpu_x, gpu_w;
  };

  void way(const Way& how, int64_t m, int64_t n, int64_t k, const Operands& operands, const Buffer& scales,
           const Buffer& bias, const Buffer& addend, const Buffer& y, const Buffer& workspace) {
    cublasLtMatmulDesc_t desc = nullptr;
    const bool integers = how.in == CUDA_R_8I;
    const cudaDataType out = integers ? CUDA_R_32I : CUDA_R_16BF;
    must(LT(MatmulDescCreate)(&desc, integers ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F,
                              integers ? CUDA_R_32I : CUDA_R_32F),
         "descriptor");
    std::string refused;
    const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value, const char* name) {
      const auto status = LT(MatmulDescSetAttribute)(desc, what, &value, sizeof value);
      if (status != CUBLAS_STATUS_SUCCESS)
        refused += fmt::format(" {} (status {})", name, static_cast<int>(status));
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T, "transposition");
    if (how.bias || how.gelu) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, how.gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS,
          "epilogue");
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF, "bias type");
      void* data = bias.data();
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data, "bias");
    }
    if (how.fast) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1}, "fast accumulation");
    if (how.scales != Scales::none) {
      void* data = scales.data();
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, data, "scales of w");
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, data, "scales of x");
      if (how.scales != Scales::scalars) {
        const bool outer = how.scales == Scales::outer;
        set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
            outer ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
            "mode of w");
        set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
            outer ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
            "mode of x");
      }
    }
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, d = nullptr;
    const auto layout = [&](cublasLtMatrixLayout_t& to, cudaDataType type, int64_t r, int64_t c) {
      must(LT(MatrixLayoutCreate)(&to, type, static_cast<uint64_t>(r), static_cast<uint64_t>(c), r),
           "layout");
    };
    layout(w, how.in, k, n), layout(x, how.in, k, m), layout(d, out, n, m);
    cublasLtMatmulPreference_t preference = nullptr;
    must(LT(MatmulPreferenceCreate)(&preference), "preference");
    const size_t limit = size_t{32} << 20;
    LT(MatmulPreferenceSetAttribute)
    (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit);
    std::vector<cublasLtMatmulHeuristicResult_t> found(8);
    int count = 0;
    const auto status =
        LT(MatmulAlgoGetHeuristic)(handle, desc, w, x, d, d, preference, 8, found.data(), &count);
    std::string line = fmt::format("  {:34}", how.name);
    if (!refused.empty()) line += " refused attributes:" + refused;
    if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
      fmt::print("{} no suggestion (status {})\n", line, static_cast<int>(status));
      return;
    }
    std::string failures;
    double best = 1e30;
    int best_rank = -1;
    std::string kernel;
    for (int i = 0; i < count; ++i) {
      const float one = 1, zero = 0;
      const int32_t whole_one = 1, whole_zero = 0;
      const auto run = [&] {
        return LT(Matmul)(handle, desc, integers ? static_cast<const void*>(&whole_one) : &one,
                          operands.gpu_w.data(), w, operands.gpu_x.data(), x,
                          integers     ? static_cast<const void*>(&whole_zero)
                          : how.addend ? &one
                                       : &zero,
                          how.addend ? addend.data() : y.data(), d, y.data(), d,
                          &found[static_cast<size_t>(i)].algo, workspace.data(),
                          found[static_cast<size_t>(i)].workspaceSize,
                          static_cast<cudaStream_t>(gpu->stream()));
      };
      if (const auto failed = run(); failed != CUBLAS_STATUS_SUCCESS) {
        failures += fmt::format(" {}:{}", i, static_cast<int>(failed));
        continue;
      }
      std::vector<double> times;
      for (int r = 0; r < rounds; ++r) times.push_back(cuda::device_us(*gpu, [&] { run(); }));
      std::sort(times.begin(), times.end());
      if (times[times.size() / 2] >= best) continue;
      best = times[times.size() / 2], best_rank = i;
      const auto graph = cuda::capture(*gpu, [&] { run(); });
      kernel = graph->names().empty() ? "" : graph->names().back().substr(0, 110);
    }
    if (best_rank < 0) {
      fmt::print("{} every call refused:{}\n", line, failures);
      return;
    }
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    fmt::print("{} {:8.1f} us {:6.0f} TFLOP/s, rank {} of {}{}{}; {}", line, best, flops / best * 1e-6,
               best_rank, count, failures.empty() ? "" : ", refused:", failures, kernel);
    if (how.in == CUDA_R_8F_E4M3 && !how.bias && !how.addend)
      fmt::print("; error {:.2e}", error(m, n, k, operands, y));
    if (how.in == CUDA_R_8F_E4M3 && how.bias && !how.gelu && !how.addend)
      fmt::print("; error {:.2e} (bias 0)", error(m, n, k, operands, y));
    fmt::print("\n");
    std::fflush(stdout);
  }

  // Relative root-mean-square error of sampled outputs of the last call, in which all scales are 1/1024 (a
  // product's is 2^-20) and the bias is 0.
  double error(int64_t m, int64_t n, int64_t k, const Operands& operands, const Buffer& y) {
    double wrong = 0, size = 0;
    std::mt19937 sample(3);
    for (int s = 0; s < 64; ++s) {
      const int64_t row = sample() % static_cast<uint64_t>(m), column = sample() % static_cast<uint64_t>(n);
      double want = 0;
      for (int64_t i = 0; i < k; ++i)
        want += e4m3(operands.x[static_cast<size_t>(row * k + i)]) *
                e4m3(operands.w[static_cast<size_t>(column * k + i)]);
      want = std::ldexp(want, -20);
      uint16_t bits = 0;
      gpu->download(&bits, static_cast<const uint16_t*>(y.data()) + row * n + column, 2);
      const double got = to_float(bf16_t{bits});
      wrong += (got - want) * (got - want), size += want * want;
    }
    return std::sqrt(wrong / size);
  }

  void shape(int64_t m, int64_t n, int64_t k) {
    fmt::print("{}x{}x{}\n", m, n, k);
    const Buffer scales =
        uploaded(std::vector<float>(static_cast<size_t>(std::max(m, n) * ((k + 127) / 128)), 1.F / 1024));
    const Buffer bias = uploaded(std::vector<uint16_t>(static_cast<size_t>(n), 0)),
                 workspace(size_t{32} << 20, gpu.get());
    const Buffer addend = uploaded(std::vector<uint16_t>(static_cast<size_t>(m * n), 0)),
                 y(static_cast<size_t>(m * n) * 4, gpu.get());
    cudaDataType last = CUDA_R_32F;
    Operands operands;
    for (const Way& how : kWays) {
      if (how.in != last) {
        operands = {};
        if (how.in == CUDA_R_16BF) {
          operands.gpu_x = uploaded(values<uint16_t>(m * k, how.in)),
          operands.gpu_w = uploaded(values<uint16_t>(n * k, how.in));
        } else {
          operands.x = values<uint8_t>(m * k, how.in), operands.w = values<uint8_t>(n * k, how.in);
          operands.gpu_x = uploaded(operands.x), operands.gpu_w = uploaded(operands.w);
        }
        last = how.in;
      }
      way(how, m, n, k, operands, scales, bias, addend, y, workspace);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Lab lab{.rounds = argc > 1 ? std::atoi(argv[1]) : 5};
    std::string why;
    check(cuda::CublasLt::of(*lab.gpu, why) != nullptr, ErrorCode::unsupported, "{}", why);
    must(LT(Create)(&lab.handle), "cublasLtCreate");
    for (int i = 2; i < argc; ++i) {
      long m = 0, n = 0, k = 0;
      require(std::sscanf(argv[i], "%ldx%ldx%ld", &m, &n, &k) == 3, "expected MxNxK, got {}", argv[i]);
      lab.shape(m, n, k);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
