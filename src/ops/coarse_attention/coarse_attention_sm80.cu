// The first kernel computes the means, with one thread per channel of a block: q, k and v are read once. The second has
// a block of threads for kEach lists of a head, which share what they read of the mean keys and values:
//
//   scores   a thread has one block of keys and kEach mean queries, in float64 and in the definition's order, so that
//            the lists are the same
//   choice   a warp for each list finds the keep-th largest score bit by bit, from the highest on, until just `keep`
//            scores are at least as large
//   out      weights in float32, and their products with the mean values, a thread for each channel
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "device/reduce.cuh"
#include "device/token_span.cuh"
#include "ops/coarse_attention/coarse_attention_impl.h"

namespace tachy::ops {
namespace {

constexpr int kMeanThreads = 128, kThreads = 256;
constexpr int kMany = 8,
              kFew = 2;  // lists of a block of threads, the fewer where there are many blocks of keys

struct Means {
  const void* x;
  int64_t batch, row, head;  // strides
  const int32_t* ends;       // null for blocks of kCoarseTokens
  float* means;              // [B, H, blocks, D], or [B, H, D, blocks] if `across`
  int tokens, heads, d, blocks;
  bool across;
};

// Grid: (blocks of tokens, heads, batch).
template <class T>
__global__ void __launch_bounds__(kMeanThreads) coarse_means_kernel(const Means p) {
  const int block = blockIdx.x, head = blockIdx.y;
  const int64_t b = blockIdx.z, list = (b * p.heads + head) * p.blocks;
  const device::TokenSpan tokens =
      device::token_span(p.ends, block, p.tokens, static_cast<int>(kCoarseTokens), p.tokens);
  const int count = tokens.end - tokens.first;
  for (int c = threadIdx.x; c < p.d; c += kMeanThreads) {
    const T* from = static_cast<const T*>(p.x) + b * p.batch + tokens.first * p.row + head * p.head + c;
    double sum = 0;
#pragma unroll 16
    for (int t = 0; t < count; ++t) sum += static_cast<double>(device::as_float(from[t * p.row]));
    const auto mean = static_cast<float>(sum / static_cast<double>(count));
    p.means[p.across ? list * p.d + int64_t{c} * p.blocks + block : (list + block) * p.d + c] = mean;
  }
}

struct Coarse {
  const float *q, *k, *v;  // means [B, H, queries, D], [B, H, D, keys], and [B, H, keys, D] or null
  float* out;              // [B, queries, H, D]
  int32_t *indices, *counts;
  int queries, keys, heads, d, keep;
  float scale;
};

// Numbers in the order of the scores. Both zeros are the same.
__device__ __forceinline__ uint64_t in_order(double score) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(score + 0.0));
  return bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
}

// Lists the `keep` blocks with the largest scores; called by a warp.
__device__ inline void take_best(const double* scores, int keys, int keep, int32_t* list) {
  const int lane = threadIdx.x % 32;
  const auto count_if = [&](auto&& test) {
    int count = 0;
    for (int j = lane; j < keys; j += 32) count += test(in_order(scores[j]));
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) count += __shfl_xor_sync(~0u, count, offset);
    return count;
  };
  uint64_t least = 0;  // of the scores that are kept
  for (int bit = 63; bit >= 0; --bit) {
    const uint64_t more = least | uint64_t{1} << bit;
    const int count = count_if([&](uint64_t x) { return x >= more; });
    if (count < keep) continue;
    least = more;
    if (count == keep) break;
  }
  const int above = count_if([&](uint64_t x) { return x > least; });
  int listed = 0, equal = 0;
  for (int first = 0; first < keys; first += 32) {
    const int j = first + lane;
    const uint64_t x = j < keys ? in_order(scores[j]) : 0;
    const unsigned before = (1u << lane) - 1, ties = __ballot_sync(~0u, j < keys && x == least);
    const bool kept = j < keys && (x > least || (x == least && equal + __popc(ties & before) < keep - above));
    const unsigned all = __ballot_sync(~0u, kept);
    if (kept) list[listed + __popc(all & before)] = j;
    listed += __popc(all), equal += __popc(ties);
  }
}

