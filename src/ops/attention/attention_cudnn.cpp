// cuDNN's fused attention: one graph (product, scale, the steps of a softmax, product) that cuDNN recognises
// and runs as one kernel. Plans are made once per shape, at the latest by the measure run, and kept by key.
//
//   s = q·kᵀ [B, H, Lq, Lk]; t = s·scale [+ key bias]; m = max t; e = exp(t − m); z = Σ e; p = e / z;
//   out = p·v; lse = m + log z (a virtual tensor unless it is requested: the graph is the same)
#include <array>

#include "base/log.h"
#include "cuda/gpu_family.h"
#include "cuda/vendor/cudnn_graph.h"
#include "ops/attention/attention_impl.h"

namespace tachy::ops {
namespace {

using cuda::Cudnn;
using cuda::CudnnDescriptor;
using cuda::CudnnPlan;
using Dims = std::array<int64_t, 4>;

enum Id : int64_t { kQ = 1, kK, kV, kOut, kScale, kLse, kKeyBias, kFirstVirtual = 100 };

class Graph : public cuda::CudnnGraph {
 public:
  using CudnnGraph::CudnnGraph;

  CudnnDescriptor* tensor(int64_t id, const Dims& dims, const Dims& strides, cudnnDataType_t type,
                          bool is_virtual, bool by_value = false) {
    return CudnnGraph::tensor(id, dims, strides, type, 16, is_virtual, by_value);
  }
  CudnnDescriptor* between(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const Dims strides{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    return tensor(next_id_++, dims, strides, type, true);
  }
  CudnnDescriptor* between_io(const Dims& dims) { return between(dims, io_); }

  void matmul(CudnnDescriptor* a, CudnnDescriptor* b, CudnnDescriptor* c) {
    CudnnDescriptor& kind = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kFloat, "matmul");
    kind.finalize("matmul");
    CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    link(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a), link(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    link(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c), link(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, &kind);
    op.finalize("matmul");
  }
  void reduce(cudnnReduceTensorOp_t mode, CudnnDescriptor* x, CudnnDescriptor* y) {
    CudnnDescriptor& kind = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    kind.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode, "reduction");
    kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kFloat, "reduction");
    kind.finalize("reduction");
    CudnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    link(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x), link(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    link(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, &kind);
    op.finalize("reduction");
  }

