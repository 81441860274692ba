// Times tiles of the Hopper flash attention, and cuDNN's, on data like a model's (with rows whose norm is 1
// per value, and a mean and outlier channels in k), and compares each result with cuDNN's.
//   flash90_variants [NAME …]     of the variants below; built on demand (target lab_flash90); medians
// "listed 30" is block-sparse attention in which every block of queries lists 30 of 100 blocks of keys
// ("uneven": the blocks are drawn one by one). In "chosen 30" choose_blocks makes the lists, within the
// measured time. The TFLOP/s of these count only the listed blocks, and for the first shape the results are
// compared with cuda_plain's. Further shapes are head dim 64 and causal masks ("causal" by flash_sm90.cuh,
// "causal, sm80"), whose TFLOP/s count the visible pairs. Queries carry scale·log2(e); "maximum" subtracts
// the largest score of a row's first step all the same.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/graph.h"
#include "ops/attention/flash_sm90_launch.cuh"
#include "ops/choose_blocks/choose_blocks.h"

namespace tachy::ops {
void set_forced_impl(const char* op, const char* name);  // in impl_table.h, which nvcc does not accept
}
using namespace tachy;
using T = __nv_bfloat16;

// Fills x[l, h, c] of one tensor with normal numbers; q is multiplied by scale·log2(e); k gets 2·mean[h, c]
// added, and 4 times the values in every 37th channel.
__global__ void fill(T* p, int64_t tokens, int64_t step, int width, uint32_t seed, bool is_k, float factor) {
  const int64_t n = tokens * width;
  const auto normal = [](uint64_t x) {
    x *= 0x9e3779b97f4a7c15ull, x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 27;
    x *= 0x94d049bb133111ebull, x ^= x >> 31;
    const float u = (uint32_t(x) + 1.0f) / 4294967808.0f, w = uint32_t(x >> 32) / 4294967296.0f;
    return sqrtf(-2 * logf(u)) * cospif(2 * w);
  };
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x) {
    float x = normal(i + 1 + (uint64_t(seed) << 40));
    const int64_t row = i / width, in_row = i % width;
    if (is_k) {
      x += 2 * normal(in_row + 1 + (uint64_t(seed + 7) << 40));
      if (in_row % 128 % 37 == 0) x *= 4;
    }
    p[row * step + in_row] = __float2bfloat16(x * factor);
  }
}

struct Shape {
  int heads, lq, lk, d = 128;
  bool causal = false;
};

struct Variant {
  const char* name;
  std::function<void(const ops::AttentionArgs&, Stream&)> run;
  int listed = 0;  // how many of 100 blocks are listed; 0 means no lists
  bool uneven = false, chosen = false;
  bool causal = false, any_dim = false;  // causal is for a causal shape, any_dim for any head dim
};

template <int kKeys, int kCluster, bool kBare = true>
void tile(const ops::AttentionArgs& a, Stream& s) {
  ops::flash::run90<T, 128, kKeys, kCluster, kBare>(a, s);
}
void by_table(const char* name, const ops::AttentionArgs& a, Stream& s) {
  ops::set_forced_impl("attention", name);
  ops::attention(a, s);
  ops::set_forced_impl("attention", nullptr);
}

void by_eight_bits(const ops::AttentionArgs& a, Stream& s) {
  ops::AttentionArgs eight = a;
  eight.eight_bits = true;
  by_table("flash8_sm90_any", eight, s);
}

// Runs attention over the same keys as two ranges: a cache, whose length only the device knows, and the last
// 4,680 tokens (or half of them).
void in_ranges(const char* name, const ops::AttentionArgs& a, Stream& s) {
  const int64_t keys = a.k.dims[1], cached = keys > 9360 ? keys - 4680 : keys / 2;
  static Buffer memory(4, s.memory);
  ops::AttentionArgs two = a;
  two.k = a.k.slice(1, 0, cached), two.v = a.v.slice(1, 0, cached);
  two.length = memory.tensor(DType::i32, {1}), two.length.device = a.k.device;
  two.more = {{.k = a.k.slice(1, cached, keys), .v = a.v.slice(1, cached, keys)}};
  if (s.measuring()) {
    const auto length = static_cast<int32_t>(cached);
    cudaMemcpy(two.length.data, &length, 4, cudaMemcpyHostToDevice);
  }
  by_table(name, two, s);
}

