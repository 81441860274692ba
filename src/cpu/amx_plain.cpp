// The plain replacement of AMX's products (amx.h), which takes vectors of one row's 16 columns at a time.
#include "base/env.h"
#include "base/os/processors.h"
#include "cpu/amx.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/amx_plain.cpp"
#include <hwy/foreach_target.h>
// The order matters: highway.h sees the target that foreach_target.h set.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The rows that are computed at once: their two chains each hide a multiply-add's latency.
inline constexpr int kRowsAtOnce = 4;

// Computes one vector of columns of four rows. `right` is float32: its even places [16][16], and after them
// its odd ones.
template <class D>
HWY_INLINE void multiply_columns(D d, float* HWY_RESTRICT sums, const float* HWY_RESTRICT even_left,
                                 const float* HWY_RESTRICT odd_left, const float* HWY_RESTRICT right) {
  hn::Vec<D> even[kRowsAtOnce], odd[kRowsAtOnce];
#pragma GCC unroll 4
  for (int r = 0; r < kRowsAtOnce; ++r) even[r] = odd[r] = hn::Zero(d);
  for (int k = 0; k < 16; ++k) {
    const auto right_even = hn::LoadU(d, right + k * 16), right_odd = hn::LoadU(d, right + 256 + k * 16);
#pragma GCC unroll 4
    for (int r = 0; r < kRowsAtOnce; ++r) {
      even[r] = hn::MulAdd(hn::Set(d, even_left[r * 16 + k]), right_even, even[r]);
      odd[r] = hn::MulAdd(hn::Set(d, odd_left[r * 16 + k]), right_odd, odd[r]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRowsAtOnce; ++r)
    hn::StoreU(hn::Add(hn::LoadU(d, sums + r * 16), hn::Add(even[r], odd[r])), d, sums + r * 16);
}

// Widens [16][16] pairs to float32: first the even places, then the odd ones.
HWY_INLINE void widen_pairs(const uint16_t* pairs, float* to) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto* words = reinterpret_cast<const uint32_t*>(pairs);
  for (int i = 0; i < 256; i += static_cast<int>(hn::Lanes(d))) {
    const auto pair = hn::LoadU(du, words + i);
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(pair)), d, to + i);
    hn::StoreU(hn::BitCast(d, hn::And(pair, hn::Set(du, 0xffff0000u))), d, to + 256 + i);
  }
}

void multiply_bf16(float* sums, const uint16_t* left, const uint16_t* right) {
  const hn::CappedTag<float, 16> d;
  alignas(64) float wide_left[512], wide_right[512];
  widen_pairs(left, wide_left);
  widen_pairs(right, wide_right);
  for (int row = 0; row < kAmxRows; row += kRowsAtOnce)
    for (int column = 0; column < 16; column += static_cast<int>(hn::Lanes(d)))
      multiply_columns(d, sums + row * 16 + column, wide_left + row * 16, wide_left + 256 + row * 16,
                       wide_right + column);
}

void multiply_bytes(int32_t* HWY_RESTRICT sums, const uint8_t* left, const int8_t* right) {
  const hn::CappedTag<int32_t, 16> d;
  int32_t wide[64 * 16];  // [place][column]
  for (int k = 0; k < 16; ++k)
    for (int column = 0; column < 16; ++column)
      for (int i = 0; i < 4; ++i) wide[(k * 4 + i) * 16 + column] = right[k * 64 + column * 4 + i];
  for (int row = 0; row < kAmxRows; ++row)
    for (int column = 0; column < 16; column += static_cast<int>(hn::Lanes(d))) {
      auto sum = hn::LoadU(d, sums + row * 16 + column);
      for (int k = 0; k < kAmxRowBytes; ++k)
        sum = hn::Add(
            sum, hn::Mul(hn::Set(d, left[row * kAmxRowBytes + k]), hn::LoadU(d, wide + k * 16 + column)));
      hn::StoreU(sum, d, sums + row * 16 + column);
    }
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tachy::cpu {

HWY_EXPORT(multiply_bf16);
HWY_EXPORT(multiply_bytes);

namespace {

// While it lives, subnormal operands and results are zeros to this thread, as in AMX.
#if defined(__x86_64__)
class WithoutSubnormals {
 public:
  WithoutSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
  ~WithoutSubnormals() { _mm_setcsr(before_); }
  WithoutSubnormals(const WithoutSubnormals&) = delete;
  WithoutSubnormals& operator=(const WithoutSubnormals&) = delete;

 private:
  unsigned before_;
};

bool has_tiles(int product_bit) {
  static const auto bits = [] {
    constexpr int kTiles = 24;
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c >> 27 & 1)) return uint32_t{0};
    if ((enabled_state() >> 17 & 3) != 3 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> kTiles & 1))
      return uint32_t{0};
    return os::request_tiles() ? d : uint32_t{0};
  }();
  return bits >> product_bit & 1;
}
#else
struct WithoutSubnormals {};
#endif

}  // namespace

#if defined(__x86_64__)
bool has_tiles_of_bf16() { return has_tiles(22); }
bool has_tiles_of_bytes() { return has_tiles(25); }
#endif

bool tiles_emulated() {
  static const bool emulated = env_string("TACHY_BF16", "") == "amx-emulated";
  return emulated;
}

void plain_multiply_bf16(float* sums, const uint16_t* left, const uint16_t* right) {
  [[maybe_unused]] const WithoutSubnormals subnormals;
  HWY_DYNAMIC_DISPATCH(multiply_bf16)(sums, left, right);
}

void plain_multiply_bytes(int32_t* sums, const uint8_t* left, const int8_t* right) {
  HWY_DYNAMIC_DISPATCH(multiply_bytes)(sums, left, right);
}

}  // namespace tachy::cpu
#endif
