#include <vector>

#include "cuda/graph_fills.h"

namespace tachy::cuda {
namespace {

constexpr unsigned kThreads = 256, kBlocks = 1024;

template <class T>
__global__ void __launch_bounds__(kThreads) fill_kernel(T* to, size_t count, unsigned value) {
  const size_t step = size_t{kThreads} * gridDim.x;
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < count; i += step)
    to[i] = static_cast<T>(value);
}

const void* fill_of(unsigned bytes) {
  if (bytes == 1) return reinterpret_cast<const void*>(&fill_kernel<unsigned char>);
  if (bytes == 2) return reinterpret_cast<const void*>(&fill_kernel<unsigned short>);
  return reinterpret_cast<const void*>(&fill_kernel<unsigned>);
}

// Edges from and to a memset say only that one comes after the other.
#if CUDART_VERSION >= 13000
cudaError_t nodes_before(cudaGraphNode_t of, cudaGraphNode_t* nodes, size_t* count) {
  return cudaGraphNodeGetDependencies(of, nodes, nullptr, count);
}
cudaError_t nodes_behind(cudaGraphNode_t of, cudaGraphNode_t* nodes, size_t* count) {
  return cudaGraphNodeGetDependentNodes(of, nodes, nullptr, count);
}
cudaError_t add_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  return cudaGraphAddDependencies(graph, &from, &to, nullptr, 1);
}
#else
cudaError_t nodes_before(cudaGraphNode_t of, cudaGraphNode_t* nodes, size_t* count) {
  return cudaGraphNodeGetDependencies(of, nodes, count);
}
cudaError_t nodes_behind(cudaGraphNode_t of, cudaGraphNode_t* nodes, size_t* count) {
  return cudaGraphNodeGetDependentNodes(of, nodes, count);
}
cudaError_t add_edge(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  return cudaGraphAddDependencies(graph, &from, &to, 1);
}
#endif

// Asks first for the number of items, then for the items themselves.
template <class Ask>
std::vector<cudaGraphNode_t> all_nodes(const char* what, const Ask& ask) {
  size_t count = 0;
  check_cuda(ask(nullptr, &count), what);
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check_cuda(ask(nodes.data(), &count), what);
  return nodes;
}

void replace(cudaGraph_t graph, cudaGraphNode_t memset) {
  cudaMemsetParams m{};
  check_cuda(cudaGraphMemsetNodeGetParams(memset, &m), "cudaGraphMemsetNodeGetParams");
  if (m.height > 1 || m.width == 0) return;
  const auto before = all_nodes("cudaGraphNodeGetDependencies", [&](cudaGraphNode_t* nodes, size_t* count) {
    return nodes_before(memset, nodes, count);
  });
  const auto behind = all_nodes("cudaGraphNodeGetDependentNodes", [&](cudaGraphNode_t* nodes, size_t* count) {
    return nodes_behind(memset, nodes, count);
  });
  size_t count = m.width;
  void* values[] = {&m.dst, &count, &m.value};
  cudaKernelNodeParams kernel{};
  kernel.func = const_cast<void*>(fill_of(m.elementSize));
  const size_t blocks = (count + kThreads - 1) / kThreads;
  kernel.gridDim = dim3(static_cast<unsigned>(blocks < kBlocks ? blocks : kBlocks));
  kernel.blockDim = dim3(kThreads);
  kernel.kernelParams = values;
  cudaGraphNode_t fill = nullptr;
  check_cuda(cudaGraphAddKernelNode(&fill, graph, before.data(), before.size(), &kernel),
             "cudaGraphAddKernelNode");
  for (const cudaGraphNode_t node : behind)
    check_cuda(add_edge(graph, fill, node), "cudaGraphAddDependencies");
  check_cuda(cudaGraphDestroyNode(memset), "cudaGraphDestroyNode");
}

}  // namespace

void fill_by_kernels(cudaGraph_t graph) {
  const auto all = all_nodes("cudaGraphGetNodes", [&](cudaGraphNode_t* nodes, size_t* count) {
    return cudaGraphGetNodes(graph, nodes, count);
  });
  for (const cudaGraphNode_t node : all) {
    cudaGraphNodeType type;
    check_cuda(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type == cudaGraphNodeTypeMemset) replace(graph, node);
  }
}

}  // namespace tachy::cuda