// Grid: (queries / kEach, heads of the whole batch).
template <int kEach>
__global__ void __launch_bounds__(kThreads) coarse_kernel(const Coarse p) {
  extern __shared__ __align__(16) char shared[];
  auto* queries = reinterpret_cast<double*>(shared);                           // [d][kEach]
  auto* scores = queries + int64_t{p.d} * kEach;                               // [kEach][keys]
  auto* weights = reinterpret_cast<float*>(scores + int64_t{p.keys} * kEach);  // [keys][kEach]
  __shared__ float totals[kEach];
  __shared__ float halves[kEach][128];
  const int first = blockIdx.x * kEach, lists = min(kEach, p.queries - first);
  const int64_t head = blockIdx.y;
  const float *q = p.q + (head * p.queries + first) * p.d, *k = p.k + head * p.keys * p.d;
  for (int i = threadIdx.x; i < p.d * kEach; i += kThreads) {
    const int r = i / p.d, c = i % p.d;
    queries[c * kEach + r] = r < lists ? static_cast<double>(q[r * p.d + c]) : 0.0;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < p.keys; j += kThreads) {
    double sum[kEach] = {};
#pragma unroll 4
    for (int c = 0; c < p.d; ++c) {
      const auto key = static_cast<double>(k[int64_t{c} * p.keys + j]);
#pragma unroll
      for (int r = 0; r < kEach; ++r) sum[r] = fma(queries[c * kEach + r], key, sum[r]);
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r) scores[r * p.keys + j] = isnan(sum[r]) ? -INFINITY : sum[r];
  }
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < lists) {
    const int64_t list = head * p.queries + first + warp;
    const double* own = scores + warp * p.keys;
    take_best(own, p.keys, p.keep, p.indices + list * p.keep);
    if (lane == 0) p.counts[list] = p.keep;
    if (p.out) {
      float most = -INFINITY;
      for (int j = lane; j < p.keys; j += 32) most = fmaxf(most, static_cast<float>(own[j] * p.scale));
      most = device::warp_max(most);
      float total = 0;
      for (int j = lane; j < p.keys; j += 32) {
        const float weight = expf(static_cast<float>(own[j] * p.scale - most));
        weights[j * kEach + warp] = weight, total += weight;
      }
      total = device::warp_sum(total);
      if (lane == 0) totals[warp] = total;
    }
  } else if (warp < kEach) {
    for (int j = lane; j < p.keys; j += 32) weights[j * kEach + warp] = 0;
  }
  if (!p.out) return;
  __syncthreads();
  const float* v = p.v + head * p.keys * p.d;
  const int64_t batch = head / p.heads, of_batch = head % p.heads;
  const int half = threadIdx.x / 128;
  for (int start = 0; start < p.d; start += 128) {
    const int c = start + threadIdx.x % 128;
    float sum[kEach] = {};
    if (c < p.d) {
#pragma unroll 4
      for (int j = half; j < p.keys; j += 2) {
        const float value = v[int64_t{j} * p.d + c];
#pragma unroll
        for (int r = 0; r < kEach; ++r) sum[r] = fmaf(weights[j * kEach + r], value, sum[r]);
      }
    }
    __syncthreads();
    if (half == 1) {
#pragma unroll
      for (int r = 0; r < kEach; ++r) halves[r][threadIdx.x % 128] = sum[r];
    }
    __syncthreads();
    if (half == 0 && c < p.d) {
#pragma unroll
      for (int r = 0; r < kEach; ++r)
        if (r < lists)
          p.out[((batch * p.queries + first + r) * p.heads + of_batch) * p.d + c] =
              (sum[r] + halves[r][threadIdx.x]) / totals[r];
    }
  }
}

