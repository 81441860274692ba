#include "gpu_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "cuda/graph.h"
#include "cuda/runtime.h"
#include "ops/attention/attention.h"
#include "ops/gemm/gemm.h"

namespace tachy::bench {
namespace {

class EventProfiler final : public Profiler {
 public:
  explicit EventProfiler(cudaStream_t stream) : stream_(stream) {}
  ~EventProfiler() override {
    for (const Range& r : ranges_)
      for (cudaEvent_t event : {r.start, r.stop})
        if (event) cudaEventDestroy(event);
  }
  uint64_t begin(const char* name, ProfileKind kind, int64_t) override {
    ranges_.push_back({name, kind});
    mark(ranges_.back().start);
    return ranges_.size() - 1;
  }
  void end(uint64_t token) override { mark(ranges_.at(token).stop); }

  // Milliseconds by name, without groups (which hold others); "attention" appears twice per block, for self-
  // and then for cross-attention.
  std::map<std::string, double> totals() const {
    std::map<std::string, double> out;
    std::map<std::string, int> seen;
    for (const Range& r : ranges_) {
      if (r.kind == ProfileKind::group) {
        if (std::strcmp(r.name, "block") == 0) seen.clear();
        continue;
      }
      float ms = 0;
      cuda::check_cuda(cudaEventElapsedTime(&ms, r.start, r.stop), "cudaEventElapsedTime");
      const int nth = seen[r.name]++;
      const bool cross =
          nth == 1 && (std::strcmp(r.name, "attention") == 0 || std::strcmp(r.name, "out") == 0);
      out[cross ? fmt::format("{} (cross)", r.name) : r.name] += static_cast<double>(ms);
    }
    return out;
  }

 private:
  struct Range {
    const char* name;
    ProfileKind kind;
    cudaEvent_t start = nullptr, stop = nullptr;
  };
  void mark(cudaEvent_t& event) {
    cuda::check_cuda(cudaEventCreate(&event), "cudaEventCreate");
    cuda::check_cuda(cudaEventRecord(event, stream_), "cudaEventRecord");
  }
  cudaStream_t stream_;
  std::vector<Range> ranges_;
};

// Runs one block's attention and GEMM calls on random tensors with the true shapes.
class Products {
 public:
  Products(const WanConfig& c, const ForwardShape& s, Stream& stream) : c_(c), gpu_(*stream.gpu) {
    const int64_t dim = c.dim(), n = s.tokens;
    const auto linear = [&](int64_t in, int64_t out) {
      return std::pair{random({out, in}, 1.0f / std::sqrt(static_cast<float>(in))), random({out}, 0.1f)};
    };
    u_ = random({n, dim}), a_ = random({n, dim}), y_ = random({n, dim}), q_ = random({n, dim});
    qkv_ = random({n, 3 * dim}), hidden_ = random({n, c.ffn_dim});
    k_ = random({s.keys, dim}), v_ = random({s.keys, dim});
    if (s.key_bias) bias_ = random({1, s.keys}, 1, DType::f32);
    wqkv_ = linear(dim, 3 * dim), wo_ = linear(dim, dim), wq_ = linear(dim, dim), wo2_ = linear(dim, dim);
    up_ = linear(dim, c.ffn_dim), down_ = linear(c.ffn_dim, dim);
  }

  void block(Stream& stream) const {
    using ops::Activation;
    const auto gemm = [&](const Tensor& x, const std::pair<Tensor, Tensor>& w, const Tensor& y,
                          Activation act = Activation::none) {
      ops::gemm({.x = x, .weight = w.first, .bias = w.second, .act = act, .y = y}, stream);
    };
    const int64_t heads = c_.num_heads, d = c_.head_dim, n = u_.dims[0];
    const float scale = 1.0f / std::sqrt(static_cast<float>(d));
    const auto split = [&](const Tensor& t) { return t.view({1, t.dims[0], heads, d}); };
    const Tensor joined = qkv_.view({1, n, 3 * heads, d});
    const auto part_of = [&](int64_t i) { return joined.slice(2, i * heads, (i + 1) * heads); };
    ProfileRange part(stream.hooks.profiler, "block", ProfileKind::group);
    ProfileRange leaf(stream.hooks.profiler, "q, k, v", ProfileKind::linear);
    gemm(u_, wqkv_, qkv_);
    leaf.next("attention", ProfileKind::attention);
    ops::attention({.q = part_of(0), .k = part_of(1), .v = part_of(2), .scale = scale, .out = split(a_)},
                   stream);
    leaf.next("out", ProfileKind::linear);
    gemm(a_, wo_, y_);
    leaf.next("q", ProfileKind::linear);
    gemm(u_, wq_, q_);
    leaf.next("attention", ProfileKind::attention);
    ops::attention(
        {.q = split(q_), .k = split(k_), .v = split(v_), .key_bias = bias_, .scale = scale, .out = split(a_)},
        stream);
    leaf.next("out", ProfileKind::linear);
    gemm(a_, wo2_, y_);
    leaf.next("up + gelu", ProfileKind::linear);
    gemm(u_, up_, hidden_, Activation::gelu_tanh);
    leaf.next("down", ProfileKind::linear);
    gemm(hidden_, down_, y_);
  }

