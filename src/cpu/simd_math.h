// Vector exp and the activations for Highway code; include it inside the foreach_target part of a _cpu.cpp
// file:
//   namespace hn = hwy::HWY_NAMESPACE;  v = tachy::cpu::HWY_NAMESPACE::gelu_tanh(d, v);   (d any float32 tag)
//
// exp: x = k·ln 2 + r, with a degree-6 polynomial in r and the power of two inserted by integer arithmetic;
// within 1.1 ulp. gelu_tanh(x) = x / (1 + exp(−2u)), without tanh's cancellation. gelu_erf(x) = x·Φ(x)
// through the upper tail Q(a) = exp(−a²/2)·R(a), R a polynomial in (a − 3)/(a + 3), so small results keep
// their relative accuracy. NaN in gives NaN out. The polynomials minimise the largest error, and were fitted
// with least squares in float64.

#if defined(TACHY_CPU_SIMD_MATH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TACHY_CPU_SIMD_MATH_H_
#undef TACHY_CPU_SIMD_MATH_H_
#else
#define TACHY_CPU_SIMD_MATH_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// min(x, top) and max(x, bottom) that keep NaN. If one operand is NaN, x86's instructions return their second
// operand, and Arm's the number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V at_most(D d, float top, V x) {
  const V limit = hn::Set(d, top);
#if HWY_ARCH_X86
  return hn::Min(limit, x);
#else
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
#endif
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V at_least(D d, float bottom, V x) {
  const V limit = hn::Set(d, bottom);
#if HWY_ARCH_X86
  return hn::Max(limit, x);
#else
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
#endif
}

// Returns exp(r) for |r| <= ln(2)/2, and the shifted integer k = round(x / ln 2) in
// the low bits of `shifted`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_parts(D d, V x, V* shifted) {
  const V magic = hn::Set(d, 12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
  *shifted = hn::MulAdd(x, hn::Set(d, 1.44269504088896341f), magic);
  const V k = hn::Sub(*shifted, magic);
  // ln 2 is split into two parts, of which the first has 9 trailing zero bits, so that k times it is exact
  // even without FMA.
  V r = hn::NegMulAdd(k, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(k, hn::Set(d, -2.12194440e-4f), r);
  V q = hn::MulAdd(hn::Set(d, 0.001381446490995586f), r, hn::Set(d, 0.008368780836462975f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.04166839271783829f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.1666651964187622f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.4999999403953552f));
  return hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), hn::Set(d, 1.0f));
}

// exp for the full range: it overflows to infinity and underflows gradually.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  x = at_least(d, -104.0f, at_most(d, 89.0f, x));
  V shifted;
  const V p = exp_parts(d, x, &shifted);
  const auto k = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 0x4B400000));
  const auto half = hn::ShiftRight<1>(k), rest = hn::Sub(k, half), bias = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(rest, bias)));
  return hn::Mul(hn::Mul(p, first), second);
}

// exp for x <= 0 (softmax): results below 2^-125 are zero; -inf gives 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_negative(D d, V x) {
  const hn::RebindToSigned<D> di;
  constexpr float kLowest = -86.6f;
  const auto keep = hn::Not(hn::Lt(x, hn::Set(d, kLowest)));
  V shifted;
  const V p = exp_parts(d, at_least(d, kLowest, x), &shifted);
  const auto power = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  return hn::IfThenElseZero(keep, hn::BitCast(d, hn::Add(hn::BitCast(di, p), power)));
}

// 1 + exp(x). Below −80 the sum is 1 in any case, so exp's subnormal results (a hundred
// cycles each) are avoided.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V one_plus_exp(D d, V x) {
  return hn::Add(hn::Set(d, 1.0f), exp(d, at_least(d, -80.0f, x)));
}

// x · sigmoid(x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V silu(D d, V x) {
  return hn::Div(x, one_plus_exp(d, hn::Neg(x)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh(D d, V x) {
  // −2u = x · (−2·sqrt(2/pi) − 2·sqrt(2/pi)·0.044715 x²)
  const V poly = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -0.0713548162726f), hn::Set(d, -1.59576912160573f));
  return hn::Div(x, one_plus_exp(d, hn::Mul(x, poly)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_erf(D d, V x) {
  const V three = hn::Set(d, 3.0f);
  const auto negative = hn::Lt(x, hn::Zero(d));
  // Beyond 14.5 the tail is 0 in float32. 1 − tail is 1 from 13 on, where the tail is not
  // yet subnormal (and slow).
  const V a = hn::Min(hn::IfThenElse(negative, hn::Set(d, 14.5f), hn::Set(d, 13.0f)), hn::Abs(x));
  const V s = hn::Div(hn::Sub(a, three), hn::Add(a, three));
  constexpr float kTail[] = {0.12151395f,   -0.20640261f,   0.12322503f,    -0.04621329f,   0.0061320714f,
                             0.0029045634f, -0.0009837624f, -0.0003395006f, 0.00011554919f, 5.368373e-05f};
  V r = hn::Set(d, kTail[9]);
  for (int i = 8; i >= 0; --i) r = hn::MulAdd(r, s, hn::Set(d, kTail[i]));
  const V upper = hn::Mul(r, exp(d, hn::Mul(hn::Mul(a, a), hn::Set(d, -0.5f))));  // 1 − Φ(|x|)
  const V phi = hn::IfThenElse(negative, upper, hn::Sub(hn::Set(d, 1.0f), upper));
  return hn::Mul(x, phi);
}

// x·tanh(log(1 + e)) = x·n / (n + 2) with e = exp(x), n = e(e + 2): this needs no logarithm and has no
// cancellation. From 20 on the quotient is 1; below −80 the result is a few 1e-35, and exp's subnormal
// results are avoided.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V mish(D d, V x) {
  const V two = hn::Set(d, 2.0f);
  const V e = exp(d, at_least(d, -80.0f, at_most(d, 20.0f, x)));
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Div(hn::Mul(x, n), hn::Add(n, two));
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
