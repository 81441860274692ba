// The definition: computes one row of scores at a time, a softmax with its maximum subtracted, and the
// weighted sum of values.
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/panels.h"
#include "cpu/widen.h"
#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store>
Store* at(const Tensor& t, int64_t b, int64_t l, int64_t h) {
  return static_cast<Store*>(t.data) + b * t.strides[0] + l * t.strides[1] + h * t.strides[2];
}

template <class Real>
Real as_bf16(Real value) {
  const auto narrow = static_cast<float>(value);
  uint16_t bits;
  float wide;
  cpu::narrow_bf16(&narrow, 1, &bits);
  cpu::widen(&bits, DType::bf16, 1, &wide);
  return wide;
}

// How the yardstick rounds: nothing, or everything to bf16, or to 8 bits as attention.h's eight_bits allows
// it. Then q and k become integers with a scale per token (q) or per 128 tokens (k), and v and the weights
// keep four significant bits (e4m3).
enum class Round { nothing, bf16, eight_bits };

float four_bits(float value) {
  int exponent;
  const float mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 4)), exponent - 4);
}

// Rows [first, last) of a head share one scale.
struct Rows {
  int64_t b, h, first, last;
};

void round_to_integers(const Tensor& t, const Rows& rows, const Tensor& copy) {
  float most = 0;
  for (int64_t l = rows.first; l < rows.last; ++l)
    for (int64_t c = 0; c < t.dim(3); ++c)
      most = std::max(most, std::abs(at<float>(t, rows.b, l, rows.h)[c]));
  const float step = most > 0 ? most / 127 : 1;
  for (int64_t l = rows.first; l < rows.last; ++l)
    for (int64_t c = 0; c < t.dim(3); ++c)
      at<float>(copy, rows.b, l, rows.h)[c] =
          std::nearbyint(at<float>(t, rows.b, l, rows.h)[c] / step) * step;
}

// t's rows as they are, or rounded in scratch. In 8 bits `together` rows share the scale of their integers;
// if it is 0, rows are rounded like v.
Tensor rounded(const Tensor& t, Round how, int64_t together, Stream& stream) {
  if (how == Round::nothing) return t;
  const Tensor copy = stream.arena->f32({t.dim(0), t.dim(1), t.dim(2), t.dim(3)});
  if (stream.measuring()) return copy;
  const int64_t rows = std::max<int64_t>(1, together);
  for (int64_t b = 0; b < t.dim(0); ++b)
    for (int64_t h = 0; h < t.dim(2); ++h)
      for (int64_t l = 0; l < t.dim(1); l += rows) {
        if (how == Round::eight_bits && together > 0) {
          round_to_integers(t, {b, h, l, std::min(t.dim(1), l + rows)}, copy);
          continue;
        }
        for (int64_t row = l; row < std::min(t.dim(1), l + rows); ++row)
          for (int64_t c = 0; c < t.dim(3); ++c) {
            const float value = at<float>(t, b, row, h)[c];
            at<float>(copy, b, row, h)[c] = how == Round::bf16 ? as_bf16(value) : four_bits(value);
          }
      }
  return copy;
}

// A weight of at most 1, rounded. In 8 bits the largest becomes 2^5 times `shift`, and below 2^-6 e4m3
// continues in steps of 2^-9.
template <class Real>
Real rounded_weight(Real weight, Round how, Real shift = 1) {
  if (how == Round::nothing) return weight;
  if (how == Round::bf16) return as_bf16(weight);
  const auto scaled = static_cast<float>(weight * shift) * 32;
  return (scaled >= 0x1p-6f ? four_bits(scaled) : std::nearbyint(scaled * 512) / 512) / (32 * shift);
}

// The power of two, 2^0 to 2^(7/8), by which a row's weights are scaled when they are rounded to 8 bits. If a
// weight w becomes w·(1 + e), and p is its share of their sum, then to first order
//
//   lse changes by  sum of p·e,    out by  sum of p·e·(v − out),    |e| <= 1/17
//
// and e depends on where w lies between two powers of two; for a power of two it is 0. In a row that a few
// keys decide, the sum is nearly the p·e of the heaviest. A yardstick whose heaviest weight is a power of two
// would round all weights but that one. A kernel that takes keys in steps, and scales by the first step's
// largest weight, would then have larger errors in such rows without being worse. So the yardstick tries
// eight evenly spaced places, and takes the one at which the error of its own sum is largest. each(body)
// calls body(weight) for each weight of the row.
constexpr int64_t kStep = 128;  // in keys
template <class Real, class Each>
Real worst_shift(const Each& each) {
  constexpr int kPlaces = 8;
  Real shifts[kPlaces], sums[kPlaces] = {}, exact = 0;
  for (int i = 0; i < kPlaces; ++i) shifts[i] = std::exp2(Real(i) / kPlaces);
  each([&](Real weight) {
    exact += weight;
    for (int i = 0; i < kPlaces; ++i) sums[i] += rounded_weight(weight, Round::eight_bits, shifts[i]);
  });
  int worst = 0;
  for (int i = 1; i < kPlaces; ++i)
    if (std::abs(sums[i] - exact) > std::abs(sums[worst] - exact)) worst = i;
  return shifts[worst];
}

struct Keys {
  KeyRange range;
  int64_t first, count;  // place of its first score in a row's; number of keys that exist
};

