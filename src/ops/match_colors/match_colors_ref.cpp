#include <cmath>

#include "ops/match_colors/match_colors_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Real>
using Color = std::array<Real, 3>;

template <class Real>
Color<Real> product(const double (&m)[3][3], const Color<Real>& v) {
  Color<Real> out;
  for (size_t i = 0; i < 3; ++i) out[i] = Real(m[i][0]) * v[0] + Real(m[i][1]) * v[1] + Real(m[i][2]) * v[2];
  return out;
}

template <class Real>
Real unit(float x) {
  return std::clamp((Real(x) + 1) / 2, Real(0), Real(1));
}

template <class Real>
Color<Real> to_lab(const float* x) {
  Color<Real> c = {unit<Real>(x[0]), unit<Real>(x[1]), unit<Real>(x[2])};
  for (Real& v : c)
    v = v > Real(lab::kStraightRgb) ? std::pow((v + Real(0.055)) / Real(1.055), Real(2.4)) : v / Real(12.92);
  c = product(lab::kXyzOfRgb, c);
  for (size_t i = 0; i < 3; ++i) {
    const Real t = c[i] / Real(lab::kWhite[i]);
    c[i] = t > Real(lab::kStraightLab) ? std::cbrt(t) : Real(lab::kSlope) * t + Real(lab::kOffset);
  }
  return {116 * c[1] - 16, 500 * (c[0] - c[1]), 200 * (c[1] - c[2])};
}

template <class Real>
Color<Real> to_rgb(const Color<Real>& c) {
  const Real y = (c[0] + 16) / 116;
  Color<Real> v = {c[1] / 500 + y, y, std::max(y - c[2] / 200, Real(0))};
  for (size_t i = 0; i < 3; ++i) {
    const bool cubic = v[i] > Real(lab::kStraightRoot);
    v[i] =
        (cubic ? v[i] * v[i] * v[i] : (v[i] - Real(lab::kOffset)) / Real(lab::kSlope)) * Real(lab::kWhite[i]);
  }
  v = product(lab::kRgbOfXyz, v);
  for (Real& t : v) {
    t = t > Real(lab::kStraightLinear) ? Real(1.055) * std::pow(t, Real(1 / 2.4)) - Real(0.055)
                                       : t * Real(12.92);
    t = std::clamp(t, Real(0), Real(1));
  }
  return v;
}

// Sums are of distances from the first pixel, so that a frame of one colour has a deviation of exactly 0.
template <class Real>
LabStatistics statistics(const float* x, int64_t pixels) {
  const Color<Real> origin = to_lab<Real>(x);
  Color<Real> sum = {}, squares = {};
  for (int64_t i = 0; i < pixels; ++i) {
    const Color<Real> c = to_lab<Real>(x + 3 * i);
    for (size_t k = 0; k < 3; ++k) sum[k] += c[k] - origin[k];
  }
  for (int64_t i = 0; i < pixels; ++i) {
    const Color<Real> c = to_lab<Real>(x + 3 * i);
    for (size_t k = 0; k < 3; ++k) {
      const Real d = c[k] - origin[k] - sum[k] / Real(pixels);
      squares[k] += d * d;
    }
  }
  LabStatistics out;
  for (size_t k = 0; k < 3; ++k) {
    out.mean[k] = origin[k] + sum[k] / Real(pixels);
    out.deviation[k] = std::sqrt(squares[k] / Real(pixels));
  }
  return out;
}

template <class Real>
void define(const MatchColorsArgs& a, Stream& stream) {
  const int64_t pixels = a.x.dim(1) * a.x.dim(2);
  const Real s = Real(a.strength);
  parallel_ranges(stream, a.x.dim(0), 1, [&](int64_t frame, int64_t, int) {
    const float* x = a.x.as<float>() + frame * pixels * 3;
    float* y = a.y.as<float>() + frame * pixels * 3;
    const LabStatistics own = statistics<Real>(x, pixels);
    for (int64_t i = 0; i < 3 * pixels; i += 3) {
      Color<Real> c = to_lab<Real>(x + i);
      for (size_t k = 0; k < 3; ++k) {
        const Real factor = own.deviation[k] == 0 ? 0 : Real(a.picture.deviation[k]) / Real(own.deviation[k]);
        c[k] = (c[k] - Real(own.mean[k])) * factor + Real(a.picture.mean[k]);
      }
      c = to_rgb(c);
      for (size_t k = 0; k < 3; ++k)
        y[i + static_cast<int64_t>(k)] =
            static_cast<float>(2 * ((1 - s) * unit<Real>(x[i + static_cast<int64_t>(k)]) + s * c[k]) - 1);
    }
  });
}

}  // namespace

void lab_statistics_ref(const LabStatisticsArgs& a, Stream&) {
  *a.result = statistics<double>(a.x.as<float>(), a.x.dim(0) * a.x.dim(1));
}
void match_colors_ref(const MatchColorsArgs& args, Stream& stream) { define<double>(args, stream); }
void match_colors_working(const MatchColorsArgs& args, Stream& stream) { define<float>(args, stream); }

}  // namespace tachy::ops
