// The first kernel computes the means (coarse_means.cuh). The second has a block of threads for kEach lists of a head,
// which share what they read of the mean keys and values:
//
//   scores   a thread has two blocks of keys and kEach mean queries, in float64 and in the definition's order, so that
//            the lists are the same
//   choice   a warp for each list (coarse_choice.cuh)
//   out      weights in float32, and their products with the mean values: a warp has every eighth four blocks of keys,
//            and each of its threads four channels of all lists, so that a weight and a value are read for 16 products
#include "cuda/dispatch.h"
#include "device/reduce.cuh"
#include "ops/coarse_attention/coarse_attention_impl.h"
#include "ops/coarse_attention/coarse_choice.cuh"
#include "ops/coarse_attention/coarse_means.cuh"

namespace tachy::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kMany = 8,
              kFew = 2;     // lists of a block of threads, the fewer where there are many blocks of keys
constexpr int kWords = 24;  // of the scores in registers, as coarse_choice.cuh has them

// Rows of scores begin at multiples of 16 bytes.
__host__ __device__ constexpr int scores_in_row(int keys) { return (keys + 1) / 2 * 2; }

struct Coarse {
  const float *q, *k, *v;  // means [B, H, queries, D], [B, H, D, keys], and [B, H, keys, D] or null
  float* out;              // [B, queries, H, D]
  int32_t *indices, *counts;
  int queries, keys, heads, d, keep;
  float scale;
};

__device__ __forceinline__ void add_product(float4& sum, float weight, const float4& value) {
  sum.x = fmaf(weight, value.x, sum.x), sum.y = fmaf(weight, value.y, sum.y);
  sum.z = fmaf(weight, value.z, sum.z), sum.w = fmaf(weight, value.w, sum.w);
}

// Grid: (queries / kEach, heads of the whole batch).
template <int kEach>
__global__ void __launch_bounds__(kThreads, 3) coarse_kernel(const Coarse p) {
  extern __shared__ __align__(16) char shared[];
  auto* queries = reinterpret_cast<double*>(shared);  // [d][kEach]
  auto* scores = queries + int64_t{p.d} * kEach;      // [kEach][row]
  const int row = scores_in_row(p.keys), padded = (p.keys + 3) / 4 * 4;
  // A list's weights lie where its scores were, with zeros behind them.
  const auto weights = [&](int r) { return reinterpret_cast<float*>(scores + r * row); };
  auto* totals = reinterpret_cast<float*>(scores + int64_t{row} * kEach);  // [kEach]
  auto* sums = reinterpret_cast<float4*>(totals + (kEach + 3) / 4 * 4);    // [kEach][32]
  const int first = blockIdx.x * kEach, lists = min(kEach, p.queries - first);
  const int64_t head = blockIdx.y;
  const float *q = p.q + (head * p.queries + first) * p.d, *k = p.k + head * p.keys * p.d;
  for (int i = threadIdx.x; i < p.d * kEach; i += kThreads) {
    const int r = i / p.d, c = i % p.d;
    queries[c * kEach + r] = r < lists ? static_cast<double>(q[r * p.d + c]) : 0.0;
  }
  __syncthreads();
  const auto score = [&]<int kKeys>(int j) {  // of the blocks of keys j and, if there are two, j + kThreads
    double sum[kKeys][kEach] = {};
#pragma unroll 4
    for (int c = 0; c < p.d; ++c) {
      double key[kKeys];
#pragma unroll
      for (int n = 0; n < kKeys; ++n) key[n] = static_cast<double>(k[int64_t{c} * p.keys + j + n * kThreads]);
#pragma unroll
      for (int r = 0; r < kEach; ++r)
#pragma unroll
        for (int n = 0; n < kKeys; ++n) sum[n][r] = fma(queries[c * kEach + r], key[n], sum[n][r]);
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r)
#pragma unroll
      for (int n = 0; n < kKeys; ++n)
        scores[r * row + j + n * kThreads] = isnan(sum[n][r]) ? -INFINITY : sum[n][r];
  };
  for (int j = threadIdx.x; j < p.keys; j += 2 * kThreads)
    j + kThreads < p.keys ? score.template operator()<2>(j) : score.template operator()<1>(j);
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp < lists) {
    const int64_t list = head * p.queries + first + warp;
    const double* own = scores + warp * row;
    int32_t* const listed = p.indices + list * p.keep;
    if (p.keys <= 32 * kWords)
      take_best<kWords>(own, p.keys, p.keep, listed);
    else if (p.keys <= 64 * kWords)
      take_best<2 * kWords>(own, p.keys, p.keep, listed);
    else
      take_best<0>(own, p.keys, p.keep, listed);
    if (lane == 0) p.counts[list] = p.keep;
    if (p.out) {
      float most = -INFINITY;
      for (int j = lane; j < p.keys; j += 32) most = fmaxf(most, static_cast<float>(own[j] * p.scale));
      most = device::warp_max(most);
      float total = 0;
      for (int first_key = 0; first_key < p.keys; first_key += 32) {
        const int j = first_key + lane;
        const float weight = j < p.keys ? expf(static_cast<float>(own[j] * p.scale - most)) : 0;
        total += weight;
        __syncwarp();  // a weight is written over scores that have been read
        if (j < padded) weights(warp)[j] = weight;
        __syncwarp();
      }
      total = device::warp_sum(total);
      if (lane == 0) totals[warp] = total;
    }
  } else if (warp < kEach) {
    for (int j = lane; j < padded; j += 32) weights(warp)[j] = 0;
  }
  if (!p.out) return;
  __syncthreads();
  const float* v = p.v + head * p.keys * p.d;
  const int64_t batch = head / p.heads, of_batch = head % p.heads;
  const bool packs = p.d % 4 == 0;
  for (int start = 0; start < p.d; start += 128) {
    const int c = start + 4 * lane, channels = min(p.d - c, 4);
    const auto value_of = [&](int j) {
      float4 value{};
      if (j >= p.keys) return value;
      const float* from = v + int64_t{j} * p.d + c;
      if (packs) return *reinterpret_cast<const float4*>(from);
      value.x = from[0];
      if (channels > 1) value.y = from[1];
      if (channels > 2) value.z = from[2];
      if (channels > 3) value.w = from[3];
      return value;
    };
    float4 sum[kEach] = {};
    if (channels > 0) {
      for (int j = 4 * warp; j < p.keys; j += 4 * kThreads / 32) {
        const float4 values[4] = {value_of(j), value_of(j + 1), value_of(j + 2), value_of(j + 3)};
#pragma unroll
        for (int r = 0; r < kEach; ++r) {
          const float4 weight = *reinterpret_cast<const float4*>(weights(r) + j);
          add_product(sum[r], weight.x, values[0]), add_product(sum[r], weight.y, values[1]);
          add_product(sum[r], weight.z, values[2]), add_product(sum[r], weight.w, values[3]);
        }
      }
    }
    // The warps add what they have one after another, so the order of the sums is always the same.
    for (int turn = 0; turn < kThreads / 32; ++turn) {
      __syncthreads();
      if (warp != turn) continue;
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
        if (turn) add_product(sum[r], 1, sums[r * 32 + lane]);
        sums[r * 32 + lane] = sum[r];
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < lists * 128; i += kThreads) {
      const int r = i / 128, channel = start + i % 128;
      if (channel < p.d)
        p.out[((batch * p.queries + first + r) * p.heads + of_batch) * p.d + channel] =
            reinterpret_cast<const float*>(sums)[i] / totals[r];
    }
  }
}

