// The flat elementwise ops, each of which is one pass at memory speed. The strided copy is in copy_cpu.cpp.
#include <atomic>
#include <bit>

#include "ops/elementwise/elementwise_impl.h"
#include "ops/op_helpers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/elementwise_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_f8.h"
#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

// Products and sums are rounded one by one, as the definition says.
void lincomb_range(const LincombArgs& a, int64_t begin, int64_t end) {
  const float* x[8];
  for (int t = 0; t < a.count; ++t) x[t] = static_cast<const float*>(a.terms[t].x.data) + begin;
  float* out = static_cast<float*>(a.out.data) + begin;
  simd::for_lanes(end - begin, [&](auto d, int64_t i) HWY_ATTR {
    auto sum = hn::Mul(hn::LoadU(d, x[0] + i), hn::Set(d, a.terms[0].coefficient));
    for (int t = 1; t < a.count; ++t)
      sum = hn::Add(sum, hn::Mul(hn::LoadU(d, x[t] + i), hn::Set(d, a.terms[t].coefficient)));
    hn::StoreU(sum, d, out + i);
  });
}

void widen_bf16_range(const uint16_t* x, float* y, int64_t count) {
  simd::for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::Rebind<uint16_t, decltype(d)> half;
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(half, x + i)))), d, y + i);
  });
}

void widen_f16_range(const uint16_t* x, float* y, int64_t count) {
  simd::for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::Rebind<uint16_t, decltype(d)> half;
    const auto bits = hn::PromoteTo(du, hn::LoadU(half, x + i));
    hn::StoreU(simd::widen_bits<15, 13, 112>(d, bits, 31u << 23, 0x7f800000u), d,
               y + i);  // Inf and NaN keep their payload
  });
}

void widen_f8_range(const uint8_t* x, float* y, int64_t count, bool e5m2) {
  simd::for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::Rebind<uint8_t, decltype(d)> byte;
    const auto bits = hn::PromoteTo(du, hn::LoadU(byte, x + i));
    const auto wide = e5m2 ? simd::widen_e5m2(d, bits) : simd::widen_e4m3(d, bits);
    hn::StoreU(wide, d, y + i);
  });
}

void to_rgb8_range(const float* x, uint8_t* y, int64_t count) {
  simd::for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f);
    const auto half = hn::Mul(hn::Add(hn::LoadU(d, x + i), one), hn::Set(d, 0.5f));
    const auto unit = hn::Min(hn::IfThenElseZero(hn::Gt(half, zero), half), one);  // NaN is black
    const hn::Rebind<uint8_t, decltype(d)> bytes;
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(hn::Mul(unit, hn::Set(d, 255.0f)))), bytes, y + i);
  });
}

void clamp_range(float* x, float lo, float hi, int64_t count) {
  simd::for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto low = hn::Set(d, lo), high = hn::Set(d, hi), v = hn::LoadU(d, x + i);
    hn::StoreU(hn::IfThenElse(hn::Lt(v, low), low, hn::IfThenElse(hn::Gt(v, high), high, v)), d, x + i);
  });
}

bool finite_range(const float* x, int64_t count) { return simd::highest_magnitude(x, count) < 0x7f800000; }

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(lincomb_range);
HWY_EXPORT(widen_bf16_range);
HWY_EXPORT(widen_f16_range);
HWY_EXPORT(widen_f8_range);
HWY_EXPORT(to_rgb8_range);
HWY_EXPORT(clamp_range);
HWY_EXPORT(finite_range);

namespace {
constexpr int64_t kTile = 16384;
}

void lincomb_cpu(const LincombArgs& a, Stream& stream) {
  parallel_ranges(stream, a.out.numel(), kTile, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(lincomb_range)(a, begin, end);
  });
}

void widen_cpu(const WidenArgs& a, Stream& stream) {
  float* y = a.y.as<float>();
  const auto* halves = static_cast<const uint16_t*>(a.x.data);
  const auto* bytes = static_cast<const uint8_t*>(a.x.data);
  parallel_ranges(stream, a.x.numel(), kTile, [&](int64_t begin, int64_t end, int) {
    if (a.x.dtype == DType::bf16)
      HWY_DYNAMIC_DISPATCH(widen_bf16_range)(halves + begin, y + begin, end - begin);
    else if (a.x.dtype == DType::f16)
      HWY_DYNAMIC_DISPATCH(widen_f16_range)(halves + begin, y + begin, end - begin);
    else
      HWY_DYNAMIC_DISPATCH(widen_f8_range)
    (bytes + begin, y + begin, end - begin, a.x.dtype == DType::f8_e5m2);
  });
}

void to_rgb8_cpu(const ToRgb8Args& a, Stream& stream) {
  const float* x = a.x.as<float>();
  uint8_t* y = a.y.as<uint8_t>();
  parallel_ranges(stream, a.x.numel(), kTile, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(to_rgb8_range)(x + begin, y + begin, end - begin);
  });
}

void clamp_cpu(const ClampArgs& a, Stream& stream) {
  float* x = a.x.as<float>();
  parallel_ranges(stream, a.x.numel(), kTile, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(clamp_range)(x + begin, a.lo, a.hi, end - begin);
  });
}

void all_finite_cpu(const AllFiniteArgs& a, Stream& stream) {
  const float* x = a.x.as<float>();
  std::atomic<bool> finite{true};
  parallel_ranges(stream, a.x.numel(), kTile, [&](int64_t begin, int64_t end, int) {
    if (!HWY_DYNAMIC_DISPATCH(finite_range)(x + begin, end - begin))
      finite.store(false, std::memory_order_relaxed);
  });
  *a.result = finite.load();
}

void mark_nonfinite_cpu(const MarkNonfiniteArgs& a, Stream& stream) {
  bool finite = true;
  all_finite_cpu({a.x, &finite}, stream);
  if (!finite) *a.flag.as<int32_t>() = 1;
}

}  // namespace tachy::ops
#endif