 private:
  int64_t next_id_ = kFirstVirtual;
};

// [B, L, H, D] tensors in cuDNN's view: dims [B, H, L, D] with any strides.
Dims heads_first(const Tensor& t) { return {t.dims[0], t.dims[2], t.dims[1], t.dims[3]}; }
Dims heads_first_strides(const Tensor& t) { return {t.strides[0], t.strides[2], t.strides[1], 1}; }

std::vector<CudnnPlan> make_plans(const Cudnn& cudnn, const AttentionArgs& a, size_t limit) {
  const cudnnDataType_t io = a.q.dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
  const int64_t b = a.q.dims[0], lq = a.q.dims[1], h = a.q.dims[2], d = a.q.dims[3], lk = a.k.dims[1];
  Graph g(cudnn, io);
  auto* q = g.tensor(kQ, heads_first(a.q), heads_first_strides(a.q), io, false);
  auto* k = g.tensor(kK, {b, h, d, lk}, {a.k.strides[0], a.k.strides[2], 1, a.k.strides[1]}, io, false);
  auto* v = g.tensor(kV, heads_first(a.v), heads_first_strides(a.v), io, false);
  auto* out = g.tensor(kOut, heads_first(a.out), heads_first_strides(a.out), io, false);
  auto* scale = g.tensor(kScale, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, false, true);
  const Dims row{b, h, lq, 1}, matrix{b, h, lq, lk};
  auto* lse = a.lse.defined()
                  ? g.tensor(kLse, row, {a.lse.strides[0], a.lse.strides[1], 1, 1}, CUDNN_DATA_FLOAT, false)
                  : g.between(row);
  auto *s = g.between(matrix), *scaled = g.between(matrix), *less = g.between(matrix), *e = g.between(matrix);
  auto *most = g.between(row), *total = g.between(row), *log = g.between(row), *p = g.between_io(matrix);
  g.matmul(q, k, s);
  g.pointwise(CUDNN_POINTWISE_MUL, s, scale, scaled);
  if (a.key_bias.defined()) {
    const int64_t step = b > 1 ? a.key_bias.strides[0] : lk;
    auto* bias = g.tensor(kKeyBias, {b, 1, 1, lk}, {step, lk, lk, 1}, CUDNN_DATA_FLOAT, false);
    auto* sum = g.between(matrix);
    g.pointwise(CUDNN_POINTWISE_ADD, scaled, bias, sum);
    scaled = sum;
  }
  g.reduce(CUDNN_REDUCE_TENSOR_MAX, scaled, most);
  g.pointwise(CUDNN_POINTWISE_SUB, scaled, most, less);
  g.pointwise(CUDNN_POINTWISE_EXP, less, nullptr, e);
  g.reduce(CUDNN_REDUCE_TENSOR_ADD, e, total);
  g.pointwise(CUDNN_POINTWISE_LOG, total, nullptr, log);
  g.pointwise(CUDNN_POINTWISE_ADD, most, log, lse);
  g.pointwise(CUDNN_POINTWISE_DIV, e, total, p);
  g.matmul(p, v, out);
  return cudnn.make_plans(g.operations(), limit);
}

std::string key_of(const AttentionArgs& a) {
  std::string key = fmt::format("attention {}", dtype_name(a.q.dtype));
  for (const Tensor* t : {&a.q, &a.k, &a.v, &a.out})
    for (int i = 0; i < 4; ++i) key += fmt::format(" {}:{}", t->dims[i], t->dims[i] == 1 ? 0 : t->strides[i]);
  if (a.key_bias.defined()) key += fmt::format(" key bias {}", a.q.dims[0] > 1 ? a.key_bias.strides[0] : 0);
  if (a.lse.defined()) key += fmt::format(" lse {} {}", a.lse.strides[0], a.lse.strides[1]);
  return key;
}

CudnnPlan& plan_of(Cudnn& cudnn, const AttentionArgs& a) {
  const std::string key = key_of(a);
  if (CudnnPlan* made = cudnn.find(key)) return *made;
  try {
    return cudnn.keep(key, std::move(make_plans(cudnn, a, 1).front()));
  } catch (const Error& error) {
    CudnnPlan none;
    none.why = error.message();
    if (error.code() == ErrorCode::device)
      warn("cuDNN failed, other kernels run attention, whose results may differ in the last bits: {}",
           error.message());
    return cudnn.keep(key, std::move(none));
  }
}

}  // namespace

std::optional<Refusal> attention_why_not_cudnn(const AttentionArgs& a, const Stream& stream) {
  if (auto why = why_not_whole(a)) return why;
  if (a.q.dtype == DType::f32) return Refusal::arguments("it takes bf16 and f16");
  if (a.bias.defined()) return Refusal::arguments("a bias of each query and key");
  if (a.key_bias.defined()) {
    if (!a.finite_bias) return Refusal::arguments("a key bias that may mask keys");
    if (a.k.dims[1] <= cuda::family_of(stream.gpu->info()).few_keys)
      return Refusal::slower("a key bias and few keys: few_keys is as fast");
    if (reinterpret_cast<uintptr_t>(a.key_bias.data) % 16 || (a.q.dims[0] > 1 && a.key_bias.strides[0] % 4))
      return Refusal::arguments("a key bias that does not begin at multiples of 16 bytes");
  }
  if (a.causal) return Refusal::arguments("a causal mask");
  if (a.accumulate) return Refusal::arguments("an accumulating output");
  if (a.q.dims[3] % 8 != 0 || a.q.dims[3] > 128)
    return Refusal::arguments("a head dim that is no multiple of 8 up to 128");
  for (const Tensor* t : {&a.q, &a.k, &a.v, &a.out}) {
    if (reinterpret_cast<uintptr_t>(t->data) % 16)
      return Refusal::arguments("tensors that do not begin at multiples of 16 bytes");
    for (int i = 0; i < 3; ++i)
      if (t->dims[i] > 1 && t->strides[i] % 8)
        return Refusal::arguments("rows that do not begin at multiples of 16 bytes");
  }
  std::string why;
  Cudnn* cudnn = Cudnn::of(*stream.gpu, why);
  if (!cudnn) return Refusal::library(why);
  const CudnnPlan& plan = plan_of(*cudnn, a);
  if (!plan.why.empty()) return Refusal::library(plan.why);
  return std::nullopt;
}

void attention_cudnn(const AttentionArgs& a, Stream& stream) {
  std::string why;
  Cudnn* cudnn = Cudnn::of(*stream.gpu, why);
  const CudnnPlan& plan = plan_of(*cudnn, a);
  ArenaScope scope(*stream.arena);
  void* workspace =
      plan.workspace_bytes ? stream.arena->bytes(static_cast<size_t>(plan.workspace_bytes)) : nullptr;
  if (stream.measuring()) return;
  float scale = a.scale;
  std::vector<int64_t> ids{kQ, kK, kV, kOut, kScale};
  std::vector<void*> pointers{a.q.data, a.k.data, a.v.data, a.out.data, &scale};
  if (a.lse.defined()) ids.push_back(kLse), pointers.push_back(a.lse.data);
  if (a.key_bias.defined()) ids.push_back(kKeyBias), pointers.push_back(a.key_bias.data);
  cudnn->execute(plan, ids, pointers, workspace);
}

}  // namespace tachy::ops
