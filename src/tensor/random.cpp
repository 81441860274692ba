// torch's CPU and CUDA generators.
//
// The CPU path from 16 values on evaluates Cephes' polynomials for log, sine and cosine
// in float32, with a fused multiply-add wherever a product feeds one sum: so does the
// AVX2 code that torch ships, and bits are to match. Sources: MT19937 (Matsumoto and
// Nishimura 1998), Philox4x32-10 (Salmon et al. 2011), Cephes (Moshier).
#include "tensor/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tachy {
namespace {

constexpr size_t kBlock = 16;
constexpr size_t kMersenneShift = 397;
constexpr int64_t kCudaBlock = 256, kCudaBlocksPerMultiprocessor = 2048 / kCudaBlock, kCudaUnroll = 4;

// Of the following no step is a branch, and there are no calls where the processor has FMA: eight values at a time then.
#define TACHY_INLINED [[gnu::always_inline]] inline

// ln of x in (0, 1].
TACHY_INLINED float cephes_log(float x) {
  const auto bits = std::bit_cast<uint32_t>(x < 0x1p-126f ? 0x1p-126f : x);
  const auto e = static_cast<float>(static_cast<int>(bits >> 23) - 126);
  const float mantissa = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);  // [0.5, 1)
  const bool low = mantissa < 0.707106781186547524f;
  const float exponent = low ? e - 1.0f : e, f = low ? (mantissa - 1.0f) + mantissa : mantissa - 1.0f;
  float y = std::fma(
      7.0376836292e-2f, f,
      -1.1514610310e-1f);  // written out: a loop here would keep the one around it from being eight lanes wide
  y = std::fma(y, f, 1.1676998740e-1f);
  y = std::fma(y, f, -1.2420140846e-1f);
  y = std::fma(y, f, 1.4249322787e-1f);
  y = std::fma(y, f, -1.6668057665e-1f);
  y = std::fma(y, f, 2.0000714765e-1f);
  y = std::fma(y, f, -2.4999993993e-1f);
  y = std::fma(y, f, 3.3333331174e-1f);
  const float square = f * f;
  y = std::fma(y * f, square, exponent * -2.12194440e-4f) - square * 0.5f;
  return std::fma(exponent, 0.693359375f, f + y);
}

struct SinCos {
  float sin, cos;
};

// x in [0, 2 pi].
TACHY_INLINED SinCos cephes_sincos(float x) {
  const int octant = (static_cast<int>(x * 1.27323954473516f) + 1) & ~1;
  const auto multiple = static_cast<float>(octant);
  x = std::fma(multiple, -0.78515625f, x);  // pi/4 in three parts
  x = std::fma(multiple, -2.4187564849853515625e-4f, x);
  x = std::fma(multiple, -3.77489497744594108e-8f, x);
  const float z = x * x;
  float c =
      std::fma(std::fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f) * z;
  c = std::fma(c, z, -(z * 0.5f)) + 1.0f;
  float s = std::fma(std::fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z;
  s = std::fma(s, x, x);
  const bool swapped = (octant & 2) != 0;
  const float sine = swapped ? c : s, cosine = swapped ? s : c;
  return {(octant & 4) != 0 ? -sine : sine, ((octant - 2) & 4) != 0 ? cosine : -cosine};
}

// Blocks of 16 uniforms to 16 normals: value j pairs with value j + 8.
TACHY_INLINED void to_normals(float* data, size_t blocks) {
  constexpr size_t kPairs = kBlock / 2;
  for (const float* end = data + blocks * kBlock; data != end; data += kBlock) {
    float radius[kPairs];
    for (size_t j = 0; j < kPairs; ++j) radius[j] = -2.0f * cephes_log(1.0f - data[j]);
    for (float& r : radius) r = std::sqrt(r);
    for (size_t j = 0; j < kPairs; ++j) {
      const SinCos angle = cephes_sincos(2.0f * std::numbers::pi_v<float> * data[j + kPairs]);
      data[j] = radius[j] * angle.cos;
      data[j + kPairs] = radius[j] * angle.sin;
    }
  }
}

#ifdef __x86_64__
[[gnu::target("avx2,fma")]] void to_normals_avx2(float* data, size_t blocks) { to_normals(data, blocks); }
#endif

// The same bits either way: the C library's fma rounds once, too, at 20 times the time.
void box_muller(float* data, size_t blocks) {
#ifdef __x86_64__
  static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (fast) return to_normals_avx2(data, blocks);
#endif
  to_normals(data, blocks);
}

uint32_t twisted(uint32_t upper, uint32_t lower, uint32_t far) {
  const uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
  return far ^ (y >> 1) ^ ((y & 1u) ? 0x9908b0dfu : 0u);
}

uint32_t tempered(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

float to_unit(uint32_t bits) { return static_cast<float>(static_cast<int32_t>(bits & 0xffffffu)) * 0x1p-24f; }

}  // namespace

TorchCpuGenerator::TorchCpuGenerator(uint64_t seed) {
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t k = 1; k < kStateSize; ++k)
    state_[k] = 1812433253u * (state_[k - 1] ^ (state_[k - 1] >> 30)) + k;
}

