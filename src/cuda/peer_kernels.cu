// A barrier is one warp, of which each lane tells one rank and waits for it. Release and acquire at the scope
// of the system order it with the pushes: what a rank wrote before its barrier is seen by all after theirs.
#include "cuda/peer_kernels.h"
#include "cuda/runtime.h"

namespace tachy::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kLooks =
    256;  // a lane looks at its flag so often before it looks at the stop word and the clock

__device__ __forceinline__ void tell(uint32_t* flag, uint32_t round) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(round) : "memory");
}
__device__ __forceinline__ uint32_t look(const uint32_t* flag) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
__device__ __forceinline__ bool reached(uint32_t told, uint32_t round) {
  return static_cast<int32_t>(told - round) >= 0;  // rounds may wrap around
}

// Attention leaves a multiprocessor 1,024 registers, and a barrier beside it must find room.
__global__ void __maxnreg__(32) barrier_kernel(const BarrierPlan plan) {
  PeerFlags& mine = *plan.flags[plan.rank];
  const uint32_t round = mine.round + 1;
  __syncwarp();
  const int peer = static_cast<int>(threadIdx.x);
  if (peer == plan.rank) mine.round = round;
  if (peer >= plan.size || peer == plan.rank) return;
  __threadfence_system();
  tell(&plan.flags[peer]->told[plan.rank], round);
  const uint64_t begin = nanoseconds();
  for (;;) {
    for (int i = 0; i < kLooks; ++i)
      if (reached(look(&mine.told[peer]), round)) return;
    if (look(plan.stop) != StopWord::kGo) return;
    if (nanoseconds() - begin > plan.longest_ns)
      tell(plan.stop, StopWord::kFirstRank + static_cast<uint32_t>(plan.rank));
  }
}

__global__ void __launch_bounds__(kThreads) push_kernel(const __grid_constant__ PushPlan plan) {
  constexpr int kAhead = 4;  // loads that a thread has under way
  const uint64_t step = uint64_t{kThreads} * gridDim.x;
  int at = 0;
  for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < plan.units; i += kAhead * step) {
    uint4 values[kAhead];
    uint4* to[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const uint64_t unit = i + k * step;
      if (unit >= plan.units) break;
      while (at + 1 < plan.count && unit >= plan.pieces[at + 1].first) ++at;
      const PushPlan::Piece& piece = plan.pieces[at];
      const auto inside = static_cast<uint32_t>(unit - piece.first);
      const uint32_t row = inside / piece.width, column = inside % piece.width;
      values[k] = *reinterpret_cast<const uint4*>(static_cast<const char*>(piece.from) +
                                                  row * piece.from_pitch + column * size_t{16});
      to[k] =
          reinterpret_cast<uint4*>(static_cast<char*>(piece.to) + row * piece.to_pitch + column * size_t{16});
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (i + k * step < plan.units) *to[k] = values[k];
  }
}

}  // namespace

void queue_barrier(const BarrierPlan& plan, cudaStream_t queue) {
  barrier_kernel<<<1, 32, 0, queue>>>(plan);
  check_cuda(cudaGetLastError(), "barrier of ranks");
}

void queue_push(const PushPlan& plan, int blocks, cudaStream_t queue) {
  const uint64_t most = (plan.units + kThreads - 1) / kThreads;
  if (most == 0) return;
  push_kernel<<<static_cast<unsigned>(most < static_cast<uint64_t>(blocks) ? most : blocks), kThreads, 0,
                queue>>>(plan);
  check_cuda(cudaGetLastError(), "push to ranks");
}

}  // namespace tachy::cuda