int64_t key_blocks_of(const CoarseAttentionArgs& a) {
  return a.key_ends.defined() ? a.key_ends.dims[0] : (a.k.dims[1] + kCoarseTokens - 1) / kCoarseTokens;
}
size_t shared_bytes_of(int each, int64_t d, int64_t keys) {
  const auto doubles = static_cast<size_t>(d + scores_in_row(static_cast<int>(keys)));
  return static_cast<size_t>(each) * (doubles * sizeof(double) + 128 * sizeof(float)) +
         static_cast<size_t>(each + 3) / 4 * 4 * sizeof(float);
}

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
  if (shared_bytes_of(kFew, a.q.dims[3], keys) > stream.gpu->info().shared_bytes)
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
  CoarseMeans means{.heads = static_cast<int>(h), .d = static_cast<int>(d)};
  unsigned tensors = 0;
  bool packs = true;
  const auto add = [&](const Tensor& x, const Tensor& ends, float* to, int64_t blocks, bool across) {
    means.sources[tensors++] = {.x = x.data,
                                .batch = x.strides[0],
                                .row = x.strides[1],
                                .head = x.strides[2],
                                .ends = static_cast<const int32_t*>(ends.data),
                                .means = to,
                                .tokens = static_cast<int>(x.dims[1]),
                                .blocks = static_cast<int>(blocks),
                                .across = across};
    packs = packs && cuda::fits_packs(static_cast<int>(16 / dtype_size(x.dtype)), {&x});
  };
  add(a.q, a.query_ends, q, queries, false), add(a.k, a.key_ends, k, keys, true);
  if (v) add(a.v, a.key_ends, v, keys, false);
  cuda::dispatch_float("coarse_attention", a.q.dtype, [&]<class T>() {
    const auto launch = [&]<int kPack>() {
      const int64_t threads = std::max(queries, keys) * h * (d / kPack);
      cuda::launch("coarse_attention (means)", coarse_means_kernel<T, kPack>,
                   {.grid = dim3(cuda::blocks_for(threads, kMeanThreads), tensors, static_cast<unsigned>(b)),
                    .block = dim3(kMeanThreads)},
                   stream, means);
    };
    packs ? launch.template operator()<device::kPack<T>>() : launch.template operator()<1>();
  });
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
  const bool many = shared_bytes_of(kMany, d, keys) <= stream.gpu->info().shared_bytes;
  many ? launch_coarse<kMany>(p, b * h, stream) : launch_coarse<kFew>(p, b * h, stream);
}

}  // namespace tachy::ops