// Calls body(key, place of its score) for the keys of a part that query i sees.
template <class Body>
void for_seen_keys(const AttentionArgs& a, const Keys& part, int64_t b, int64_t h, int64_t i, Body&& body) {
  if (!a.blocks.defined()) {
    for (int64_t j = first_key(part.range, i), seen = visible_keys(part.range, i, part.count); j < seen; ++j)
      body(j, part.first + j);
    return;
  }
  int64_t place = 0;
  for (const int32_t block : listed_blocks(a.blocks, b, h, block_of(a.blocks.queries, i))) {
    const TokenSpan span = block_span(a.blocks.keys, part.count, block);
    for (int64_t j = span.first; j < span.end; ++j) body(j, place++);
  }
}

template <class Store, class Real>
void define(const AttentionArgs& a, Stream& stream, Round round, Round round_weights) {
  ArenaScope scope(*stream.arena);
  const Tensor queries = rounded(a.q, round, 1, stream);
  const int64_t batch = a.q.dim(0), lq = a.q.dim(1), heads = a.q.dim(2), d = a.q.dim(3);
  std::vector<Keys> parts;
  int64_t lk = 0;
  for (int i = 0; i < a.ranges(); ++i) {
    KeyRange r = a.range(i);
    r.k = rounded(r.k, round, 128, stream), r.v = rounded(r.v, round, 0, stream);
    parts.push_back({r, lk, stream.measuring() ? r.k.dim(1) : present_keys(r)});
    lk += r.k.dim(1);
  }
  if (a.blocks.defined()) lk = a.blocks.indices.dim(3) * a.blocks.most_keys();
  auto* scratch = static_cast<Real*>(stream.arena->bytes(stream.threads() * (lk + d) * sizeof(Real)));
  if (stream.measuring()) return;
  parallel_ranges(stream, batch * heads * lq, 1, [&](int64_t row, int64_t, int worker) {
    const int64_t b = row / (heads * lq), h = row / lq % heads, i = row % lq;
    Real *scores = scratch + worker * (lk + d), *sum = scores + lk;
    const Store* q = at<Store>(queries, b, i, h);
    const Store* bias = a.bias.defined() ? row_of<Store>(a.bias, h) + i * a.bias.stride(1) : nullptr;
    Real highest = -std::numeric_limits<Real>::infinity(), total = 0;
    for (const Keys& part : parts) {
      const Store* key_bias = row_of<Store>(part.range.key_bias, b);
      for_seen_keys(a, part, b, h, i, [&](int64_t j, int64_t place) {
        const Store* k = at<Store>(part.range.k, b, j, h);
        Real dot = 0;
        for (int64_t c = 0; c < d; ++c) dot += Real(q[c]) * Real(k[c]);
        Real score = dot * Real(a.scale);
        // Both are added in the tensors' dtype, because a mask of finfo.min must absorb the score, as it does
        // in PyTorch.
        if (key_bias) score = static_cast<Store>(score) + key_bias[j];
        if (bias) score = static_cast<Store>(score) + bias[j];
        scores[place] = score;
        highest = std::max(highest, score);
      });
    }
    for (int64_t c = 0; c < d; ++c) sum[c] = 0;
    const bool masked = highest == -std::numeric_limits<Real>::infinity();
    // Calls body(weight, value) for each key that the query sees.
    const auto each = [&](auto&& body) {
      for (const Keys& part : parts)
        for_seen_keys(a, part, b, h, i, [&](int64_t j, int64_t place) {
          body(std::exp(scores[place] - highest), at<Store>(part.range.v, b, j, h));
        });
    };
    const bool bytes = round_weights == Round::eight_bits;
    Real shift = 1;
    // In all other cases one step has all keys, and its largest weight is the heaviest.
    if (bytes && !masked && lk > kStep)
      shift = worst_shift<Real>([&](auto&& body) { each([&](Real weight, const Store*) { body(weight); }); });
    if (!masked)
      each([&](Real weight, const Store* v) {
        const Real used = rounded_weight(weight, round_weights, shift);
        total += bytes ? used : weight;
        for (int64_t c = 0; c < d; ++c) sum[c] += used * Real(v[c]);
      });
    Store* out = at<Store>(a.out, b, i, h);
    for (int64_t c = 0; c < d; ++c) {
      const Real value = masked ? Real(0) : sum[c] / total;
      out[c] = static_cast<Store>(a.accumulate ? Real(out[c]) + value : value);
    }
    if (a.lse.defined())
      row_of<Store>(a.lse, b)[h * a.lse.stride(1) + i] =
          static_cast<Store>(masked ? highest : highest + std::log(total));
  });
}

}  // namespace

void attention_ref(const AttentionArgs& args, Stream& stream) {
  const bool bf16 = args.q.dtype == DType::f32 && cpu::usable(stream.precision.compute) == Compute::bf16;
  const Round round = bf16 ? Round::bf16 : Round::nothing;
  with_store(args.q, [&]<class Store>() { define<Store, double>(args, stream, round, Round::nothing); });
}
void attention_working(const AttentionArgs& args, Stream& stream) {
  const bool bf16 = cpu::usable(stream.precision.compute) == Compute::bf16;
  const Round round = args.eight_bits ? Round::eight_bits : bf16 ? Round::bf16 : Round::nothing;
  define<float, float>(args, stream, round, round);
}

}  // namespace tachy::ops
