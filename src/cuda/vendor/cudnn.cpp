#include "cuda/vendor/cudnn.h"

#include <cudnn_backend.h>

#include "base/log.h"
#include "cuda/current_device.h"
#include "cuda/vendor/vendor_library.h"

namespace tachy::cuda {

struct CudnnApi {
  VendorLibrary library;
  decltype(cudnnCreate)* create;
  decltype(cudnnDestroy)* destroy;
  decltype(cudnnSetStream)* set_stream;
  decltype(cudnnGetVersion)* version;
  decltype(cudnnGetErrorString)* error_string;
  decltype(cudnnGetLastErrorString)* last_error;
  decltype(cudnnBackendCreateDescriptor)* create_descriptor;
  decltype(cudnnBackendDestroyDescriptor)* destroy_descriptor;
  decltype(cudnnBackendSetAttribute)* set_attribute;
  decltype(cudnnBackendGetAttribute)* get_attribute;
  decltype(cudnnBackendFinalize)* finalize;
  decltype(cudnnBackendExecute)* execute;

  void check(cudnnStatus_t status, const char* what) const {
    if (status == CUDNN_STATUS_SUCCESS) return;
    char text[512] = "";
    last_error(text, sizeof text);
    // Codes from 4000 on are not the graph's fault, but that of a machine that lacks something.
    const ErrorCode code = status >= CUDNN_STATUS_INTERNAL_ERROR ? ErrorCode::device : ErrorCode::unsupported;
    fail(code, "cudnn: {}: {} {}", what, error_string(status), std::string(text));
  }
};

namespace {

constexpr const char* kPackages[] = {"cudnn/lib", "cu13/lib", "cu12/lib", "cublas/lib", "cuda_nvrtc/lib"};

// cuDNN opens its parts by name. If none of their folders is on the loader's path, they must be in the
// process already; a part that cannot be opened here may still be found by cuDNN itself.
void open_parts() {
  static constexpr const char* parts[][2] = {
      {"libnvrtc.so.13", "libnvrtc.so.12"}, {"libcublasLt.so.13", "libcublasLt.so.12"},
      {"libcudnn_graph.so.9", nullptr},     {"libcudnn_engines_precompiled.so.9", nullptr},
      {"libcudnn_heuristic.so.9", nullptr}, {"libcudnn_engines_runtime_compiled.so.9", nullptr},
  };
  for (const auto& part : parts) {
    VendorLibrary library;
    std::string ignored;
    library.open(std::span(part, part[1] ? 2 : 1), kPackages, ignored);
  }
}

}  // namespace

CudnnDescriptor::CudnnDescriptor(const CudnnApi& api, int type) : api_(&api), handle_(nullptr, Free{&api}) {
  cudnnBackendDescriptor_t made = nullptr;
  api.check(api.create_descriptor(static_cast<cudnnBackendDescriptorType_t>(type), &made), "descriptor");
  handle_.reset(made);
}
void CudnnDescriptor::Free::operator()(void* p) const { api->destroy_descriptor(p); }
void CudnnDescriptor::set(int attribute, int type, int64_t count, const void* values, const char* what) {
  api_->check(api_->set_attribute(handle_.get(), static_cast<cudnnBackendAttributeName_t>(attribute),
                                  static_cast<cudnnBackendAttributeType_t>(type), count, values),
              what);
}
void CudnnDescriptor::finalize(const char* what) { api_->check(api_->finalize(handle_.get()), what); }

Cudnn* Cudnn::of(Gpu& gpu, std::string& why) {
  if (gpu.cudnn) {
    auto* made = static_cast<Cudnn*>(gpu.cudnn.get());
    why = made->why_;
    return made->handle_ ? made : nullptr;
  }
  const CurrentDevice here(&gpu);  // a handle belongs to the current GPU
  std::unique_ptr<Cudnn> made(new Cudnn);
  made->api_ = std::make_unique<CudnnApi>();
  CudnnApi& api = *made->api_;
  static constexpr const char* names[] = {"libcudnn.so.9", "libcudnn_graph.so.9"};
  open_parts();
  if (api.library.open(names, kPackages, made->why_)) {
    try {
      const VendorLibrary& l = api.library;
      l.find("cudnnCreate", api.create), l.find("cudnnDestroy", api.destroy);
      l.find("cudnnSetStream", api.set_stream), l.find("cudnnGetVersion", api.version);
      l.find("cudnnGetErrorString", api.error_string), l.find("cudnnGetLastErrorString", api.last_error);
      l.find("cudnnBackendCreateDescriptor", api.create_descriptor);
      l.find("cudnnBackendDestroyDescriptor", api.destroy_descriptor);
      l.find("cudnnBackendSetAttribute", api.set_attribute);
      l.find("cudnnBackendGetAttribute", api.get_attribute);
      l.find("cudnnBackendFinalize", api.finalize), l.find("cudnnBackendExecute", api.execute);
      cudnnHandle_t handle = nullptr;
      api.check(api.create(&handle), "cudnnCreate");
      made->handle_ = handle;
      api.check(api.set_stream(handle, static_cast<cudaStream_t>(gpu.stream())), "cudnnSetStream");
    } catch (const Error& error) {
      if (made->handle_) api.destroy(static_cast<cudnnHandle_t>(made->handle_));
      made->handle_ = nullptr;
      made->why_ = error.message();
    }
  }
  if (!made->handle_) warn("without cuDNN attention runs as our own kernels: {}", made->why_);
  gpu.cudnn = std::move(made);
  return of(gpu, why);
}

Cudnn::~Cudnn() {
  plans_.clear();
  if (handle_) api_->destroy(static_cast<cudnnHandle_t>(handle_));
}

size_t Cudnn::version() const { return api_->version(); }

std::vector<CudnnPlan> Cudnn::make_plans(std::span<CudnnDescriptor* const> operations, size_t limit) const {
  const CudnnApi& api = *api_;
  std::vector<void*> raw;
  for (const auto* operation : operations) raw.push_back(operation->get());
  CudnnDescriptor graph(api, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(raw.size()),
            raw.data(), "graph");
  const auto handle = static_cast<cudnnHandle_t>(handle_);
  graph.set(800 /* the handle */, CUDNN_TYPE_HANDLE, 1, &handle, "graph");
  graph.finalize("graph");

  CudnnDescriptor heuristic(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  void* graph_raw = graph.get();
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph_raw,
                "heuristic");
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, "heuristic");
  heuristic.finalize("heuristic");
  constexpr int64_t kMost = 16;
  std::vector<CudnnDescriptor> configs;
  std::vector<void*> config_raw;
  for (int64_t i = 0; i < kMost; ++i) {
    configs.emplace_back(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    config_raw.push_back(configs.back().get());
  }
  int64_t count = 0;
  api.check(api.get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                              kMost, &count, config_raw.data()),
            "engines");
  std::vector<CudnnPlan> plans;
  std::string first_error;
  for (int64_t i = 0; i < std::min(count, kMost) && plans.size() < limit; ++i) {
    try {
      CudnnPlan made;
      made.plan = CudnnDescriptor(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      made.plan.set(400 /* the handle */, CUDNN_TYPE_HANDLE, 1, &handle, "plan");
      made.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                    &config_raw[static_cast<size_t>(i)], "plan");
      made.plan.finalize("plan");
      int64_t got = 0;
      api.check(api.get_attribute(made.plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                  1, &got, &made.workspace_bytes),
                "workspace");
      made.engine = "config " + std::to_string(i);
      plans.push_back(std::move(made));
    } catch (const Error& error) {
      if (first_error.empty()) first_error = error.message();
      if (error.code() == ErrorCode::device)
        warn(
            "one of cuDNN's engines failed here; the next one is used, and its results may differ in the "
            "last bits: {}",
            error.message());
    }
  }
  check(!plans.empty(), ErrorCode::unsupported, "{}",
        first_error.empty() ? "cudnn: it has no engine for this graph" : first_error);
  return plans;
}

CudnnPlan* Cudnn::find(const std::string& key) {
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : &found->second;
}
CudnnPlan& Cudnn::keep(const std::string& key, CudnnPlan plan) {
  return plans_.insert_or_assign(key, std::move(plan)).first->second;
}

void Cudnn::execute(const CudnnPlan& plan, std::span<const int64_t> ids, std::span<void* const> pointers,
                    void* workspace) const {
  CudnnDescriptor pack(*api_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<int64_t>(ids.size());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data(), "pack");
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data(), "pack");
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace, "pack");
  pack.finalize("pack");
  const cudnnStatus_t status =
      api_->execute(static_cast<cudnnHandle_t>(handle_), plan.plan.get(), pack.get());
  if (status != CUDNN_STATUS_SUCCESS) {
    char text[512] = "";
    api_->last_error(text, sizeof text);
    fail(ErrorCode::device, "cudnn: {} {}", api_->error_string(status), std::string(text));
  }
}

}  // namespace tachy::cuda
