// Row-major y = x·wᵀ is, to a library that counts columns first, yᵀ = w·xᵀ: its A is w, its B is x, and the
// bias of y's columns is its bias of rows. Reductions of split products are restricted to float32 ones in
// order, so that a result repeats itself to the bit.
#include "cuda/cublaslt.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "cuda/algorithm_cache.h"
#include "cuda/cublaslt_api.h"
#include "cuda/current_device.h"
#include "cuda/gpu_facts.h"
#include "cuda/graph.h"
#include "cuda/matmul_trials.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

namespace {

constexpr size_t kMostWorkspace = kMatmulWorkspaceBytes;
constexpr int kCandidates = 8, kRounds = 7;
constexpr double kGain = 0.97;  // times vary by as much from run to run

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmWords));

cudaDataType_t cuda_type(DType type) {
  return type == DType::bf16 ? CUDA_R_16BF : type == DType::f16 ? CUDA_R_16F : CUDA_R_32F;
}

struct Plan final : MatmulPlan {
  const CublasLtApi* api = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algo{};
  bool bias = false;
  ~Plan() override {
    if (desc) api->destroy_desc(desc);
    for (auto* layout : {w, x, y, c})
      if (layout) api->destroy_layout(layout);
  }
};

std::string key_of(const MatmulShape& s) {
  return fmt::format("{}x{}x{} rows {} {} {} {} {} {}{}{}{}{} a{}", s.m, s.n, s.k, s.x_row, s.w_row, s.y_row,
                     s.c ? s.c_row : 0, dtype_name(s.type), dtype_name(s.out), s.w_is_nk ? " nk" : " kn",
                     s.bias ? " bias" : "", s.gelu ? " gelu" : "", s.c ? " c" : "", s.alignment);
}

void describe(Plan& p, const MatmulShape& s) {
  const CublasLtApi& api = *p.api;
  api.check(api.create_desc(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "descriptor");
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    api.check(api.set_desc(p.desc, attribute, &value, sizeof value), "descriptor");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, s.w_is_nk ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  p.bias = s.bias;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, s.gelu ? (s.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU)
                                     : s.bias ? CUBLASLT_EPILOGUE_BIAS
                                              : CUBLASLT_EPILOGUE_DEFAULT);
  if (s.bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(s.out));
    // Only its alignment counts yet: of what is suggested for a better one, the library refuses to run some.
    const void* somewhere =
        reinterpret_cast<const void*>(uintptr_t{256} + static_cast<unsigned>(s.alignment % 16));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
  }
  const auto layout = [&](cublasLtMatrixLayout_t& to, DType type, int64_t rows, int64_t columns, int64_t ld) {
    api.check(api.create_layout(&to, cuda_type(type), static_cast<uint64_t>(rows),
                                static_cast<uint64_t>(columns), std::max(ld, rows)),
              "layout");
  };
  s.w_is_nk ? layout(p.w, s.type, s.k, s.n, s.w_row) : layout(p.w, s.type, s.n, s.k, s.w_row);
  layout(p.x, s.type, s.k, s.m, s.x_row), layout(p.y, s.out, s.n, s.m, s.y_row);
  layout(p.c, s.out, s.n, s.m, s.c ? s.c_row : s.y_row);
}

