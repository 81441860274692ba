#include "tensor/box_muller.h"

#include "tensor/box_muller_pair.h"

namespace tachy {
namespace {

using namespace box_muller_steps;

// Turns blocks of 16 uniforms into 16 normals: value j pairs with value j + 8.
TACHY_INLINED void to_normals(float* data, size_t blocks) {
  constexpr size_t kPairs = kBoxMullerBlock / 2;
  for (const float* end = data + blocks * kBoxMullerBlock; data != end; data += kBoxMullerBlock) {
    float radius[kPairs];
    for (size_t j = 0; j < kPairs; ++j) radius[j] = product(-2.0f, log_of(sum(1.0f, -data[j])));
    for (float& r : radius) r = root(r);
    for (size_t j = 0; j < kPairs; ++j) {
      const SinCos direction = direction_of(data[j + kPairs]);
      data[j] = product(radius[j], direction.cos);
      data[j + kPairs] = product(radius[j], direction.sin);
    }
  }
}

#ifdef __x86_64__
[[gnu::target("avx2,fma")]] void to_normals_avx2(float* data, size_t blocks) { to_normals(data, blocks); }
#endif

}  // namespace

// Both branches give the same bits. The C library's fma also rounds once, but it is a call for each value.
void box_muller(float* data, size_t blocks) {
#ifdef __x86_64__
  static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fast) return to_normals_avx2(data, blocks);
#endif
  to_normals(data, blocks);
}

}  // namespace tachy
