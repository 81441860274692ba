// Times gemm and attention through the engine's own ops at Wan's shapes, each
// implementation by name, and compares the implementations' results with one
// another (the op runner compares small shapes with the definition).
//   gemm_attention [gemm|attention|cross|layout|softmax|f32] …   TACHY_TUNE=gemm measures algorithms first
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "cuda/gpu.h"
#include "cuda/graph.h"
#include "ops/attention/attention.h"
#include "ops/gemm/gemm.h"
#include "ops/impl_table.h"

namespace {

using namespace tachy;

struct Lab {
  std::unique_ptr<cuda::Gpu> gpu = cuda::open_gpu();
  ThreadPool pool{1};
  std::vector<Buffer> buffers;
  std::vector<char> pattern;

  explicit Lab() = default;

  Tensor random(DType dtype, std::initializer_list<int64_t> dims, float scale = 1) {
    int64_t count = 1;
    for (auto d : dims) count *= d;
    const size_t bytes = static_cast<size_t>(count * dtype_size(dtype));
    buffers.emplace_back(bytes, gpu.get());
    // A million normal numbers, repeated with a prime period.
    const int64_t period = std::min<int64_t>(count, 1000003);
    pattern.resize(static_cast<size_t>(period * dtype_size(dtype)));
    std::mt19937 engine(static_cast<uint32_t>(buffers.size()));
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < period; ++i) {
      const float v = scale * normal(engine);
      if (dtype == DType::f32) std::memcpy(pattern.data() + i * 4, &v, 4);
      const uint16_t half = dtype == DType::bf16 ? to_bf16(v).bits : to_f16(v).bits;
      if (dtype != DType::f32) std::memcpy(pattern.data() + i * 2, &half, 2);
    }
    for (size_t at = 0; at < bytes; at += pattern.size())
      gpu->upload(static_cast<char*>(buffers.back().data()) + at, pattern.data(),
                  std::min(pattern.size(), bytes - at));
    return buffers.back().tensor(dtype, dims);
  }
  Tensor poisoned(DType dtype, std::initializer_list<int64_t> dims) {
    int64_t count = 1;
    for (auto d : dims) count *= d;
    buffers.emplace_back(static_cast<size_t>(count * dtype_size(dtype)), gpu.get());
    gpu->fill(buffers.back().data(), 0xff, buffers.back().size());
    return buffers.back().tensor(dtype, dims);
  }