// Lists on the GPU, one for each block of queries of each head.
struct Listed {
  Buffer indices, counts;
  ops::BlockLists lists;
  double share = 1;  // fraction of all (query, key) pairs
};
Listed make_lists(const Variant& v, const Shape& shape, cuda::Gpu* gpu) {
  const int64_t queries = ops::BlockLists::blocks_of(shape.lq), keys = ops::BlockLists::blocks_of(shape.lk);
  const int64_t each = std::max<int64_t>(1, (v.listed * keys + 50) / 100), count = shape.heads * queries;
  const int64_t capacity = v.uneven ? keys : each;
  std::vector<int32_t> indices(static_cast<size_t>(count * capacity)), counts(static_cast<size_t>(count)),
      order(static_cast<size_t>(keys));
  std::mt19937 engine(1);
  double pairs = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), engine);
    int64_t n = each;
    if (v.uneven) n = std::binomial_distribution<int>(static_cast<int>(keys), v.listed * 0.01)(engine);
    std::sort(order.begin(), order.begin() + n);
    std::copy_n(order.begin(), n, indices.begin() + i * capacity);
    counts[static_cast<size_t>(i)] = static_cast<int32_t>(n);
    const double rows = std::min<double>(128, shape.lq - i % queries * 128.0);
    for (int64_t j = 0; j < n; ++j) pairs += rows * std::min(128.0, shape.lk - order[j] * 128.0);
  }
  Listed made{Buffer(indices.size() * 4, gpu), Buffer(counts.size() * 4, gpu)};
  gpu->upload(made.indices.data(), indices.data(), indices.size() * 4);
  gpu->upload(made.counts.data(), counts.data(), counts.size() * 4);
  made.lists.indices = made.indices.tensor(DType::i32, {1, shape.heads, queries, capacity});
  made.lists.counts = made.counts.tensor(DType::i32, {1, shape.heads, queries});
  made.share = pairs / (static_cast<double>(shape.heads) * shape.lq * shape.lk);
  return made;
}
void in_lists(const ops::AttentionArgs& a, Stream& s) { by_table("blocks_sm90", a, s); }
void chosen(const ops::AttentionArgs& a, Stream& s) {
  ops::choose_blocks({a.q, a.k, a.blocks.indices.dims[3], a.blocks.indices, a.blocks.counts}, s);
  in_lists(a, s);
}

// The end of cuda_plain's result for the same lists.
std::vector<T> plain_result(const ops::AttentionArgs& a, Stream& s, cuda::Gpu& gpu, size_t bytes) {
  by_table("cuda_plain", a, s);
  std::vector<T> values(bytes / 2);
  gpu.download(values.data(), static_cast<char*>(a.out.data) + a.out.bytes() - bytes, bytes);
  return values;
}

