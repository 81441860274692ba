#include "cpu/roofline.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "cpu/isa.h"
#include "tensor/memory.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/roofline.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve sums hide the latency of two pipes of four to six cycles and fit into 16 registers. Returns the
// number of flops.
double fma_rounds(int rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  // The starting values differ, or the compiler would merge the chains.
  auto s0 = hn::Set(d, *sink), s1 = hn::Add(s0, b), s2 = hn::Add(s1, b), s3 = hn::Add(s2, b);
  auto s4 = hn::Add(s3, b), s5 = hn::Add(s4, b), s6 = hn::Add(s5, b), s7 = hn::Add(s6, b);
  auto s8 = hn::Add(s7, b), s9 = hn::Add(s8, b), s10 = hn::Add(s9, b), s11 = hn::Add(s10, b);
  for (int i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, a, b), s1 = hn::MulAdd(s1, a, b), s2 = hn::MulAdd(s2, a, b);
    s3 = hn::MulAdd(s3, a, b), s4 = hn::MulAdd(s4, a, b), s5 = hn::MulAdd(s5, a, b);
    s6 = hn::MulAdd(s6, a, b), s7 = hn::MulAdd(s7, a, b), s8 = hn::MulAdd(s8, a, b);
    s9 = hn::MulAdd(s9, a, b), s10 = hn::MulAdd(s10, a, b), s11 = hn::MulAdd(s11, a, b);
  }
  const auto left = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
  const auto right = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
  *sink = hn::GetLane(hn::SumOfLanes(d, hn::Add(left, right)));
  return 2.0 * 12 * rounds * static_cast<double>(hn::Lanes(d));
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::cpu {

HWY_EXPORT(fma_rounds);

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The best rate (work per second) of `repeats` runs of body(tile), over enough tiles
// to keep every thread busy.
template <class Body>
double best_rate(ThreadPool& pool, int repeats, double work, Body&& body) {
  double best = 0;
  for (int r = 0; r < repeats; ++r) {
    const double start = now();
    pool.run(int64_t{8} * pool.threads(), [&](int64_t tile, int) { body(tile); });
    best = std::max(best, work / (now() - start));
  }
  return best;
}

}  // namespace

double Roofline::copy_gb_per_s(double bytes) const {
  if (copies.empty()) return 0;
  if (bytes <= copies.front().bytes) return copies.front().gb_per_s;
  for (size_t i = 1; i < copies.size(); ++i)
    if (bytes <= copies[i].bytes) {
      const double t =
          std::log(bytes / copies[i - 1].bytes) / std::log(copies[i].bytes / copies[i - 1].bytes);
      return copies[i - 1].gb_per_s * std::pow(copies[i].gb_per_s / copies[i - 1].gb_per_s, t);
    }
  return copies.back().gb_per_s;
}

double Roofline::seconds(double bytes, double flops, bool bf16) const {
  const double peak = (bf16 && bf16_gflops > 0 ? bf16_gflops : f32_gflops) * 1e9;
  const double moved = copy_gb_per_s(bytes) * 1e9;
  return std::max(peak > 0 ? flops / peak : 0, moved > 0 ? bytes / moved : 0);
}

Roofline measure_roofline(ThreadPool& pool) {
  Roofline out{.threads = pool.threads(), .bf16_how = bf16_products(), .int8_how = int8_products()};
  isa();  // applies TACHY_ISA, because no op has asked for it yet
  constexpr int kRounds = 100000, kRepeats = 15;
  std::vector<float> sinks(8 * static_cast<size_t>(pool.threads()));
  const double tiles = 8.0 * pool.threads();
  float sink = 0;
  const double flops = HWY_DYNAMIC_DISPATCH(fma_rounds)(kRounds, &sink);
  out.f32_gflops = 1e-9 * best_rate(pool, kRepeats, flops * tiles, [&](int64_t tile) {
                     HWY_DYNAMIC_DISPATCH(fma_rounds)(kRounds, &sinks[static_cast<size_t>(tile)]);
                   });
  if (const double products = run_bf16_products(1000); products > 0)
    out.bf16_gflops =
        1e-9 * best_rate(pool, kRepeats, products * 100 * tiles, [](int64_t) { run_bf16_products(100000); });
  if (const double products = run_int8_products(1000); products > 0)
    out.int8_gops =
        1e-9 * best_rate(pool, kRepeats, products * 100 * tiles, [](int64_t) { run_int8_products(100000); });

  constexpr size_t kLargest = size_t{64} << 20;
  const Buffer from(kLargest), to(kLargest);
  std::memset(from.data(), 1, kLargest), std::memset(to.data(), 2, kLargest);
  for (const size_t bytes : {size_t{512} << 10, size_t{4} << 20, size_t{32} << 20, kLargest}) {
    const size_t piece = bytes / static_cast<size_t>(tiles) / 64 * 64;
    // All passes together take long compared with waking a thread.
    const int passes = static_cast<int>(std::max<size_t>(1, (size_t{8} << 20) / bytes));
    const double rate =
        best_rate(pool, 9, 2.0 * static_cast<double>(piece) * tiles * passes, [&](int64_t tile) {
          const auto offset = static_cast<size_t>(tile) * piece;
          for (int i = 0; i < passes; ++i)
            std::memcpy(static_cast<char*>(to.data()) + offset, static_cast<char*>(from.data()) + offset,
                        piece);
        });
    out.copies.push_back({2.0 * static_cast<double>(bytes), rate * 1e-9});
  }
  return out;
}

}  // namespace tachy::cpu
#endif