void TorchCpuGenerator::renew() {
  constexpr size_t n = kStateSize, kSplit = n - kMersenneShift;
  for (size_t k = 0; k < kSplit; ++k)
    state_[k] = twisted(state_[k], state_[k + 1], state_[k + kMersenneShift]);
  for (size_t k = kSplit; k < n - 1; ++k) state_[k] = twisted(state_[k], state_[k + 1], state_[k - kSplit]);
  state_[n - 1] = twisted(state_[n - 1], state_[0], state_[kMersenneShift - 1]);
  position_ = 0;
}

uint32_t TorchCpuGenerator::next() {
  if (position_ == kStateSize) renew();
  return tempered(state_[position_++]);
}

void TorchCpuGenerator::uniform24(std::span<float> out) {
  for (size_t done = 0; done < out.size();) {
    if (position_ == kStateSize) renew();
    const size_t count = std::min(kStateSize - position_, out.size() - done);
    for (size_t i = 0; i < count; ++i) out[done + i] = to_unit(tempered(state_[position_ + i]));
    done += count, position_ += count;
  }
}

double TorchCpuGenerator::uniform53() {
  const uint64_t high = next();
  const uint64_t bits = (high << 32) | next();
  return static_cast<double>(bits & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

double TorchCpuGenerator::normal_scalar() {
  if (kept_) {
    const double value = *kept_;
    kept_.reset();
    return value;
  }
  const double angle = 2.0 * std::numbers::pi * uniform53();
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform53()));
  kept_ = radius * std::sin(angle);
  return radius * std::cos(angle);
}

void TorchCpuGenerator::normal(std::span<float> out) {
  if (out.size() < kBlock) {
    for (float& value : out) value = static_cast<float>(normal_scalar());
    return;
  }
  uniform24(out);
  box_muller(out.data(), out.size() / kBlock);
  if (out.size() % kBlock == 0) return;
  const auto last = out.last(kBlock);  // overlaps the block before; drawn anew as a whole
  uniform24(last);
  box_muller(last.data(), 1);
}

std::vector<int64_t> TorchCpuGenerator::permutation(int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i)] = i;
  for (int64_t i = 0; i + 1 < n; ++i)
    std::swap(out[static_cast<size_t>(i)], out[static_cast<size_t>(i + next() % (n - i))]);
  return out;
}

std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * c[0], b = uint64_t{0xcd9e8d57u} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return c;
}

TorchCudaGenerator::TorchCudaGenerator(uint64_t seed, int multiprocessors)
    : seed_(seed), grid_limit_(multiprocessors * kCudaBlocksPerMultiprocessor) {
  require(multiprocessors >= 1 && multiprocessors <= 4096, "multiprocessors: expected 1 to 4096, got {}",
          multiprocessors);
}

