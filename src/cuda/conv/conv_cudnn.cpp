// Convolutions through cuDNN's backend graphs, channels-last, with convolution [+ bias] [+ residual] as one
// graph, for GPUs for which we have no special kernel.
//
// The frames before x must lie before it in memory. So if there is history, cache and x are copied into
// scratch (our own kernels need no such pass); missing frames are padding at the front. Plans are made once
// per shape, at the latest by the measure run, and kept by key.
#include "cuda/conv/conv.h"
#include "cuda/gpu.h"
#include "cuda/vendor/cudnn_graph.h"

namespace tachy::cuda {
namespace {

using Dims = std::vector<int64_t>;
enum Id : int64_t { kX = 1, kW, kBias, kResidual, kY, kFirstVirtual = 100 };

// Sizes in cuDNN's order: [N, C, (T,) H, W].
struct Plan {
  bool timed;      // the kernel covers frames; otherwise frames are the batch
  int64_t frames;  // frames of the input with its history
  Dims x, w, y, kernel_strides, pre, post;
  Dims x_strides, w_strides, y_strides;
};

Plan plan_of(const ConvProblem& problem) {
  const device::ConvShape& s = problem.shape;
  Plan p{.timed = s.kernel_t > 1 || s.time_stride > 1};
  const int64_t history = p.timed ? s.history : 0, frames = problem.x.dim(0), ci = s.ci, co = s.co;
  p.frames = frames + history;
  const int64_t pci = conv_padded_ci(s.ci), h = s.in_height, w = s.in_width;
  const auto behind = [&](int64_t out, int64_t in, int64_t kernel, int64_t pad) {
    return std::max<int64_t>(0, (out - 1) * s.stride + kernel - in - pad);
  };
  p.pre = {s.pad_top, s.pad_left};
  p.post = {behind(s.height, h, s.kernel_h, s.pad_top), behind(s.width, w, s.kernel_w, s.pad_left)};
  p.kernel_strides = {s.stride, s.stride};
  if (p.timed) {
    p.x = {1, ci, p.frames, h, w}, p.x_strides = {p.frames * h * w * ci, 1, h * w * ci, w * ci, ci};
    p.w = {co, ci, s.kernel_t, s.kernel_h, s.kernel_w};
    p.w_strides = {s.kernel_t * s.kernel_h * s.kernel_w * pci, 1, s.kernel_h * s.kernel_w * pci,
                   s.kernel_w * pci, pci};
    p.y = {1, co, s.frames, s.height, s.width};
    p.y_strides = {s.frames * s.y_frame, 1, s.y_frame, s.y_row, s.y_column};
    p.pre.insert(p.pre.begin(), s.front - history), p.post.insert(p.post.begin(), 0);
    p.kernel_strides.insert(p.kernel_strides.begin(), s.time_stride);
  } else {
    p.x = {frames, ci, h, w}, p.x_strides = {h * w * ci, 1, w * ci, ci};
    p.w = {co, ci, s.kernel_h, s.kernel_w};
    p.w_strides = {s.kernel_h * s.kernel_w * pci, 1, s.kernel_w * pci, pci};
    p.y = {s.frames, co, s.height, s.width}, p.y_strides = {s.y_frame, 1, s.y_row, s.y_column};
  }
  return p;
}

class Graph : public CudnnGraph {
 public:
  using CudnnGraph::CudnnGraph;

  CudnnDescriptor* io(int64_t id, const Dims& dims, const Dims& strides) {
    return tensor(id, dims, strides, io_, 16);
  }
  CudnnDescriptor* float32(int64_t id, const Dims& dims, const Dims& strides, bool is_virtual) {
    return tensor(id, dims, strides, kFloat, 4, is_virtual);
  }

