// cuDNN behind its backend graph interface: descriptors that free themselves, plans made from a graph of
// operations and kept by key in Gpu::cudnn. The header names no cuDNN type, so that only files that build
// graphs need <cudnn_backend.h>.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/gpu.h"

namespace tachy::cuda {

struct CudnnApi;  // the functions, found at run time

// One backend descriptor. Errors (a wrong attribute, a graph that cuDNN does not support) throw `unsupported`
// with cuDNN's own words; the code that builds a graph turns them into a reason for refusing.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  CudnnDescriptor(const CudnnApi& api, int type);
  void set(int attribute, int type, int64_t count, const void* values, const char* what);
  void finalize(const char* what);
  void* get() const { return handle_.get(); }

 private:
  struct Free {
    const CudnnApi* api;
    void operator()(void* p) const;
  };
  const CudnnApi* api_ = nullptr;
  std::unique_ptr<void, Free> handle_{nullptr, Free{nullptr}};
};

struct CudnnPlan {
  CudnnDescriptor plan;
  int64_t workspace_bytes = 0;
  std::string why;  // if not empty, the reason why there is no plan
  std::string engine;
};

class Cudnn : public Gpu::Extra {
 public:
  // The library's state on this GPU, opened on first use. Without the library it is null,
  // and `why` gives the reason.
  static Cudnn* of(Gpu& gpu, std::string& why);
  ~Cudnn() override;

  size_t version() const;
  const CudnnApi& api() const { return *api_; }

  // At most `limit` of the graph's plans, in the order of cuDNN's heuristic; only
  // those that can be finalised.
  std::vector<CudnnPlan> make_plans(std::span<CudnnDescriptor* const> operations, size_t limit) const;

  // Finds a plan that the caller has made. Null if nothing was kept under this key.
  CudnnPlan* find(const std::string& key);
  CudnnPlan& keep(const std::string& key, CudnnPlan plan);

  void execute(const CudnnPlan& plan, std::span<const int64_t> ids, std::span<void* const> pointers,
               void* workspace) const;

 private:
  Cudnn() = default;
  std::unique_ptr<CudnnApi> api_;
  void* handle_ = nullptr;
  std::string why_;  // if not empty, the reason why the library cannot be used
  std::unordered_map<std::string, CudnnPlan> plans_;
};

}  // namespace tachy::cuda
