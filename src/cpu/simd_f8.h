// Small floats for Highway code: widening to float32 (exact) and narrowing to the 8-bit ones (round to
// nearest even, as in tensor/dtype.h for one value). Include it inside the foreach_target part.

#if defined(TACHY_CPU_SIMD_F8_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TACHY_CPU_SIMD_F8_H_
#undef TACHY_CPU_SIMD_F8_H_
#else
#define TACHY_CPU_SIMD_F8_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Widens small floats to float32. The sign is bit kSign; the magnitude, shifted left by kShift, lines up with
// float32's fields; kRebase is the difference of the exponent biases. Subnormals are read as 1.m · 2^e − 2^e,
// which is exact and never a float32 subnormal, on which processors are slow.
template <int kSign, int kShift, int kRebase, class D, class DU = hn::RebindToUnsigned<D>>
HWY_INLINE hn::Vec<D> widen_bits(D d, hn::Vec<DU> bits, uint32_t first_special, uint32_t special_or) {
  const DU du;
  const hn::RebindToSigned<D> di;
  const auto magnitude = hn::ShiftLeft<kShift>(hn::And(bits, hn::Set(du, (1u << kSign) - 1)));
  const auto sign = hn::ShiftLeft<31 - kSign>(hn::And(bits, hn::Set(du, 1u << kSign)));
  const auto normal = hn::Add(magnitude, hn::Set(du, static_cast<uint32_t>(kRebase) << 23));
  const auto lowest = hn::Set(du, static_cast<uint32_t>(kRebase + 1) << 23);
  const auto small = hn::Sub(hn::BitCast(d, hn::Add(magnitude, lowest)), hn::BitCast(d, lowest));
  const auto is_small = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 1 << 23));
  const auto is_special =
      hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, static_cast<int32_t>(first_special - 1)));
  auto wide = hn::IfThenElse(is_small, hn::BitCast(di, small), hn::BitCast(di, normal));
  wide = hn::IfThenElse(is_special, hn::BitCast(di, hn::Or(magnitude, hn::Set(du, special_or))), wide);
  return hn::BitCast(d, hn::Or(hn::BitCast(du, wide), sign));
}

// e5m2 is the upper byte of f16; e4m3 has one NaN per sign and no infinities.
template <class D, class DU = hn::RebindToUnsigned<D>>
HWY_INLINE hn::Vec<D> widen_e5m2(D d, hn::Vec<DU> bits) {
  return widen_bits<15, 13, 112>(d, hn::ShiftLeft<8>(bits), 31u << 23, 0x7f800000u);
}
template <class D, class DU = hn::RebindToUnsigned<D>>
HWY_INLINE hn::Vec<D> widen_e4m3(D d, hn::Vec<DU> bits) {
  return widen_bits<7, 20, 120>(d, bits, 127u << 20, 0x7fc00000u);
}

// Vectors of float32 from values of 32 or 16 bits.
template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const float* x) {
  return hn::LoadU(d, x);
}
template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const bf16_t* x) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> half;
  return hn::BitCast(
      d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(half, reinterpret_cast<const uint16_t*>(x)))));
}
template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const f16_t* x) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> half;
  return widen_bits<15, 13, 112>(d, hn::PromoteTo(du, hn::LoadU(half, reinterpret_cast<const uint16_t*>(x))),
                                 31u << 23, 0x7f800000u);
}

// The code of v in an 8-bit float with kMantissa bits and smallest normal number 2^kLowest, for |v| up to its
// largest value; NaN becomes 0x7f. A v below 2^kLowest is rounded by adding a float whose unit is the
// subnormals' step.
template <int kMantissa, int kLowest, class D, class DI = hn::RebindToSigned<D>>
HWY_INLINE hn::Vec<DI> narrow_f8(D d, hn::Vec<D> v) {
  const DI di;
  constexpr int shift = 23 - kMantissa;
  const auto bits = hn::BitCast(di, v), magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto odd = hn::And(hn::ShiftRight<shift>(magnitude), hn::Set(di, 1));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(di, (1 << (shift - 1)) - 1)), odd);
  const auto normal = hn::Sub(hn::ShiftRight<shift>(rounded), hn::Set(di, (kLowest + 126) << kMantissa));
  const auto step = hn::Set(d, static_cast<float>(1 << (23 + kLowest - kMantissa)));
  const auto small =
      hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), step)), hn::BitCast(di, step));
  const auto is_small = hn::Lt(magnitude, hn::Set(di, (kLowest + 127) << 23));
  const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(di, 0x80));
  const auto code = hn::Or(hn::IfThenElse(is_small, small, normal), sign);
  return hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7f800000)), hn::Set(di, 0x7f), code);
}

// The same if |v|, rounded, is at most the format's largest value, and v is not NaN. Added to
// 2^(e + 23 - kMantissa), where e is the exponent of v or of the smallest normal number, v becomes a whole
// number of its format's steps, rounded to nearest even.
template <int kMantissa, int kLowest, class D, class DI = hn::RebindToSigned<D>>
HWY_INLINE hn::Vec<DI> narrow_f8_bounded(D d, hn::Vec<D> v) {
  const DI di;
  constexpr int shift = 23 - kMantissa;
  const auto bits = hn::BitCast(di, v), magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto exponent = hn::Max(hn::And(bits, hn::Set(di, 0x7f800000)), hn::Set(di, (kLowest + 127) << 23));
  const auto large = hn::Add(exponent, hn::Set(di, shift << 23));
  const auto sum = hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, large)));
  const auto field = hn::Sub(hn::ShiftRight<shift>(exponent), hn::Set(di, (kLowest + 127) << kMantissa));
  const auto code = hn::Add(hn::Sub(sum, large), field);
  return hn::Or(code, hn::And(hn::ShiftRight<24>(bits), hn::Set(di, 0x80)));
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
