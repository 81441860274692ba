// The first kernel computes the means, with one thread per channel of a block: q and k are read once, and a
// warp's channels lie side by side. The second has one block of threads for each list. It computes the scores
// of one mean query with all mean keys, which are stored channel by channel so that a warp reads neighbours;
// then it counts for each key how many of the others are better; and then it writes the kept ones in order as
// the list. Sums are float64 in the definition's order, so the lists are the same.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/choose_blocks/choose_blocks.h"

namespace tachy::ops {
namespace {

constexpr int kMeanThreads = 128, kThreads = 256, kWarps = kThreads / 32;
constexpr int64_t kMostBlocks = 4096;  // the scores of this many fit into 36 KiB

struct Input {
  const void* data;
  int64_t batch, row, head;  // strides
};
Input input_of(const Tensor& t) { return {t.data, t.strides[0], t.strides[1], t.strides[2]}; }

// For q the result is [B, H, blocks, D], for k [B, H, D, blocks].
template <class T>
__global__ void __launch_bounds__(kMeanThreads)
    means_kernel(Input q, Input k, float* q_means, float* k_means, int tokens, int heads, int d, int blocks) {
  const int c = blockIdx.y * kMeanThreads + threadIdx.x, block = blockIdx.x % blocks,
            head = blockIdx.x / blocks;
  const bool of_k = blockIdx.z % 2;
  const int64_t b = blockIdx.z / 2;
  if (c >= d) return;
  const Input& x = of_k ? k : q;
  const int first = block * static_cast<int>(kChosenTokens),
            count = min(static_cast<int>(kChosenTokens), tokens - first);
  const T* from = static_cast<const T*>(x.data) + b * x.batch + first * x.row + head * x.head + c;
  double sum = 0;
#pragma unroll 8
  for (int t = 0; t < count; ++t) sum += static_cast<double>(device::as_float(from[t * x.row]));
  const auto mean = static_cast<float>(sum / static_cast<double>(count));
  const int64_t list = (b * heads + head) * blocks;
  if (of_k)
    k_means[list * d + int64_t{c} * blocks + block] = mean;
  else
    q_means[(list + block) * d + c] = mean;
}

// Grid: (blocks of queries, heads of the whole batch).
__global__ void __launch_bounds__(kThreads)
    choose_kernel(const float* q_means, const float* k_means, int32_t* indices, int32_t* counts, int d,
                  int blocks, int keep, int64_t capacity) {
  extern __shared__ double scores[];
  auto* kept = reinterpret_cast<uint8_t*>(scores + blocks);
  __shared__ int warp_counts[kWarps];
  const int own = blockIdx.x;
  const int64_t head = blockIdx.y, list = head * blocks + own;
  const float *q = q_means + list * d, *k = k_means + head * blocks * d;
  for (int j = threadIdx.x; j < blocks; j += kThreads) {
    double score = 0;
    for (int c = 0; c < d; ++c)
      score += static_cast<double>(q[c]) * static_cast<double>(k[int64_t{c} * blocks + j]);
    scores[j] = isnan(score) ? -INFINITY : score;
  }
  __syncthreads();
  for (int j = threadIdx.x; j < blocks; j += kThreads) {
    const double score = scores[j];
    int better = 0;
    for (int other = 0; other < blocks; ++other)
      better += other != own && (scores[other] > score || (scores[other] == score && other < j));
    kept[j] = j == own || better < keep - 1;
  }
  __syncthreads();
  // Each thread has a run of neighbouring blocks; its first one's place in the list is the number of kept
  // blocks before the run.
  const int each = (blocks + kThreads - 1) / kThreads,
            begin = min(blocks, static_cast<int>(threadIdx.x) * each), end = min(blocks, begin + each);
  int mine = 0;
  for (int j = begin; j < end; ++j) mine += kept[j];
  int before = mine;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0u, before, step);
    if (lane >= step) before += other;
  }
  if (lane == 31) warp_counts[warp] = before;
  __syncthreads();
  before -= mine;
  int total = 0;
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) before += warp_counts[i];
    total += warp_counts[i];
  }
  int32_t* to = indices + list * capacity;
  for (int j = begin; j < end; ++j)
    if (kept[j]) to[before++] = j;
  for (int64_t i = total + int64_t{threadIdx.x}; i < capacity; i += kThreads) to[i] = 0;
  if (threadIdx.x == 0) counts[list] = total;
}

}  // namespace

std::optional<Refusal> choose_blocks_why_not_cuda(const ChooseBlocksArgs& a, const Stream&) {
  if (chosen_blocks(a.q.dims[1]) > kMostBlocks)
    return Refusal::arguments("more blocks than ", std::to_string(kMostBlocks));
  if (a.q.dims[0] * 2 > 65535 || a.q.dims[0] * a.q.dims[2] > 65535)
    return Refusal::arguments("too many heads or batches");
  return std::nullopt;
}

void choose_blocks_cuda(const ChooseBlocksArgs& a, Stream& stream) {
  const int64_t b = a.q.dims[0], h = a.q.dims[2], d = a.q.dims[3], blocks = chosen_blocks(a.q.dims[1]);
  ArenaScope scope(*stream.arena);
  const size_t bytes = static_cast<size_t>(b * h * blocks * d) * sizeof(float);
  auto* q_means = static_cast<float*>(stream.arena->bytes(bytes));
  auto* k_means = static_cast<float*>(stream.arena->bytes(bytes));
  if (stream.measuring() || b * h == 0) return;
  const int count = static_cast<int>(blocks);
  cuda::dispatch_float("choose_blocks", a.q.dtype, [&]<class T>() {
    cuda::launch("choose_blocks (means)", means_kernel<T>,
                 {.grid = dim3(static_cast<unsigned>(blocks * h), cuda::blocks_for(d, kMeanThreads),
                               static_cast<unsigned>(2 * b)),
                  .block = dim3(kMeanThreads)},
                 stream, input_of(a.q), input_of(a.k), q_means, k_means, static_cast<int>(a.q.dims[1]),
                 static_cast<int>(h), static_cast<int>(d), count);
  });
  cuda::launch("choose_blocks (lists)", choose_kernel,
               {.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(b * h)),
                .block = dim3(kThreads),
                .shared_bytes = static_cast<size_t>(blocks) * 9},
               stream, static_cast<const float*>(q_means), static_cast<const float*>(k_means),
               static_cast<int32_t*>(a.indices.data), static_cast<int32_t*>(a.counts.data),
               static_cast<int>(d), count, static_cast<int>(a.keep), a.indices.dims[3]);
}

}  // namespace tachy::ops
