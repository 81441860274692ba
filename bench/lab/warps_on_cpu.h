// Runs a kernel of mma.sync on the CPU, with the kernel's own source: the threads of a block are fibers, and what a warp
// does together (ldmatrix, mma, shuffles, votes) is imitated. kernels_on_cpu.py takes the instructions' own definitions out
// of a copy of the headers, so that those below are called.
//
// A copy by cp.async arrives when its thread waits for it, and spoils its place (NaN) when it begins, so that a missing
// wait or barrier, and a place that is still read, give wrong results. Between two barriers the warps run one after
// another in random order. Lanes that differ in what they do together, and barriers that not all threads reach, end the run.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#undef __launch_bounds__
#define __launch_bounds__(...)
using std::max;
using std::min;
inline uint3 threadIdx{}, blockIdx{};
inline dim3 gridDim, blockDim;

template <class To, class From>
To same_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from);
  memcpy(&to, &from, sizeof to);
  return to;
}
inline float __int_as_float(int x) { return same_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
inline int __float_as_int(float x) { return same_bits<int>(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline size_t __cvta_generic_to_shared(const void*) { return 0; }
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T atomicAdd(T* p, T v) {
  return std::exchange(*p, *p + v);
}

namespace on_cpu {

struct Copy {
  uint32_t to;
  const void* from;
  size_t bytes;
  bool present;
};
struct Fiber {
  ucontext_t at;
  std::vector<char> stack;
  bool done = false, at_barrier = false;
  uint64_t meetings = 0;
  std::vector<std::vector<Copy>> groups{1};
};
constexpr int kMostThreads = 384;
inline Fiber fibers[kMostThreads];
inline ucontext_t home;
inline int now = 0;
inline uint64_t slots[2][kMostThreads][16];  // what lanes show each other, in turn
inline char* shared = nullptr;
inline uint32_t shared_bytes = 0;
inline long barriers = 0;

[[noreturn]] inline void stop(const char* why) {
  printf("%s (thread %d of block %u)\n", why, now, blockIdx.x);
  exit(2);
}
inline void yield() {
  const int me = now;
  swapcontext(&fibers[me].at, &home);
  threadIdx.x = static_cast<unsigned>(me);
}
// Shows a value to the warp's other lanes; saw() reads theirs until the warp meets again.
template <class T>
int meet(const T& mine) {
  static_assert(sizeof mine <= sizeof slots[0][0]);
  const int turn = fibers[now].meetings++ & 1;
  memcpy(slots[turn][now], &mine, sizeof mine);
  yield();
  return turn;
}
template <class T>
T saw(int turn, int lane) {
  T value;
  memcpy(&value, slots[turn][now / 32 * 32 + lane], sizeof value);
  return value;
}
inline int lane() { return static_cast<int>(threadIdx.x & 31); }
inline void check_shared(uint32_t at, uint32_t bytes = 16) {
  if (at % bytes || at + bytes > shared_bytes)
    stop("an address in shared memory is not aligned or too large");
}
inline void begin_copy(const Copy& copy) {
  check_shared(copy.to, static_cast<uint32_t>(copy.bytes));
  if (reinterpret_cast<uintptr_t>(copy.from) % copy.bytes) stop("a copy from an address that is not aligned");
  memset(shared + copy.to, 0xff, copy.bytes);
  fibers[now].groups.back().push_back(copy);
}
inline float bf16_of(uint32_t pair, int which) {
  return __uint_as_float(which ? pair & 0xffff0000u : pair << 16);
}

struct Operands {
  uint32_t a[4], b[2];
};
inline void add_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const int turn = meet(Operands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const int g = lane() / 4, t = lane() % 4;
  for (int i = 0; i < 4; ++i) {
    double sum = c[i];
    for (int u = 0; u < 4; ++u) {
      const auto row = saw<Operands>(turn, 4 * g + u), column = saw<Operands>(turn, 4 * (2 * t + i % 2) + u);
      for (int e = 0; e < 4; ++e)
        sum += double{bf16_of(row.a[i / 2 + e / 2 * 2], e % 2)} * double{bf16_of(column.b[e / 2], e % 2)};
    }
    c[i] = static_cast<float>(sum);
  }
}

// Runs a warp up to the next barrier or its end. Returns whether it did anything.
inline bool run_warp(int warp) {
  Fiber* lanes = fibers + warp * 32;
  for (bool any = false;; any = true) {
    int waiting = 0;
    for (int l = 0; l < 32; ++l) {
      if (lanes[l].done || lanes[l].at_barrier) {
        ++waiting;
        continue;
      }
      now = warp * 32 + l, threadIdx.x = static_cast<unsigned>(now);
      swapcontext(&home, &lanes[l].at);
    }
    if (waiting == 32) return any;
    for (int l = 1; l < 32; ++l)
      if (lanes[l].meetings != lanes[0].meetings) stop("the lanes of a warp do different things together");
  }
}

inline void run_block(int threads, std::function<void()> body, std::mt19937& random) {
  static std::function<void()> work;
  work = std::move(body);
  std::vector<int> order;
  for (int i = 0; i < threads; ++i) {
    Fiber& f = fibers[i];
    f.stack.resize(1 << 16), f.done = f.at_barrier = false, f.meetings = 0, f.groups.assign(1, {});
    getcontext(&f.at);
    f.at.uc_stack.ss_sp = f.stack.data(), f.at.uc_stack.ss_size = f.stack.size(), f.at.uc_link = &home;
    makecontext(
        &f.at, +[] { work(), fibers[now].done = true; }, 0);
    if (i % 32 == 0) order.push_back(i / 32);
  }
  for (;; ++barriers) {
    std::shuffle(order.begin(), order.end(), random);
    for (int warp : order) run_warp(warp);
    int done = 0;
    for (int i = 0; i < threads; ++i) done += fibers[i].done, fibers[i].at_barrier = false;
    if (done == threads) return;
    if (done) stop("a barrier that not all threads reach");
  }
}

}  // namespace on_cpu

inline void __syncthreads() {
  on_cpu::fibers[on_cpu::now].at_barrier = true;
  on_cpu::yield();
}
inline void __syncwarp(unsigned = 0) { on_cpu::meet(0); }
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask) {
  const int turn = on_cpu::meet(v);
  return on_cpu::saw<T>(turn, on_cpu::lane() ^ mask);
}
template <class T>
T __shfl_sync(unsigned, T v, int from) {
  const int turn = on_cpu::meet(v);
  return on_cpu::saw<T>(turn, from);
}
inline bool __any_sync(unsigned, bool v) {
  const int turn = on_cpu::meet(v);
  bool any = false;
  for (int l = 0; l < 32; ++l) any |= on_cpu::saw<bool>(turn, l);
  return any;
}

namespace tachy {

alignas(1024) inline char shared_memory[240 << 10];

}  // namespace tachy

namespace tachy::device {

inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(static_cast<const char*>(p) - on_cpu::shared);
}
inline void load_four(uint32_t (&r)[4], uint32_t address, bool turned) {
  on_cpu::check_shared(address);
  const int turn = on_cpu::meet(address), l = on_cpu::lane();
  for (int tile = 0; tile < 4; ++tile) {
    r[tile] = 0;
    for (int c = 0; c < 2; ++c) {
      const int row = turned ? 2 * (l & 3) + c : l / 4, column = turned ? l / 4 : 2 * (l & 3) + c;
      uint16_t value;
      memcpy(&value, on_cpu::shared + on_cpu::saw<uint32_t>(turn, 8 * tile + row) + 2 * column, 2);
      r[tile] |= uint32_t{value} << 16 * c;
    }
  }
}
inline void load_tiles(uint32_t (&r)[4], uint32_t address) { load_four(r, address, false); }
inline void load_tiles_transposed(uint32_t (&r)[4], uint32_t address) { load_four(r, address, true); }
inline void copy_async(uint32_t to, const void* from, bool present) {
  on_cpu::begin_copy({to, from, 16, present});
}
inline void copy_async8(uint32_t to, const void* from, bool present) {
  on_cpu::begin_copy({to, from, 8, present});
}
inline void commit_copies() { on_cpu::fibers[on_cpu::now].groups.emplace_back(); }
template <int kPending>
void wait_copies() {
  auto& groups = on_cpu::fibers[on_cpu::now].groups;
  while (static_cast<int>(groups.size()) - 1 > kPending) {
    for (const on_cpu::Copy& c : groups.front())
      c.present ? memcpy(on_cpu::shared + c.to, c.from, c.bytes) : memset(on_cpu::shared + c.to, 0, c.bytes);
    groups.erase(groups.begin());
  }
}

}  // namespace tachy::device

namespace tachy::ops::flash {

using on_cpu::add_bf16;
inline float power_of_two(float x) { return exp2f(x); }
template <bool kHalf>
uint32_t pack_weights(float low, float high) {
  return same_bits<uint32_t>(__floats2bfloat162_rn(low, high));
}
inline void part(bool) {}
inline uint4 load_chunk(const void* from) { return *static_cast<const uint4*>(from); }
inline void ask_cache(const void* from) {
  volatile char touched = *static_cast<const volatile char*>(from);
  (void)touched;
}

}  // namespace tachy::ops::flash