int main(int argc, char** argv) {
  const std::vector<Variant> variants = {
      {.name = "cudnn", .run = [](auto& a, auto& s) { by_table("cudnn", a, s); }, .any_dim = true},
      {.name = "by table",
       .run = [](auto& a, auto& s) { by_table("flash_sm90_any", a, s); },
       .any_dim = true},
      {.name = "causal, sm80", .run = [](auto& a, auto& s) { by_table("flash_sm80", a, s); }, .causal = true},
      {.name = "causal", .run = [](auto& a, auto& s) { by_table("masks_sm90", a, s); }, .causal = true},
      {"192x2, maximum", tile<192, 2, false>},
      {"192x2", tile<192, 2>},
      {"192x1", tile<192, 1>},
      {"128x2", tile<128, 2>},
      {"128x1", tile<128, 1>},
      {"8 bits", by_eight_bits},
      {"two ranges", [](auto& a, auto& s) { in_ranges("ranges_sm90", a, s); }},
      {"two ranges, sm80", [](auto& a, auto& s) { in_ranges("ranges_sm80", a, s); }},
      {"listed all", in_lists, 100},
      {"listed 70", in_lists, 70},
      {"listed 50", in_lists, 50},
      {"listed 30", in_lists, 30},
      {"listed 10", in_lists, 10},
      {"listed 30 uneven", in_lists, 30, true},
      {"chosen 30", chosen, 30, false, true},
  };
  auto gpu = cuda::open_gpu();
  ThreadPool pool(1);
  const auto queue = static_cast<cudaStream_t>(gpu->stream());
  for (const Shape shape : {Shape{12, 32760, 32760}, Shape{40, 32760, 32760}, Shape{12, 4680, 32760},
                            Shape{40, 32760, 512}, Shape{12, 32760, 512}, Shape{40, 75600, 75600},
                            Shape{24, 32760, 32760, 64}, Shape{12, 32760, 32760, 128, true},
                            Shape{32, 4096, 4096, 128, true}, Shape{32, 4096, 4096, 64, true}}) {
    const int width = shape.heads * shape.d;
    const bool self = shape.lq == shape.lk;
    const auto make = [&](int64_t tokens, int64_t parts) {
      Buffer b(static_cast<size_t>(tokens * parts * width * 2), gpu.get());
      return b;
    };
    Buffer qb = make(shape.lq, self ? 3 : 1), kvb = make(self ? 1 : shape.lk, self ? 1 : 2),
           ob = make(shape.lq, 1);
    Tensor q, k, v;
    if (self) {
      Tensor qkv = qb.tensor(DType::bf16, {1, shape.lq, 3, shape.heads, shape.d});
      q = qkv.select(2, 0), k = qkv.select(2, 1), v = qkv.select(2, 2);
    } else {
      q = qb.tensor(DType::bf16, {1, shape.lq, shape.heads, shape.d});
      Tensor kv = kvb.tensor(DType::bf16, {1, shape.lk, 2, shape.heads, shape.d});
      k = kv.select(2, 0), v = kv.select(2, 1);
    }
    Tensor out = ob.tensor(DType::bf16, {1, shape.lq, shape.heads, shape.d});
    fill<<<1056, 256, 0, queue>>>(static_cast<T*>(q.data), shape.lq, q.strides[1], width, 1, false,
                                  1.44269504f / std::sqrt(static_cast<float>(shape.d)));
    fill<<<1056, 256, 0, queue>>>(static_cast<T*>(k.data), shape.lk, k.strides[1], width, 2, true, 1);
    fill<<<1056, 256, 0, queue>>>(static_cast<T*>(v.data), shape.lk, v.strides[1], width, 3, false, 1);
    ops::AttentionArgs all{.q = q, .k = k, .v = v, .scale = 0.69314718f};
    all.out = out, all.causal = shape.causal;
    const double seen = shape.causal ? (shape.lk + 1) / 2.0 : shape.lk;
    const double all_flops = 4.0 * shape.heads * shape.lq * seen * shape.d;
    const size_t sampled = std::min<size_t>(static_cast<size_t>(out.bytes()), 64 << 20);
    std::vector<T> first, got(sampled / 2);
    const bool first_shape = shape.heads == 12 && self && !shape.causal;
    for (const Variant& variant : variants) {
      if (argc > 1 &&
          std::none_of(argv + 1, argv + argc, [&](char* n) { return !std::strcmp(n, variant.name); }))
        continue;
      if (variant.chosen && !self) continue;  // choose_blocks needs queries and keys of the same tokens
      if (variant.causal != shape.causal || (shape.d != 128 && !variant.any_dim && !variant.causal)) continue;
      try {
        ops::AttentionArgs a = all;
        Listed listed;
        if (variant.listed > 0) listed = make_lists(variant, shape, gpu.get()), a.blocks = listed.lists;
        const double flops = all_flops * listed.share;
        Arena measure;
        Stream s{.arena = &measure,
                 .pool = &pool,
                 .gpu = gpu.get(),
                 .memory = gpu.get(),
                 .precision = {.activation = DType::bf16}};
        variant.run(a, s);
        Arena arena(measure.peak(), gpu.get());
        s.arena = &arena;
        gpu->fill(out.data, 0xff, static_cast<size_t>(out.bytes()));
        const auto graph = cuda::capture(*gpu, [&] { variant.run(a, s); });
        graph->launch();
        std::vector<double> times;
        for (double total = 0; times.size() < 5 || (total < 300e3 && times.size() < 40);
             total += times.back())
          times.push_back(cuda::device_us(*gpu, [&] { graph->launch(); }));
        std::sort(times.begin(), times.end());
        const double us = times[times.size() / 2];
        // Compares the end of the result, where there are shares and odd tails.
        gpu->download(got.data(), static_cast<char*>(out.data) + out.bytes() - sampled, sampled);
        if (first.empty() && variant.listed == 0) first = got;
        std::vector<T> want = first;
        if (variant.listed > 0) want = first_shape ? plain_result(a, s, *gpu, sampled) : got;
        double dot = 0, aa = 0, bb = 0, diff = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const double x = float(got[i]), y = float(want[i]);
          dot += x * y, aa += x * x, bb += y * y, diff += (x - y) * (x - y);
        }
        std::printf("%2d x %5d x %5d%s  %-22s %9.1f us (min %9.1f) %6.1f TFLOP/s  off by %.2e of its norm\n",
                    shape.heads, shape.lq, shape.lk, shape.d == 64 ? " x 64" : "", variant.name, us, times[0],
                    flops / us * 1e-6, std::sqrt(diff / bb));
      } catch (const std::exception& error) {
        std::printf("%2d x %5d x %5d%s  %-22s %s\n", shape.heads, shape.lq, shape.lk,
                    shape.d == 64 ? " x 64" : "", variant.name, error.what());
      }
      std::fflush(stdout);
    }
  }
}
