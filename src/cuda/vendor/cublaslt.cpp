// Opens the library, keeps a plan for each shape and picks its algorithm: the one kept on disk, the library's
// first suggestion, or the fastest of its first suggestions in a measurement.
#include "cuda/vendor/cublaslt.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "cuda/current_device.h"
#include "cuda/runtime.h"
#include "cuda/vendor/algorithm_cache.h"
#include "cuda/vendor/cublaslt_plan.h"
#include "cuda/vendor/matmul_trials.h"
#include "cuda/vendor/trial_times.h"

namespace tachy::cuda {

namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmWords));

}  // namespace

struct CublasLt::State {
  CublasLtApi api;
  Gpu* gpu = nullptr;
  cublasLtHandle_t handle = nullptr;
  std::string why;
  std::unique_ptr<AlgorithmCache> chosen;
  std::unordered_map<std::string, CublasLtPlan> plans;

  bool capturing() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(static_cast<cudaStream_t>(gpu->stream()), &status);
    return status != cudaStreamCaptureStatusNone;
  }

  cublasStatus_t try_run(const CublasLtPlan& p, const MatmulTensors& t, float alpha) {
    if (p.bias)
      api.check(api.set_desc(p.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &t.bias, sizeof t.bias), "bias");
    if (p.scales) {
      const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* const& pointer) {
        api.check(api.set_desc(p.desc, attribute, &pointer, sizeof pointer), "scales");
      };
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, t.w_scale);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, t.x_scale);
    }
    const float beta = p.adds ? 1 : 0;
    return api.matmul(handle, p.desc, &alpha, t.w, p.w, t.x, p.x, &beta, t.c ? t.c : t.y, p.c, t.y, p.y,
                      &p.algo, t.workspace, p.workspace_bytes, static_cast<cudaStream_t>(gpu->stream()));
  }
  void run(const CublasLtPlan& p, const MatmulTensors& t, float alpha) {
    api.check(try_run(p, t, alpha), "matmul");
  }

  // For tensors that are not 16-byte aligned the library suggests algorithms that it then refuses to run, so
  // they are tried first. Such products are small.
  void leave_what_runs(CublasLtPlan& p, const MatmulShape& s,
                       std::vector<cublasLtMatmulHeuristicResult_t>& all) {
    try {
      const Trials trials(*gpu, s);
      std::erase_if(all, [&](const auto& candidate) {
        p.algo = candidate.algo, p.workspace_bytes = candidate.workspaceSize;
        return try_run(p, trials.tensors, 1) == CUBLAS_STATUS_NOT_SUPPORTED;
      });
      gpu->synchronize();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::out_of_memory) throw;
    }
  }

  // The index of the fastest candidate.
  size_t measure(CublasLtPlan& p, const MatmulShape& s,
                 const std::vector<cublasLtMatmulHeuristicResult_t>& all) {
    const Trials trials(*gpu, s);
    const TrialPick found = pick_fastest(*gpu, all.size(), [&](size_t i) {
      p.algo = all[i].algo, p.workspace_bytes = all[i].workspaceSize;
      run(p, trials.tensors, 1);
    });
    log_topic("dispatch", "gemm {}: candidate {} of {} takes {:.1f} us, the first one {:.1f}", key_of(s),
              found.pick, all.size(), found.us, found.first_us);
    return found.pick;
  }

  // Takes this algorithm if it runs here.
  bool takes(CublasLtPlan& p, const cublasLtMatmulAlgo_t& algo, const char* from) {
    cublasLtMatmulHeuristicResult_t result{};
    if (api.check_algorithm(handle, p.desc, p.w, p.x, p.c, p.y, &algo, &result) != CUBLAS_STATUS_SUCCESS ||
        result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kMostWorkspace)
      return false;
    p.algo = algo, p.workspace_bytes = result.workspaceSize, p.algorithm = from;
    return true;
  }

  void choose(CublasLtPlan& p, const MatmulShape& s) {
    const std::string key = key_of(s);
    if (const auto* words = chosen->find(key)) {
      cublasLtMatmulAlgo_t algo;
      std::copy(words->begin(), words->end(), algo.data);
      if (takes(p, algo, "kept")) return;
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
  const CurrentDevice here(&gpu);  // a handle belongs to the current GPU
  std::unique_ptr<CublasLt> made(new CublasLt);
  State& s = *made->state_;
  s.gpu = &gpu;
  static constexpr const char *names[] = {"libcublasLt.so.13", "libcublasLt.so.12"},
                              *packages[] = {"cu13/lib", "cublas/lib", "lib"};
  if (s.api.library.open(names, packages, s.why)) {
    try {
      s.api.open();
      s.api.check(s.api.create(&s.handle), "cublasLtCreate");
      s.chosen = std::make_unique<AlgorithmCache>(
          fmt::format("gemm-{}-cublaslt{}", measured_on(gpu.info()), s.api.version()));
    } catch (const Error& error) {
      if (s.handle) s.api.destroy(s.handle);
      s.handle = nullptr, s.why = error.message();
    }
  }
  if (!s.handle) warn("without cuBLASLt products run as plain kernels, many times slower: {}", s.why);
  gpu.cublaslt = std::move(made);
  return of(gpu, why);
}

const MatmulPlan& CublasLt::plan(const MatmulShape& given) {
  State& s = *state_;
  MatmulShape shape = given, other = given;
  if (shape.like == shape.m) shape.like = 0;
  other.m = shape.like, other.like = 0;
  // It is made first: the table may move its places when it grows.
  const auto* const followed = shape.like > 0 ? static_cast<const CublasLtPlan*>(&plan(other)) : nullptr;
  const auto [at, fresh] = s.plans.try_emplace(key_of(shape));
  CublasLtPlan& p = at->second;
  if (fresh) {
    try {
      p.api = &s.api;
      describe_product(p, shape);
      const bool follows = p.why.empty() && followed && followed->why.empty() &&
                           s.takes(p, followed->algo, "that of other rows");
      if (p.why.empty() && !follows) s.choose(p, shape);
    } catch (...) {
      s.plans.erase(at);
      throw;
    }
  }
  return p;
}

void CublasLt::run(const MatmulPlan& plan, const MatmulTensors& t, float alpha) {
  state_->run(static_cast<const CublasLtPlan&>(plan), t, alpha);
}

}  // namespace tachy::cuda
