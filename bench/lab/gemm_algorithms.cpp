// Finds out whether cuBLASLt's first suggestion is the fastest at Wan's shapes, for y [M, N] = x
// [M, K]·wᵀ + bias in bf16. For each shape it takes the suggestions for three workspace limits (none, 32 and
// 64 MiB), with M unchanged and padded to whole tiles, with and without the GELU epilogue. Suggestions
// alternate (the clock drifts under load), and kernels are named.
//   gemm_algorithms [rounds] [MxNxK …]
#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
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

struct Api {
  decltype(cublasLtMatmul)* matmul = LT(Matmul);
  decltype(cublasLtMatmulDescCreate)* create_desc = LT(MatmulDescCreate);
  decltype(cublasLtMatmulDescSetAttribute)* set_desc = LT(MatmulDescSetAttribute);
  decltype(cublasLtMatrixLayoutCreate)* create_layout = LT(MatrixLayoutCreate);
  decltype(cublasLtMatmulPreferenceCreate)* create_preference = LT(MatmulPreferenceCreate);
  decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference = LT(MatmulPreferenceSetAttribute);
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic = LT(MatmulAlgoGetHeuristic);
  cublasLtHandle_t handle = nullptr;
};

void must(cublasStatus_t status, const char* what) {
  check(status == CUBLAS_STATUS_SUCCESS, ErrorCode::device, "{}: status {}", what, static_cast<int>(status));
}

struct Problem {
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  int64_t m;
  bool gelu;
};

struct Candidate {
  const Problem* problem;
  cublasLtMatmulAlgo_t algo;
  size_t workspace, limit;
  int rank;  // position in its list
  std::vector<double> times;
  double median() const { return times[times.size() / 2]; }
};

struct Lab {
  std::unique_ptr<cuda::Gpu> gpu = cuda::open_gpu();
  int rounds;