  std::vector<float> sample(const Tensor& t) {  // about 64 Ki values spread over t
    const int64_t bytes = t.numel() * dtype_size(t.dtype), piece = 4096, pieces = 32;
    std::vector<char> raw(static_cast<size_t>(piece));
    std::vector<float> out;
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t at =
          std::max<int64_t>(0, (bytes - piece) / std::max<int64_t>(1, pieces - 1) * p / 16 * 16);
      const int64_t count = std::min(piece, bytes - at);
      gpu->download(raw.data(), static_cast<const char*>(t.data) + at, static_cast<size_t>(count));
      for (int64_t i = 0; i + dtype_size(t.dtype) <= count; i += dtype_size(t.dtype)) {
        uint16_t half;
        float v;
        std::memcpy(&half, raw.data() + i, 2);
        if (t.dtype == DType::f32)
          std::memcpy(&v, raw.data() + i, 4);
        else
          v = t.dtype == DType::bf16 ? to_float(bf16_t{half}) : to_float(f16_t{half});
        out.push_back(v);
      }
    }
    return out;
  }

  // Returns the median µs of one call; errors and reasons are printed.
  template <class Args>
  void time(const char* op, void (*function)(const Args&, Stream&), const Args& args, const Tensor& out,
            std::initializer_list<const char*> impls, double flops, const std::string& what) {
    std::vector<float> first;
    for (const char* impl : impls) {
      try {
        ops::set_forced_impl(op, impl);
        Arena measure;
        Stream s{.arena = &measure,
                 .pool = &pool,
                 .gpu = gpu.get(),
                 .memory = gpu.get(),
                 .precision = {.activation = DType::bf16}};
        function(args, s);
        Arena arena(measure.peak(), gpu.get());
        s.arena = &arena;
        gpu->fill(out.data, 0xff, static_cast<size_t>(out.bytes()));
        const auto graph = cuda::capture(*gpu, [&] { function(args, s); });
        graph->launch();
        std::vector<double> times;
        for (double total = 0; times.size() < 5 || (total < 250e3 && times.size() < 60);
             total += times.back())
          times.push_back(cuda::device_us(*gpu, [&] { graph->launch(); }));
        std::sort(times.begin(), times.end());
        const double us = times[times.size() / 2];
        const auto got = sample(out);
        if (first.empty()) first = got;
        double worst = 0, high = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const double e = std::abs(static_cast<double>(got[i]) - first[i]);
          worst = e <= worst ? worst : std::isnan(e) ? INFINITY : e;
          high = std::max(high, std::abs(static_cast<double>(first[i])));
        }
        fmt::print(
            "{:14} {:52} {:10.1f} us (min {:10.1f}) {:7.1f} TFLOP/s  {:3} nodes, {:.0f} MiB; off by {:.1e} "
            "of {:.2f}\n",
            impl, what, us, times[0], flops / us * 1e-6, graph->nodes(),
            static_cast<double>(arena.capacity()) / 1048576, worst, high);
      } catch (const std::exception& error) {
        fmt::print("{:14} {:52} {}\n", impl, what, error.what());
      }
      std::fflush(stdout);
    }
    ops::set_forced_impl(op, nullptr);
  }

  struct GemmSpec {
    int64_t m, n, k;
    ops::Activation act = ops::Activation::none;
    bool residual = false, gate = false, multiply = false, wide = false;
  };
  void gemm(const GemmSpec& s, DType dtype = DType::bf16) {
    buffers.clear();
    const DType out = s.wide ? DType::f32 : dtype;
    ops::GemmArgs a{.x = random(dtype, {s.m, s.k}), .act = s.act};
    a.weight = random(dtype, {s.n, s.k}, 1.0f / std::sqrt(static_cast<float>(s.k)));
    a.bias = random(out, {s.n});
    if (s.residual) a.residual = random(out, {s.m, s.n});
    if (s.gate) a.gate = random(DType::f32, {1, s.n});
    if (s.multiply) a.multiply = random(dtype, {s.m, s.n});
    a.y = poisoned(out, {s.m, s.n});
    time("gemm", ops::gemm, a, a.y, {"cublaslt"},
         2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k),
         fmt::format("{} {}x{}x{} act{}{}{}{}{}", dtype_name(dtype), s.m, s.n, s.k, static_cast<int>(s.act),
                     s.residual ? " residual" : "", s.gate ? " gate" : "", s.multiply ? " multiply" : "",
                     s.wide ? " to f32" : ""));
  }
  struct AttentionSpec {
    int64_t b, lq, lk, h, d;
    bool fused = false, key_bias = false, bias = false, causal = false;
  };
  void attention(const AttentionSpec& s, std::initializer_list<const char*> impls,
                 DType dtype = DType::bf16) {
    buffers.clear();
    ops::AttentionArgs a{.scale = 1.0f / std::sqrt(static_cast<float>(s.d)), .causal = s.causal};
    if (s.fused) {
      const Tensor qkv = random(dtype, {s.b, s.lq, 3, s.h, s.d});
      a.q = qkv.select(2, 0), a.k = qkv.select(2, 1), a.v = qkv.select(2, 2);
    } else {
      a.q = random(dtype, {s.b, s.lq, s.h, s.d});
      a.k = random(dtype, {s.b, s.lk, s.h, s.d}), a.v = random(dtype, {s.b, s.lk, s.h, s.d});
    }
    if (s.key_bias) a.key_bias = random(DType::f32, {s.b, s.lk}), a.finite_bias = true;
    if (s.bias) a.bias = random(DType::f32, {s.h, s.lq, s.lk});
    a.out = poisoned(dtype, {s.b, s.lq, s.h, s.d});
    const double pairs = static_cast<double>(s.lq) * static_cast<double>(s.lk) / (s.causal ? 2 : 1);
    time("attention", ops::attention, a, a.out, impls, 4.0 * static_cast<double>(s.b * s.h * s.d) * pairs,
         fmt::format("{} B{} {}x{} H{} d{}{}{}{}{}", dtype_name(dtype), s.b, s.lq, s.lk, s.h, s.d,
                     s.fused ? " qkv" : "", s.key_bias ? " key bias" : "", s.bias ? " bias" : "",
                     s.causal ? " causal" : ""));
  }

  // Times self-attention on 32,760 tokens with q, k and v in different layouts in memory. The layouts
  // alternate, under load.
  void layouts(int64_t heads, int rounds) {
    buffers.clear();
    const int64_t n = 32760, d = 128;
    const Tensor qkv = random(DType::bf16, {1, n, 3, heads, d});
    const auto rows = [&] { return random(DType::bf16, {1, n, heads, d}); };
    const auto by_head = [&] {
      Tensor t = random(DType::bf16, {1, heads, n, d});
      std::swap(t.dims[1], t.dims[2]), std::swap(t.strides[1], t.strides[2]);
      return t;
    };
    const Tensor out = poisoned(DType::bf16, {1, n, heads, d});
    const float scale = 1 / std::sqrt(static_cast<float>(d));
    const std::pair<const char*, ops::AttentionArgs> all[] = {
        {"slices", {.q = qkv.select(2, 0), .k = qkv.select(2, 1), .v = qkv.select(2, 2)}},
        {"q, k apart", {.q = rows(), .k = rows(), .v = qkv.select(2, 2)}},
        {"all apart", {.q = rows(), .k = rows(), .v = rows()}},
        {"by head", {.q = by_head(), .k = by_head(), .v = by_head()}}};
    std::vector<std::vector<double>> times(std::size(all));
    Arena arena(size_t{64} << 20, gpu.get());
    Stream s{.arena = &arena,
             .pool = &pool,
             .gpu = gpu.get(),
             .memory = gpu.get(),
             .precision = {.activation = DType::bf16}};
    for (int r = 0; r <= rounds; ++r)
      for (size_t i = 0; i < std::size(all); ++i) {
        ops::AttentionArgs a = all[i].second;
        a.scale = scale, a.out = out;
        const double us = cuda::device_us(*gpu, [&] { ops::attention(a, s); });
        if (r > 0) times[i].push_back(us);
      }
    for (size_t i = 0; i < std::size(all); ++i) {
      std::sort(times[i].begin(), times[i].end());
      const double us = times[i][times[i].size() / 2];
      fmt::print("H{} {:12} {:10.1f} us (min {:10.1f}) {:7.1f} TFLOP/s\n", heads, all[i].first, us,
                 times[i][0], 4.0 * static_cast<double>(heads * n * d) * static_cast<double>(n) / us * 1e-6);
    }
    std::fflush(stdout);
  }
};

