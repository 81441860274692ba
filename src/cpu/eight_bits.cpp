#include "cpu/eight_bits.h"

#include <algorithm>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/eight_bits.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_f8.h"
#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The bits of the largest |x| in a part of a row, as those of a float32.
template <class Half>
int32_t half_amax(const Half* x, int64_t count) {
  const hn::ScalableTag<int16_t> d;  // without their signs values have the order of |x|, with NaN above all
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* bits = reinterpret_cast<const int16_t*>(x);
  const auto magnitude = hn::Set(d, 0x7fff);
  auto most = hn::Zero(d), other = most;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    most = hn::Max(most, hn::And(hn::LoadU(d, bits + i), magnitude));
    other = hn::Max(other, hn::And(hn::LoadU(d, bits + i + lanes), magnitude));
  }
  int last = hn::GetLane(hn::MaxOfLanes(d, hn::Max(most, other)));
  for (; i < count; ++i) last = std::max(last, bits[i] & 0x7fff);
  return std::bit_cast<int32_t>(to_float(Half{static_cast<uint16_t>(last)}));
}

int32_t largest_bits(const void* x, DType from, int64_t count) {
  if (from == DType::bf16) return half_amax(static_cast<const bf16_t*>(x), count);
  if (from == DType::f16) return half_amax(static_cast<const f16_t*>(x), count);
  return highest_magnitude(static_cast<const float*>(x), count);
}

// With kBounded the scale is that of a block whose values are finite, so that no quotient rounds to more than
// the top.
template <DType kTo, bool kBounded, class From>
void narrow_part(const From* x, int64_t count, float scale, uint8_t* q) {
  const float top = top_of_8_bits(kTo);
  for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<uint8_t, decltype(d)> du8;
    const hn::Rebind<int8_t, decltype(d)> di8;
    auto v = hn::Div(load_wide(d, x + i), hn::Set(d, scale));
    if constexpr (!kBounded) {
      const auto is_number = hn::Eq(v, v);
      const auto inside = hn::Max(hn::Set(d, -top), hn::Min(hn::Set(d, top), v));
      v = hn::IfThenElse(is_number, inside, kTo == DType::i8 ? hn::Zero(d) : v);
    }
    if constexpr (kTo == DType::i8) {
      hn::StoreU(hn::DemoteTo(di8, hn::NearestInt(v)), di8, reinterpret_cast<int8_t*>(q) + i);
    } else {
      constexpr int mantissa = kTo == DType::f8_e4m3 ? 3 : 2, lowest = kTo == DType::f8_e4m3 ? -6 : -14;
      if constexpr (kBounded)
        hn::StoreU(hn::DemoteTo(du8, narrow_f8_bounded<mantissa, lowest>(d, v)), du8, q + i);
      else
        hn::StoreU(hn::DemoteTo(du8, narrow_f8<mantissa, lowest>(d, v)), du8, q + i);
    }
  });
}

template <class From>
void narrow_to(const From* x, int64_t count, float scale, DType to, bool bounded, uint8_t* q) {
  const auto narrow = [&]<DType kTo>() {
    bounded ? narrow_part<kTo, true>(x, count, scale, q) : narrow_part<kTo, false>(x, count, scale, q);
  };
  if (to == DType::i8)
    narrow.template operator()<DType::i8>();
  else if (to == DType::f8_e4m3)
    narrow.template operator()<DType::f8_e4m3>();
  else
    narrow.template operator()<DType::f8_e5m2>();
}

void round_to_8_bits(const void* x, DType from, int64_t count, float scale, DType to, bool bounded,
                     uint8_t* q) {
  if (from == DType::bf16)
    narrow_to(static_cast<const bf16_t*>(x), count, scale, to, bounded, q);
  else if (from == DType::f16)
    narrow_to(static_cast<const f16_t*>(x), count, scale, to, bounded, q);
  else
    narrow_to(static_cast<const float*>(x), count, scale, to, bounded, q);
}

void widen_8_bits(const uint8_t* q, int64_t count, float scale, DType dtype, float* y) {
  for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint8_t, decltype(d)> du8;
    const hn::Rebind<int8_t, decltype(d)> di8;
    auto v = hn::Zero(d);
    if (dtype == DType::i8)
      v = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(di8, reinterpret_cast<const int8_t*>(q) + i)));
    else if (dtype == DType::f8_e4m3)
      v = widen_e4m3(d, hn::PromoteTo(du, hn::LoadU(du8, q + i)));
    else
      v = widen_e5m2(d, hn::PromoteTo(du, hn::LoadU(du8, q + i)));
    hn::StoreU(hn::Mul(v, hn::Set(d, scale)), d, y + i);
  });
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::cpu {

HWY_EXPORT(largest_bits);
HWY_EXPORT(round_to_8_bits);
HWY_EXPORT(widen_8_bits);

int32_t largest_bits(const void* x, DType from, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_bits)(x, from, count);
}

void round_to_8_bits(const void* x, DType from, int64_t count, float scale, DType to, bool bounded,
                     uint8_t* q) {
  HWY_DYNAMIC_DISPATCH(round_to_8_bits)(x, from, count, scale, to, bounded, q);
}

void widen_8_bits(const uint8_t* q, int64_t count, float scale, DType dtype, float* y) {
  HWY_DYNAMIC_DISPATCH(widen_8_bits)(q, count, scale, dtype, y);
}

}  // namespace tachy::cpu
#endif
