// A capture belongs to this thread: its allocations and waits make it fail (op_runner's `capture` mode proves
// that ops have none), and those of other sessions' threads do not.
#include "cuda/graph.h"

#include <cuda.h>

#include "cuda/current_device.h"
#include "cuda/graph_fills.h"
#include "cuda/kernel_name.h"
#include "cuda/runtime.h"

namespace tachy::cuda {
namespace {

template <class F>
F* driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  check_cuda(cudaGetDriverEntryPointByVersion(name, &found, 12040, cudaEnableDefault, &result), name);
  check(result == cudaDriverEntryPointSuccess, ErrorCode::unsupported, "the driver has no {}", name);
  return reinterpret_cast<F*>(found);
}

// Kernels of libraries are not functions of this program's runtime, so only the driver knows their names.
std::string kernel_name(cudaGraphNode_t node) {
  static auto* params_of =
      driver_function<CUresult(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*)>("cuGraphKernelNodeGetParams");
  static auto* function_name = driver_function<CUresult(const char**, CUfunction)>("cuFuncGetName");
  static auto* kernel_name = driver_function<CUresult(const char**, CUkernel)>("cuKernelGetName");
  CUDA_KERNEL_NODE_PARAMS params{};
  const char* raw = nullptr;
  if (params_of(node, &params) != CUDA_SUCCESS ||
      (params.func ? function_name(&raw, params.func) : kernel_name(&raw, params.kern)) != CUDA_SUCCESS ||
      !raw)
    return "kernel";
  return short_kernel_name(raw);
}

class CudaGraph final : public Graph {
 public:
  CudaGraph(const Gpu& gpu, cudaGraph_t graph)
      : device_(gpu.info().index), stream_(static_cast<cudaStream_t>(gpu.stream())), graph_(graph) {
    try {
      fill_by_kernels(graph);
      check_cuda(cudaGraphInstantiate(&exec_, graph, 0), "cudaGraphInstantiate");
    } catch (...) {
      cudaGraphDestroy(graph_);
      throw;
    }
  }
  ~CudaGraph() override {
    cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }
  void launch() override {
    const CurrentDevice here(device_);
    check_cuda(cudaGraphLaunch(exec_, stream_), "cudaGraphLaunch");
  }
  size_t nodes() const override {
    size_t count = 0;
    check_cuda(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    return count;
  }
  std::vector<std::string> names() const override {
    size_t count = nodes();
    std::vector<cudaGraphNode_t> all(count);
    check_cuda(cudaGraphGetNodes(graph_, all.data(), &count), "cudaGraphGetNodes");
    std::vector<std::string> out;
    for (const cudaGraphNode_t node : all) {
      cudaGraphNodeType type;
      check_cuda(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
      out.push_back(type == cudaGraphNodeTypeKernel   ? kernel_name(node)
                    : type == cudaGraphNodeTypeMemset ? "memset"
                    : type == cudaGraphNodeTypeMemcpy ? "copy"
                                                      : "other");
    }
    return out;
  }

 private:
  int device_;
  cudaStream_t stream_;
  cudaGraph_t graph_;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace

std::unique_ptr<Graph> capture(Gpu& gpu, const std::function<void()>& work) {
  check(gpu.captures(), ErrorCode::unsupported,
        "graph: CUDA's default stream cannot be captured; give a queue of its own");
  const CurrentDevice here(&gpu);
  auto* stream = static_cast<cudaStream_t>(gpu.stream());
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  return std::make_unique<CudaGraph>(gpu, graph);
}

double device_us(Gpu& gpu, const std::function<void()>& work) {
  const CurrentDevice here(&gpu);
  auto* stream = static_cast<cudaStream_t>(gpu.stream());
  struct Event {
    cudaEvent_t event = nullptr;
    Event() { check_cuda(cudaEventCreate(&event), "cudaEventCreate"); }
    ~Event() { cudaEventDestroy(event); }
  } start, stop;
  check_cuda(cudaEventRecord(start.event, stream), "cudaEventRecord");
  work();
  check_cuda(cudaEventRecord(stop.event, stream), "cudaEventRecord");
  check_cuda(cudaEventSynchronize(stop.event), "an earlier kernel");
  float ms = 0;
  check_cuda(cudaEventElapsedTime(&ms, start.event, stop.event), "cudaEventElapsedTime");
  return 1e3 * ms;
}

}  // namespace tachy::cuda