void TorchCudaGenerator::normal(std::span<float> out) {
  const auto n = static_cast<int64_t>(out.size());
  if (n == 0) return;
  // Beyond this torch splits the tensor into several launches.
  require(n <= int64_t{1} << 29, "noise: expected at most 2^29 values, got {}", n);
  const int64_t blocks = std::min(grid_limit_, (n + kCudaBlock - 1) / kCudaBlock);
  const int64_t threads = blocks * kCudaBlock;
  const int64_t rounds = (n - 1) / (threads * kCudaUnroll) + 1;
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)};
  constexpr float kToUnit = 0x1p-32f, kToAngle = 0x1p-32f * 6.2831855f;
  for (int64_t round = 0; round < rounds; ++round) {
    const uint64_t counter = counter_ + static_cast<uint64_t>(round);
    for (int64_t thread = 0; thread < threads; ++thread) {
      const int64_t first = round * threads * kCudaUnroll + thread;
      if (first >= n) break;
      const auto bits = philox4x32_10({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                                       static_cast<uint32_t>(thread), 0},
                                      key);
      for (size_t pair = 0; pair < 2; ++pair) {
        const float u = std::fma(static_cast<float>(bits[2 * pair]), kToUnit, kToUnit / 2);
        const float angle = std::fma(static_cast<float>(bits[2 * pair + 1]), kToAngle, kToAngle / 2);
        const float radius = std::sqrt(-2.0f * std::log(u));
        const int64_t at = first + 2 * static_cast<int64_t>(pair) * threads;
        if (at < n) out[static_cast<size_t>(at)] = radius * std::sin(angle);
        if (at + threads < n) out[static_cast<size_t>(at + threads)] = radius * std::cos(angle);
      }
    }
  }
  counter_ += static_cast<uint64_t>(rounds);
}

namespace {

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}
template <class T>
T take(std::span<const uint8_t>& in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{in[i]} << (8 * i));
  in = in.subspan(sizeof(T));
  return value;
}

}  // namespace

std::vector<uint8_t> TorchCpuGenerator::save() const {
  std::vector<uint8_t> out;
  for (const uint32_t word : state_) put(out, word);
  put(out, static_cast<uint32_t>(position_));
  put(out, static_cast<uint32_t>(kept_.has_value()));
  put(out, std::bit_cast<uint64_t>(kept_.value_or(0.0)));
  return out;
}

void TorchCpuGenerator::restore(std::span<const uint8_t> bytes) {
  check(bytes.size() == kStateSize * 4 + 16, ErrorCode::corrupt,
        "generator: expected {} bytes of state, got {}", kStateSize * 4 + 16, bytes.size());
  for (uint32_t& word : state_) word = take<uint32_t>(bytes);
  const auto position = take<uint32_t>(bytes), kept = take<uint32_t>(bytes);
  const auto value = std::bit_cast<double>(take<uint64_t>(bytes));
  check(position <= kStateSize && kept <= 1 && std::isfinite(value), ErrorCode::corrupt,
        "generator: its state is damaged");
  position_ = position;
  kept_ = kept ? std::optional(value) : std::nullopt;
}

std::vector<uint8_t> TorchCudaGenerator::save() const {
  std::vector<uint8_t> out;
  put(out, seed_), put(out, counter_), put(out, static_cast<uint64_t>(grid_limit_));
  return out;
}

void TorchCudaGenerator::restore(std::span<const uint8_t> bytes) {
  check(bytes.size() == 24, ErrorCode::corrupt, "generator: expected 24 bytes of state, got {}",
        bytes.size());
  const auto seed = take<uint64_t>(bytes), counter = take<uint64_t>(bytes), limit = take<uint64_t>(bytes);
  check(limit >= 1 && limit <= 4096 * kCudaBlocksPerMultiprocessor, ErrorCode::corrupt,
        "generator: its state is damaged");
  seed_ = seed, counter_ = counter, grid_limit_ = static_cast<int64_t>(limit);
}

void torch_cpu_normal(uint64_t seed, std::span<float> out) { TorchCpuGenerator(seed).normal(out); }

void torch_cuda_normal(uint64_t seed, std::span<float> out, int multiprocessors) {
  TorchCudaGenerator(seed, multiprocessors).normal(out);
}

}  // namespace tachy