  Buffer filled(int64_t count, uint32_t seed, float size) {
    Buffer b(static_cast<size_t>(count) * 2, gpu.get());
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, size);
    std::vector<uint16_t> some(static_cast<size_t>(std::min<int64_t>(count, 1000003)));
    for (auto& v : some) v = to_bf16(normal(engine)).bits;
    for (size_t at = 0; at < static_cast<size_t>(count); at += some.size())
      gpu->upload(static_cast<uint16_t*>(b.data()) + at, some.data(),
                  std::min(some.size(), static_cast<size_t>(count) - at) * 2);
    return b;
  }

  void shape(const Api& api, int64_t m, int64_t n, int64_t k) {
    const int64_t padded = (m + 255) / 256 * 256;
    const Buffer x = filled(padded * k, 1, 1), w = filled(n * k, 2, 1 / std::sqrt(static_cast<float>(k)));
    const Buffer bias = filled(n, 3, 1), y(static_cast<size_t>(padded * n) * 2, gpu.get());
    constexpr size_t kMost = size_t{64} << 20;
    const Buffer workspace(kMost, gpu.get());
    std::vector<Problem> problems;
    problems.reserve(4);
    std::vector<Candidate> all;
    for (const int64_t rows : {m, padded})
      for (const bool gelu : {false, true}) {
        if (rows == padded && padded == m) continue;
        if (gelu && n < 2 * k) continue;  // only for the up projection
        Problem& p = problems.emplace_back();
        p.m = rows, p.gelu = gelu;
        must(api.create_desc(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "descriptor");
        const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
          must(api.set_desc(p.desc, what, &value, sizeof value), "descriptor");
        };
        set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, gelu ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
        void* bias_data = bias.data();
        set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_data);
        const auto layout = [&](cublasLtMatrixLayout_t& to, int64_t r, int64_t c) {
          must(api.create_layout(&to, CUDA_R_16BF, static_cast<uint64_t>(r), static_cast<uint64_t>(c), r),
               "layout");
        };
        layout(p.w, k, n), layout(p.x, k, rows), layout(p.y, n, rows);
        for (const size_t limit : {size_t{32} << 20, size_t{0}, kMost}) {
          cublasLtMatmulPreference_t preference = nullptr;
          must(api.create_preference(&preference), "preference");
          api.set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit);
          const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
          api.set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme);
          std::vector<cublasLtMatmulHeuristicResult_t> found(16);
          int count = 0;
          api.heuristic(api.handle, p.desc, p.w, p.x, p.y, p.y, preference, 16, found.data(), &count);
          if (rows == m) fmt::print("limit {} MiB: {} suggestions\n", limit >> 20, count);
          for (int i = 0; i < count; ++i) {
            if (found[static_cast<size_t>(i)].state != CUBLAS_STATUS_SUCCESS) continue;
            const auto& algo = found[static_cast<size_t>(i)].algo;
            const bool known = std::any_of(all.begin(), all.end(), [&](const Candidate& c) {
              return c.problem == &p && std::memcmp(&c.algo, &algo, sizeof algo) == 0 &&
                     c.workspace == found[static_cast<size_t>(i)].workspaceSize;
            });
            if (!known) all.push_back({&p, algo, found[static_cast<size_t>(i)].workspaceSize, limit, i, {}});
          }
        }
      }
    // Finds out whether the first suggestion also runs without the few bytes of workspace that it asks for.
    for (size_t i = 0, count = all.size(); i < count; ++i)
      if (all[i].rank == 0 && all[i].limit == size_t{32} << 20 && all[i].workspace > 0) {
        Candidate bare = all[i];
        bare.workspace = 0, bare.limit = 0;
        all.push_back(bare);
      }
    const auto run = [&](const Candidate& c) {
      const float one = 1, zero = 0;
      must(api.matmul(api.handle, c.problem->desc, &one, w.data(), c.problem->w, x.data(), c.problem->x,
                      &zero, y.data(), c.problem->y, y.data(), c.problem->y, &c.algo, workspace.data(),
                      c.workspace, static_cast<cudaStream_t>(gpu->stream())),
           "matmul");
    };
    std::erase_if(all, [&](const Candidate& c) {
      try {
        run(c);
        return false;
      } catch (const Error& error) {
        fmt::print("workspace {}: {}\n", c.workspace, error.message());
        return true;
      }
    });
    for (int r = 0; r < rounds; ++r)
      for (auto& c : all) c.times.push_back(cuda::device_us(*gpu, [&] { run(c); }));
    for (auto& c : all) std::sort(c.times.begin(), c.times.end());
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    for (const Problem& p : problems) {
      std::vector<const Candidate*> order;
      for (const auto& c : all)
        if (c.problem == &p) order.push_back(&c);
      if (order.empty()) continue;
      const Candidate* first = order.front();
      std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->median() < b->median(); });
      fmt::print("{}x{}x{}{}: {} candidates\n", p.m, n, k, p.gelu ? " gelu" : "", order.size());
      for (size_t i = 0; i < order.size(); ++i) {
        const Candidate& c = *order[i];
        if (i >= 2 && &c != first && c.limit > 0) continue;
        const auto graph = cuda::capture(*gpu, [&] { run(c); });
        std::string names;
        for (const auto& name : graph->names()) names += fmt::format(" {}", name.substr(0, 100));
        fmt::print(
            "  {} {:9.1f} us (min {:9.1f}) {:6.1f} TFLOP/s, limit {:2} MiB rank {:2}, workspace {:9}:{}\n",
            &c == first ? "first" : "     ", c.median(), c.times[0], flops / c.median() * 1e-6, c.limit >> 20,
            c.rank, c.workspace, names);
      }
    }
    std::fflush(stdout);
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Lab lab{.rounds = argc > 1 ? std::atoi(argv[1]) : 7};
    std::string why;
    check(cuda::CublasLt::of(*lab.gpu, why) != nullptr, ErrorCode::unsupported, "{}", why);
    Api api;
    must(symbol<decltype(cublasLtCreate)>("cublasLtCreate")(&api.handle), "cublasLtCreate");
    for (int i = 2; i < argc; ++i) {
      long m = 0, n = 0, k = 0;
      require(std::sscanf(argv[i], "%ldx%ldx%ld", &m, &n, &k) == 3, "expected MxNxK, got {}", argv[i]);
      lab.shape(api, m, n, k);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