  void convolution(const Plan& p, CudnnDescriptor* x, CudnnDescriptor* w, CudnnDescriptor* y) {
    CudnnDescriptor& kind = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const auto rank = static_cast<int64_t>(p.pre.size());
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const Dims ones(p.pre.size(), 1);
    kind.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank, "convolution");
    kind.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kFloat, "convolution");
    kind.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode, "convolution");
    kind.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, rank, p.pre.data(), "convolution");
    kind.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, rank, p.post.data(), "convolution");
    kind.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, rank, ones.data(), "convolution");
    kind.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, rank, p.kernel_strides.data(),
             "convolution");
    kind.finalize("convolution");
    CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    const float alpha = 1, beta = 0;
    op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &alpha, "convolution");
    op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &beta, "convolution");
    link(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, &kind);
    link(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    link(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    link(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    op.finalize("convolution");
  }
  void add(CudnnDescriptor* x, CudnnDescriptor* b, CudnnDescriptor* y) {
    pointwise(CUDNN_POINTWISE_ADD, x, b, y);
  }
};

CudnnPlan make_plan(const Cudnn& cudnn, const ConvProblem& problem) {
  const Plan p = plan_of(problem);
  Graph g(cudnn, problem.x.dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF);
  int64_t next = kFirstVirtual;
  const bool bias = problem.bias.defined(), residual = problem.residual.defined();
  // Sums stay float32 until the last operation stores them.
  const auto result = [&](bool last) {
    return last ? g.io(kY, p.y, p.y_strides) : g.float32(next++, p.y, p.y_strides, true);
  };
  CudnnDescriptor* sums = result(!bias && !residual);
  g.convolution(p, g.io(kX, p.x, p.x_strides), g.io(kW, p.w, p.w_strides), sums);
  if (bias) {
    Dims ones(p.y.size(), 1), strides(p.y.size(), p.y[1]);
    ones[1] = p.y[1], strides[1] = 1;
    CudnnDescriptor* to = result(!residual);
    g.add(sums, g.float32(kBias, ones, strides, false), to);
    sums = to;
  }
  if (residual) g.add(sums, g.io(kResidual, p.y, p.y_strides), result(true));
  return std::move(cudnn.make_plans(g.operations(), 1).front());
}

const CudnnPlan& kept_plan(Cudnn& cudnn, const ConvProblem& problem) {
  const device::ConvShape& s = problem.shape;
  const std::string key = fmt::format("conv {} {}x{}x{}x{} {}x{}x{}x{} k {}x{}x{} {} {},{} {} {} {} {}{}",
                                      dtype_name(problem.x.dtype), problem.x.dim(0), s.in_height, s.in_width,
                                      s.ci, s.frames, s.height, s.width, s.co, s.kernel_t, s.kernel_h,
                                      s.kernel_w, s.stride, s.pad_top, s.pad_left, s.time_stride, s.front,
                                      s.history, problem.bias.defined(), problem.residual.defined());
  if (const CudnnPlan* made = cudnn.find(key)) return *made;
  try {
    return cudnn.keep(key, make_plan(cudnn, problem));
  } catch (const Error& error) {
    CudnnPlan none;
    none.why = error.message();
    return cudnn.keep(key, std::move(none));
  }
}

}  // namespace

std::optional<Refusal> conv_cudnn_why_not(const ConvProblem& problem, const Stream& stream) {
  const device::ConvShape& s = problem.shape;
  if (problem.x.dtype != DType::bf16 && problem.x.dtype != DType::f16)
    return Refusal::arguments("it takes bf16 and f16");
  if (s.ci % 32 != 0 || s.co % 8 != 0)
    return Refusal::arguments("it takes channels in multiples of 32 and makes multiples of 8");
  if (s.phases != 1) return Refusal::arguments("it has no phases");
  // op_runner found wrong values from cuDNN 9.19 in this case on an H200.
  if (s.frames > 1 && s.y_frame != int64_t{s.height} * s.y_row)
    return Refusal::arguments("frames of y that lie apart");
  if (s.front < s.history) return Refusal::arguments("history that nothing reads");
  for (const Tensor* t : {&problem.x, &problem.packed, &problem.residual, &problem.y})
    if (reinterpret_cast<uintptr_t>(t->data) % 16 != 0)
      return Refusal::arguments("it takes memory aligned to 16 bytes");
  std::string why;
  Cudnn* cudnn = Cudnn::of(*stream.gpu, why);
  if (!cudnn) return Refusal::library(why);
  const CudnnPlan& plan = kept_plan(*cudnn, problem);
  if (!plan.why.empty()) return Refusal::library(plan.why);
  return std::nullopt;
}

void conv_cudnn(const ConvProblem& problem, Stream& stream) {
  std::string why;
  Cudnn* cudnn = Cudnn::of(*stream.gpu, why);
  const CudnnPlan& plan = kept_plan(*cudnn, problem);
  const Plan p = plan_of(problem);
  ArenaScope scope(*stream.arena);
  void* x = problem.x.data;
  const int64_t history = p.frames - problem.x.dim(0);
  const int64_t frame = problem.x.numel() / problem.x.dim(0) * dtype_size(problem.x.dtype);
  auto* joined =
      static_cast<char*>(history ? stream.arena->bytes(static_cast<size_t>(p.frames * frame)) : nullptr);
  void* workspace =
      plan.workspace_bytes ? stream.arena->bytes(static_cast<size_t>(plan.workspace_bytes)) : nullptr;
  if (stream.measuring()) return;
  if (history) {
    const char* cache = static_cast<const char*>(problem.cache.data);
    stream.gpu->copy(joined, cache + (problem.cache.dim(0) - history) * frame,
                     static_cast<size_t>(history * frame));
    stream.gpu->copy(joined + history * frame, problem.x.data, static_cast<size_t>(problem.x.bytes()));
    x = joined;
  }
  std::vector<int64_t> ids{kX, kW, kY};
  std::vector<void*> pointers{x, problem.packed.data, problem.y.data};
  if (problem.bias.defined()) ids.push_back(kBias), pointers.push_back(problem.bias.data);
  if (problem.residual.defined()) ids.push_back(kResidual), pointers.push_back(problem.residual.data);
  cudnn->execute(plan, ids, pointers, workspace);
}

}  // namespace tachy::cuda