int64_t key_blocks_of(const CoarseAttentionArgs& a) {
  return a.key_ends.defined() ? a.key_ends.dims[0] : (a.k.dims[1] + kCoarseTokens - 1) / kCoarseTokens;
}
size_t shared_bytes_of(int each, int64_t d, int64_t keys) {
  return static_cast<size_t>(each) * static_cast<size_t>(d * 8 + keys * 12);
}
constexpr size_t kStaticBytes = kMany * 129 * sizeof(float);

template <int kEach>
void launch_coarse(const Coarse& p, int64_t heads, const Stream& stream) {
  cuda::launch("coarse_attention", coarse_kernel<kEach>,
               {.grid = dim3(cuda::blocks_for(p.queries, kEach), static_cast<unsigned>(heads)),
                .block = dim3(kThreads),
                .shared_bytes = shared_bytes_of(kEach, p.d, p.keys)},
               stream, p);
}

}  // namespace

std::optional<Refusal> coarse_attention_why_not_cuda(const CoarseAttentionArgs& a, const Stream& stream) {
  if (stream.gpu->info().capability() < 80) return Refusal::weak_gpu("it needs compute capability 8.0");
  if (a.q.dims[0] * a.q.dims[2] > 65535) return Refusal::arguments("too many heads or batches");
  const int64_t keys = key_blocks_of(a);
  if (shared_bytes_of(kFew, a.q.dims[3], keys) + kStaticBytes > stream.gpu->info().shared_bytes)
    return Refusal::arguments("too many blocks of keys, ", std::to_string(keys));
  return std::nullopt;
}

void coarse_attention_cuda(const CoarseAttentionArgs& a, Stream& stream) {
  const int64_t b = a.q.dims[0], h = a.q.dims[2], d = a.q.dims[3];
  const int64_t queries = a.counts.dims[2], keys = key_blocks_of(a);
  ArenaScope scope(*stream.arena);
  const auto floats = [&](int64_t blocks) {
    return static_cast<float*>(stream.arena->bytes(static_cast<size_t>(b * h * blocks * d) * sizeof(float)));
  };
  float *q = floats(queries), *k = floats(keys), *v = a.out.defined() ? floats(keys) : nullptr;
  if (stream.measuring() || b * h == 0) return;
  const auto means = [&](const Tensor& x, const Tensor& ends, float* to, int64_t blocks, bool across) {
    const Means p{.x = x.data,
                  .batch = x.strides[0],
                  .row = x.strides[1],
                  .head = x.strides[2],
                  .ends = static_cast<const int32_t*>(ends.data),
                  .means = to,
                  .tokens = static_cast<int>(x.dims[1]),
                  .heads = static_cast<int>(h),
                  .d = static_cast<int>(d),
                  .blocks = static_cast<int>(blocks),
                  .across = across};
    cuda::dispatch_float("coarse_attention", x.dtype, [&]<class T>() {
      cuda::launch(
          "coarse_attention (means)", coarse_means_kernel<T>,
          {.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(h), static_cast<unsigned>(b)),
           .block = dim3(kMeanThreads)},
          stream, p);
    });
  };
  means(a.q, a.query_ends, q, queries, false), means(a.k, a.key_ends, k, keys, true);
  if (v) means(a.v, a.key_ends, v, keys, false);
  const Coarse p{.q = q,
                 .k = k,
                 .v = v,
                 .out = static_cast<float*>(a.out.data),
                 .indices = static_cast<int32_t*>(a.indices.data),
                 .counts = static_cast<int32_t*>(a.counts.data),
                 .queries = static_cast<int>(queries),
                 .keys = static_cast<int>(keys),
                 .heads = static_cast<int>(h),
                 .d = static_cast<int>(d),
                 .keep = static_cast<int>(a.keep),
                 .scale = a.scale};
  const bool many = shared_bytes_of(kMany, d, keys) + kStaticBytes <= stream.gpu->info().shared_bytes;
  many ? launch_coarse<kMany>(p, b * h, stream) : launch_coarse<kFew>(p, b * h, stream);
}

}  // namespace tachy::ops