 private:
  Tensor random(std::initializer_list<int64_t> dims, float size = 1, DType dtype = DType::bf16) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    const size_t bytes = static_cast<size_t>(count * dtype_size(dtype));
    buffers_.emplace_back(bytes, &gpu_);
    std::mt19937 engine(static_cast<uint32_t>(buffers_.size()));
    std::normal_distribution<float> normal(0, size);
    std::vector<char> some(static_cast<size_t>(std::min<int64_t>(count, 1000003) * dtype_size(dtype)));
    for (size_t at = 0; at < some.size(); at += static_cast<size_t>(dtype_size(dtype))) {
      const float v = normal(engine);
      const uint16_t low = to_bf16(v).bits;
      std::memcpy(some.data() + at, dtype == DType::f32 ? static_cast<const void*>(&v) : &low,
                  static_cast<size_t>(dtype_size(dtype)));
    }
    for (size_t at = 0; at < bytes; at += some.size())
      gpu_.upload(static_cast<char*>(buffers_.back().data()) + at, some.data(),
                  std::min(some.size(), bytes - at));
    return buffers_.back().tensor(dtype, dims);
  }

  const WanConfig& c_;
  cuda::Gpu& gpu_;
  std::vector<Buffer> buffers_;
  Tensor u_, a_, y_, q_, qkv_, hidden_, k_, v_, bias_;
  std::pair<Tensor, Tensor> wqkv_, wo_, wq_, wo2_, up_, down_;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

}  // namespace

void report_forward(const WanConfig& config, const ForwardShape& shape, Stream& stream, int repeats,
                    const std::function<void()>& forward) {
  cuda::Gpu& gpu = *stream.gpu;
  const Products products(config, shape, stream);
  const auto all = [&] {
    for (int64_t i = 0; i < config.num_layers; ++i) products.block(stream);
  };
  const auto profiled = [&](const std::function<void()>& work) {
    EventProfiler profiler(static_cast<cudaStream_t>(gpu.stream()));
    work();
    stream.hooks.profiler = &profiler;
    work();
    stream.hooks.profiler = nullptr;
    gpu.synchronize();
    return profiler.totals();
  };
  const auto ours = profiled(forward), alone = profiled(all);
  fmt::print("  {:30} {:>10} {:>10}\n", "ms by op, all blocks", "forward", "alone");
  for (const auto& [name, ms] : ours)
    fmt::print("  {:30} {:10.3f} {:>10}\n", name, ms,
               alone.contains(name) ? fmt::format("{:.3f}", alone.at(name)) : "");

  const auto graph = cuda::capture(gpu, forward), calls = cuda::capture(gpu, all);
  std::map<std::string, int> counts;
  int kernels = 0;
  for (const auto& name : graph->names()) ++counts[name], kernels += name != "memset" && name != "copy";
  fmt::print("  nodes: {} kernels of {}:", kernels, graph->nodes());
  for (const auto& [name, count] : counts) fmt::print(" {} x {},", count, name);
  fmt::print("\n");
  std::vector<double> whole, part;
  for (int i = 0; i <= repeats; ++i) {  // they alternate; the first round warms up
    const double a = cuda::device_us(gpu, [&] { graph->launch(); }) / 1000;
    const double b = cuda::device_us(gpu, [&] { calls->launch(); }) / 1000;
    if (i > 0) whole.push_back(a), part.push_back(b);
  }
  const double a = median(whole), b = median(part);
  fmt::print("  forward {:.2f} ms, its attention and GEMM calls alone {:.2f} ms: {:.2f} % less\n", a, b,
             100 * (a - b) / a);
  std::fflush(stdout);
}

}  // namespace tachy::bench