void run(int argc, char** argv) {
  Lab lab;
  fmt::print("{}\n", lab.gpu->info().name);
  using enum ops::Activation;
  for (int i = 1; i < argc; ++i) {
    const std::string part = argv[i];
    if (part == "gemm") {
      const int64_t m = 32760;
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{4608, 1536},
                                 {1536, 1536},
                                 {1536, 8960},
                                 {15360, 5120},
                                 {5120, 5120},
                                 {5120, 13824}})
        lab.gemm({m, n, k});
      lab.gemm({m, 8960, 1536, gelu_tanh}), lab.gemm({m, 13824, 5120, gelu_tanh});
      lab.gemm({.m = m, .n = 1536, .k = 1536, .residual = true}),
          lab.gemm({.m = m, .n = 1536, .k = 8960, .residual = true});
      lab.gemm({.m = m, .n = 5120, .k = 13824, .residual = true});
      lab.gemm({.m = m, .n = 1536, .k = 8960, .residual = true, .gate = true});
      lab.gemm({.m = m, .n = 1536, .k = 1536, .residual = true, .gate = true, .wide = true});
      lab.gemm({m, 8960, 1536, silu});
      lab.gemm({512, 10240, 4096, gelu_tanh}), lab.gemm({.m = 512, .n = 10240, .k = 4096, .multiply = true});
      lab.gemm({512, 4096, 10240}), lab.gemm({2, 9216, 1536, silu}, DType::f32);
    } else if (part == "attention") {
      lab.attention({1, 32760, 32760, 12, 128, true}, {"cudnn", "flash_sm80"});
      lab.attention({1, 32760, 32760, 40, 128, true}, {"cudnn", "flash_sm80"});
      lab.attention({1, 75600, 75600, 12, 128, true}, {"cudnn"});
      lab.attention({1, 32760, 512, 12, 128}, {"cudnn", "flash_sm80"});
      lab.attention({1, 32760, 512, 40, 128}, {"cudnn", "flash_sm80"});
      lab.attention({1, 32760, 160, 12, 128}, {"cudnn", "flash_sm80"});
      lab.attention({.b = 1, .lq = 32760, .lk = 160, .h = 12, .d = 128, .key_bias = true},
                    {"flash_sm80", "softmax_gemm"});
      lab.attention({.b = 1, .lq = 32760, .lk = 512, .h = 12, .d = 128, .key_bias = true}, {"flash_sm80"});
      lab.attention({.b = 1, .lq = 512, .lk = 512, .h = 64, .d = 64, .key_bias = true, .bias = true},
                    {"flash_sm80", "softmax_gemm"});
      lab.attention({1, 32760, 32760, 12, 64}, {"cudnn", "flash_sm80"});
      lab.attention({2, 576, 576, 6, 64, true}, {"cudnn", "flash_sm80"});
      lab.attention({.b = 1, .lq = 16384, .lk = 16384, .h = 12, .d = 128, .causal = true}, {"flash_sm80"});
    } else if (part == "cross") {  // a prompt's keys, either collapsed (with a bias) or all 512
      for (const int64_t heads : {12, 40}) {
        for (const int64_t keys : {40, 78, 128, 200})
          lab.attention({.b = 1, .lq = 32760, .lk = keys, .h = heads, .d = 128, .key_bias = true},
                        {"flash_sm80", "few_keys", "cudnn"});
        lab.attention({1, 32760, 128, heads, 128}, {"cudnn", "flash_sm80", "few_keys"});
        lab.attention({1, 32760, 512, heads, 128}, {"cudnn"});
      }
    } else if (part == "layout") {
      lab.layouts(12, 24), lab.layouts(40, 8);
    } else if (part == "softmax") {
      lab.attention({1, 6240, 6240, 1, 384}, {"softmax_gemm", "cuda_plain"});
      lab.attention({4, 6240, 6240, 1, 384}, {"softmax_gemm"});
      lab.attention({1, 14400, 14400, 1, 384}, {"softmax_gemm"});
      lab.attention({1, 3520, 3520, 1, 1024}, {"softmax_gemm", "cuda_plain"});
    } else if (part == "f32") {
      lab.attention({1, 4096, 4096, 12, 128}, {"softmax_gemm", "cuda_plain"}, DType::f32);
      lab.attention({1, 6240, 6240, 1, 384}, {"softmax_gemm", "cuda_plain"}, DType::f32);
      lab.gemm({4096, 1536, 1536}, DType::f32), lab.gemm({4096, 1536, 1536}, DType::f16);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return 1;
  }
}
