// Capture is global: an allocation or a wait by any thread of the process fails it, which is what op_runner's
// `capture` mode proves ops free of.
#include "cuda/graph.h"

#include "cuda/runtime.h"

namespace tachy::cuda {
namespace {

class CudaGraph final : public Graph {
 public:
  CudaGraph(cudaStream_t stream, cudaGraph_t graph) : stream_(stream), graph_(graph) {
    const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
    if (status != cudaSuccess) cudaGraphDestroy(graph_);
    check_cuda(status, "cudaGraphInstantiate");
  }
  ~CudaGraph() override {
    cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }
  void launch() override { check_cuda(cudaGraphLaunch(exec_, stream_), "cudaGraphLaunch"); }
  size_t nodes() const override {
    size_t count = 0;
    check_cuda(cudaGraphGetNodes(graph_, nullptr, &count), "cudaGraphGetNodes");
    return count;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace

std::unique_ptr<Graph> capture(Gpu& gpu, const std::function<void()>& work) {
  auto* stream = static_cast<cudaStream_t>(gpu.stream());
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
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
  return std::make_unique<CudaGraph>(stream, graph);
}

double device_us(Gpu& gpu, const std::function<void()>& work) {
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