std::vector<cublasLtMatmulHeuristicResult_t> candidates(const CublasLtApi& api, cublasLtHandle_t handle,
                                                        const Plan& p, const MatmulShape& s) {
  cublasLtMatmulPreference_t preference = nullptr;
  api.check(api.create_preference(&preference), "preference");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    api.set_preference(preference, attribute, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  const auto alignment = static_cast<uint32_t>(s.alignment);
  for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(which, alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> results(kCandidates);
  int count = 0;
  const cublasStatus_t status =
      api.heuristic(handle, p.desc, p.w, p.x, p.c, p.y, preference, kCandidates, results.data(), &count);
  api.destroy_preference(preference);
  results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(count) : 0);
  std::erase_if(results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
  return results;
}

}  // namespace

struct CublasLt::State {
  CublasLtApi api;
  Gpu* gpu = nullptr;
  cublasLtHandle_t handle = nullptr;
  std::string why;
  std::unique_ptr<AlgorithmCache> chosen;
  std::unordered_map<std::string, Plan> plans;

  bool capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(static_cast<cudaStream_t>(gpu->stream()), &status);
    return status != cudaStreamCaptureStatusNone;
  }

  cublasStatus_t try_run(const Plan& p, const MatmulTensors& t, float alpha, float beta) {
    if (p.bias)
      api.check(api.set_desc(p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &t.bias, sizeof t.bias), "bias");
    return api.matmul(handle, p.desc, &alpha, t.w, p.w, t.x, p.x, &beta, t.c ? t.c : t.y, p.c, t.y, p.y,
                      &p.algo, t.workspace, p.workspace_bytes, static_cast<cudaStream_t>(gpu->stream()));
  }
  void run(const Plan& p, const MatmulTensors& t, float alpha, float beta) {
    api.check(try_run(p, t, alpha, beta), "matmul");
  }

  // For tensors that are not 16-byte aligned the library suggests products that it then refuses to run: those
  // are tried first. Such products are small.
  void leave_what_runs(Plan& p, const MatmulShape& s, std::vector<cublasLtMatmulHeuristicResult_t>& all) {
    try {
      const Trials trials(*gpu, s);
      std::erase_if(all, [&](const auto& candidate) {
        p.algo = candidate.algo, p.workspace_bytes = candidate.workspaceSize;
        return try_run(p, trials.tensors, 1, s.c ? 1 : 0) == CUBLAS_STATUS_NOT_SUPPORTED;
      });
      gpu->synchronize();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
    }
  }

  // The index of the fastest candidate.
  size_t measure(Plan& p, const MatmulShape& s, const std::vector<cublasLtMatmulHeuristicResult_t>& all) {
    const Trials trials(*gpu, s);
    std::vector<std::vector<double>> times(all.size());
    for (int round = 0; round <= kRounds; ++round)
      for (size_t i = 0; i < all.size(); ++i) {  // in turn: the clock drifts under load
        p.algo = all[i].algo, p.workspace_bytes = all[i].workspaceSize;
        const double us = device_us(*gpu, [&] { run(p, trials.tensors, 1, s.c ? 1 : 0); });
        if (round > 0) times[i].push_back(us);
      }
    const auto median = [&](size_t i) {
      std::sort(times[i].begin(), times[i].end());
      return times[i][kRounds / 2];
    };
    // The library's first suggestion stays unless another one is clearly faster.
    size_t pick = 0;
    const double first = median(0);
    double best = kGain * first;
    for (size_t i = 1; i < all.size(); ++i)
      if (const double us = median(i); us < best) pick = i, best = us;
    log_topic("dispatch", "gemm {}: candidate {} of {} takes {:.1f} us, the first one {:.1f}", key_of(s),
              pick, all.size(), times[pick][kRounds / 2], first);
    return pick;
  }

  void choose(Plan& p, const MatmulShape& s) {
    const std::string key = key_of(s);
    if (const auto* words = chosen->find(key)) {
      cublasLtMatmulHeuristicResult_t result{};
      cublasLtMatmulAlgo_t algo;
      std::copy(words->begin(), words->end(), algo.data);
      if (api.check_algorithm(handle, p.desc, p.w, p.x, p.c, p.y, &algo, &result) == CUBLAS_STATUS_SUCCESS &&
          result.state == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kMostWorkspace) {
        p.algo = algo, p.workspace_bytes = result.workspaceSize, p.algorithm = "kept";
        return;
      }
    }
    auto all = candidates(api, handle, p, s);
    if (s.alignment < 16 && !capturing()) leave_what_runs(p, s, all);
    if (all.empty()) {
      p.why = fmt::format("cuBLASLt has no algorithm for {}", key);
      return;
    }
    size_t pick = 0;
    p.algorithm = "suggested";
    static const bool tune = env_string("TACHY_TUNE", "").find("gemm") != std::string::npos;
    if (tune && all.size() > 1 && !capturing()) {
      try {
        pick = measure(p, s, all), p.algorithm = "measured";
        AlgorithmWords words;
        std::copy(std::begin(all[pick].algo.data), std::end(all[pick].algo.data), words.begin());
        chosen->keep(key, words);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::out_of_memory) throw;
        log_topic("dispatch", "gemm {}: not measured: {}", key, error.message());
        pick = 0, p.algorithm = "suggested";
      }
    }
    p.algo = all[pick].algo, p.workspace_bytes = all[pick].workspaceSize;
  }
};

CublasLt::CublasLt() : state_(std::make_unique<State>()) {}
CublasLt::~CublasLt() {
  state_->plans.clear();
  if (state_->handle) state_->api.destroy(state_->handle);
}
size_t CublasLt::version() const { return state_->api.version(); }

CublasLt* CublasLt::of(Gpu& gpu, std::string& why) {
  if (gpu.cublaslt) {
    auto* made = static_cast<CublasLt*>(gpu.cublaslt.get());
    why = made->state_->why;
    return made->state_->handle ? made : nullptr;
  }
  const CurrentDevice here(&gpu);  // a handle belongs to it
  std::unique_ptr<CublasLt> made(new CublasLt);
  State& s = *made->state_;
  s.gpu = &gpu;
  static constexpr const char *names[] = {"libcublasLt.so.13", "libcublasLt.so.12"},
                              *packages[] = {"cu13/lib", "cublas/lib", "lib"};
  if (s.api.library.open(names, packages, s.why)) {
    try {
      s.api.open();
      s.api.check(s.api.create(&s.handle), "cublasLtCreate");
      const std::string driver = driver_version();
      s.chosen = std::make_unique<AlgorithmCache>(
          fmt::format("gemm-{}-driver{}-cublaslt{}", gpu.info().name,
                      driver.empty() ? std::to_string(gpu.info().driver) : driver, s.api.version()));
    } catch (const Error& error) {
      if (s.handle) s.api.destroy(s.handle);
      s.handle = nullptr, s.why = error.message();
    }
  }
  if (!s.handle) warn("without cuBLASLt products run as plain kernels, many times slower: {}", s.why);
  gpu.cublaslt = std::move(made);
  return of(gpu, why);
}

const MatmulPlan& CublasLt::plan(const MatmulShape& shape) {
  State& s = *state_;
  const auto [at, fresh] = s.plans.try_emplace(key_of(shape));
  Plan& p = at->second;
  if (fresh) {
    try {
      p.api = &s.api;
      describe(p, shape);
      s.choose(p, shape);
    } catch (...) {
      s.plans.erase(at);
      throw;
    }
  }
  return p;
}

void CublasLt::run(const MatmulPlan& plan, const MatmulTensors& t, float alpha, float beta) {
  state_->run(static_cast<const Plan&>(plan), t, alpha, beta);
}

int alignment_of(std::initializer_list<const Tensor*> tensors) {
  uint64_t bits = 16;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    bits |= reinterpret_cast<uintptr_t>(t->data);
    for (int axis = 0; axis + 1 < t->rank; ++axis)
      if (t->dims[axis] > 1) bits |= static_cast<uint64_t>(t->strides[axis] * dtype_size(t->dtype));
  }
  return static_cast<int>(bits & (~bits + 1));
}

}  // namespace tachy::cuda
