// A transformer block whose tokens are in a compact order and attend to listed blocks of keys is compared
// with plain loops in float64. These take tokens in the order of frames, rows and columns, and a mask that
// says which keys a query sees.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "models/wan/block.h"
#include "models/wan/dit.h"
#include "ops/choose_blocks/choose_blocks.h"
#include "ops/rope/rope.h"
#include "wan_dit_case.h"

namespace tachy {
namespace {

using Matrix = std::vector<std::vector<double>>;  // [tokens][values]
constexpr int64_t kPlainFrames = 5, kPlainRows = 9, kPlainColumns = 11,
                  kPlainTokens = kPlainFrames * kPlainRows * kPlainColumns;

// Computes self-attention in the first block of tests/golden/wan/t2v.
struct Plain {
  const test::WanDitCase& c;

  std::vector<double> weight(const std::string& name) const {
    const auto* entry = c.weights->find("blocks.0.attn1." + name);
    check(entry != nullptr, ErrorCode::not_found, "no weight {}", name);
    const Tensor t(const_cast<void*>(entry->data), entry->dtype, entry->dims);
    return {t.as<float>(), t.as<float>() + t.numel()};
  }
  Matrix linear(const std::string& name, const Matrix& x) const {
    const auto w = weight(name + ".weight"), b = weight(name + ".bias");
    Matrix y(x.size(), b);
    for (size_t i = 0; i < x.size(); ++i)
      for (size_t o = 0; o < b.size(); ++o)
        for (size_t k = 0; k < x[i].size(); ++k) y[i][o] += w[o * x[i].size() + k] * x[i][k];
    return y;
  }
  // Prepares q or k: RMS norm over all channels, then rope by each token's frame, row and column.
  void norm_rope(const std::string& name, Matrix& x) const {
    const auto w = weight(name);
    const int64_t d = c.config.head_dim, side = 2 * (d / 6), dims[] = {d - 2 * side, side, side};
    for (size_t token = 0; token < x.size(); ++token) {
      const auto i = static_cast<int64_t>(token);
      const int64_t at[] = {i / (kPlainRows * kPlainColumns), i / kPlainColumns % kPlainRows,
                            i % kPlainColumns};
      double square = 0;
      for (const double v : x[token]) square += v * v;
      const double rms = std::sqrt(square / static_cast<double>(x[token].size()) + 1e-6);
      for (size_t k = 0; k < w.size(); ++k) x[token][k] *= w[k] / rms;
      size_t k = 0;
      for (int64_t head = 0; head < c.config.num_heads; ++head)
        for (size_t axis = 0; axis < 3; ++axis)
          for (int64_t p = 0; p < dims[axis] / 2; ++p, k += 2) {
            const double power = -2.0 * static_cast<double>(p) / static_cast<double>(dims[axis]);
            const double angle = static_cast<double>(at[axis]) * std::pow(10000.0, power);
            const double a = x[token][k], b = x[token][k + 1];
            x[token][k] = a * std::cos(angle) - b * std::sin(angle);
            x[token][k + 1] = a * std::sin(angle) + b * std::cos(angle);
          }
    }
  }
  using Sees = std::function<bool(int64_t head, size_t query, size_t key)>;
  Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v, const Sees& sees) const {
    const auto d = static_cast<size_t>(c.config.head_dim);
    Matrix out(q.size(), std::vector<double>(q[0].size(), 0.0));
    for (int64_t head = 0; head < c.config.num_heads; ++head)
      for (size_t i = 0; i < q.size(); ++i) {
        double total = 0;
        const size_t first = static_cast<size_t>(head) * d;
        for (size_t j = 0; j < k.size(); ++j) {
          if (!sees(head, i, j)) continue;
          double score = 0;
          for (size_t n = first; n < first + d; ++n) score += q[i][n] * k[j][n];
          const double weight = std::exp(score / std::sqrt(static_cast<double>(d)));
          total += weight;
          for (size_t n = first; n < first + d; ++n) out[i][n] += weight * v[j][n];
        }
        for (size_t n = first; n < first + d; ++n) out[i][n] /= total;
      }
    return out;
  }
  // Returns the blocks of keys that each head's blocks of queries see: those with the best mean products, and
  // their own.
  std::vector<std::vector<std::set<size_t>>> top_k(const Matrix& q, const Matrix& k,
                                                   const std::vector<int32_t>& places, size_t keep) const {
    const auto d = static_cast<size_t>(c.config.head_dim);
    const auto blocks = static_cast<size_t>(ops::chosen_blocks(kPlainTokens));
    const auto means = [&](const Matrix& x) {
      Matrix sums(blocks, std::vector<double>(x[0].size(), 0.0));
      for (size_t i = 0; i < x.size(); ++i) {
        const auto block = static_cast<size_t>(places[i]) / 128;
        const double count =
            std::min(128.0, static_cast<double>(kPlainTokens) - 128.0 * static_cast<double>(block));
        for (size_t n = 0; n < x[i].size(); ++n) sums[block][n] += x[i][n] / count;
      }
      return sums;
    };
    const Matrix mean_q = means(q), mean_k = means(k);
    std::vector<std::vector<std::set<size_t>>> seen;
    for (int64_t head = 0; head < c.config.num_heads; ++head) {
      auto& lists = seen.emplace_back();
      for (size_t i = 0; i < blocks; ++i) {
        std::vector<std::pair<double, size_t>> scores;
        for (size_t j = 0; j < blocks; ++j) {
          double score = j == i ? INFINITY : 0;
          for (size_t n = static_cast<size_t>(head) * d; j != i && n < static_cast<size_t>(head + 1) * d; ++n)
            score += mean_q[i][n] * mean_k[j][n];
          scores.emplace_back(-score, j);
        }
        std::sort(scores.begin(), scores.end());
        auto& list = lists.emplace_back();
        for (size_t n = 0; n < keep; ++n) list.insert(scores[n].second);
      }
    }
    return seen;
  }
};

class WanSparsePlain : public testing::TestWithParam<KeyChooser> {};

TEST_P(WanSparsePlain, IsAttentionToTheListedKeysAlone) {
  const test::WanDitCase c("t2v");
  const Plain plain{c};
  const int64_t dim = c.config.dim(), half = c.config.head_dim / 2, layers = c.config.num_layers;
  std::mt19937 engine(5);
  std::normal_distribution<float> normal;
  const auto random = [&](int64_t count) {
    std::vector<float> out(static_cast<size_t>(count));
    for (float& v : out) v = normal(engine);
    return out;
  };
  const std::vector<int32_t> places = compact_places(kPlainFrames, kPlainRows, kPlainColumns);
  const auto given = random(kPlainTokens * dim), start = random(kPlainTokens * dim), gate = random(dim);

  // The expected result is computed in float64. The text's values are zeros, and so is the gate of the
  // feed-forward: they only add a bias.
  Matrix u(static_cast<size_t>(kPlainTokens));
  for (int64_t i = 0; i < kPlainTokens; ++i)
    u[static_cast<size_t>(i)].assign(given.begin() + i * dim, given.begin() + (i + 1) * dim);
  Matrix q = plain.linear("to_q", u), k = plain.linear("to_k", u);
  const Matrix v = plain.linear("to_v", u);
  plain.norm_rope("norm_q.weight", q), plain.norm_rope("norm_k.weight", k);
  const WanSparse sparse{0.5, GetParam()};
  const auto keep = static_cast<size_t>(kept_blocks(0.5, kPlainTokens));
  auto seen = plain.top_k(q, k, places, keep);
  if (GetParam() == KeyChooser::sliding_tile) {
    const auto lists = ops::sliding_tile_blocks(
        {{kPlainFrames, kPlainRows, kPlainColumns}, places, static_cast<int64_t>(keep)});
    for (auto& head : seen)
      for (size_t i = 0; i < head.size(); ++i) {
        const auto first = lists.begin() + static_cast<std::ptrdiff_t>(i * keep);
        head[i] = {first, first + static_cast<std::ptrdiff_t>(keep)};
      }
  }
  const auto sees = [&](int64_t head, size_t query, size_t key) {
    return seen[static_cast<size_t>(head)][static_cast<size_t>(places[query]) / 128].contains(
        static_cast<size_t>(places[key]) / 128);
  };
  const Matrix want = plain.linear("to_out.0", plain.attend(q, k, v, sees));
  const Matrix dense =
      plain.linear("to_out.0", plain.attend(q, k, v, [](int64_t, size_t, size_t) { return true; }));

  // The block computes with its tokens in their own order.
  std::vector<float> x(start.size()), in_u(given.size()),
      modulation(static_cast<size_t>(layers * 6 * dim), 0.0f),
      zeros(static_cast<size_t>(layers * 3 * dim), 0.0f), next(static_cast<size_t>(2 * dim), 0.0f),
      table(static_cast<size_t>(6 * dim)), cos(static_cast<size_t>(kPlainTokens * half)), sin(cos);
  for (int64_t i = 0; i < kPlainTokens; ++i) {
    const int64_t to = places[static_cast<size_t>(i)] * dim;
    std::copy_n(start.begin() + i * dim, dim, x.begin() + to);
    std::copy_n(given.begin() + i * dim, dim, in_u.begin() + to);
  }
  std::copy(gate.begin(), gate.end(), modulation.begin() + 2 * dim);
  const auto f32 = [](std::vector<float>& values, std::initializer_list<int64_t> dims) {
    return Tensor(values.data(), DType::f32, dims);
  };
  WanGrid grid{
      kPlainFrames, kPlainRows, kPlainColumns, f32(cos, {kPlainTokens, half}), f32(sin, {kPlainTokens, half}),
      places,       {}};
  ops::rope_table_3d(kPlainFrames, kPlainRows, kPlainColumns, c.config.head_dim, 10000.0, grid.cos, grid.sin,
                     {}, places);
  const WanContext context{.k = f32(zeros, {layers, 3, dim}), .v = f32(zeros, {layers, 3, dim})};
  ThreadPool pool(2);
  Arena arena(size_t{64} << 20);
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store({}, stream);
  const WanBlock block(Scope(c.weights).sub("blocks").sub(0), c.config, 0, f32(table, {6 * dim}), store);
  const Tensor after = f32(next, {2, 1, dim});
  block.forward({.batch = 1,
                 .tokens = kPlainTokens,
                 .x = f32(x, {kPlainTokens, dim}),
                 .modulation = f32(modulation, {layers, 1, 6 * dim}),
                 .cos = grid.cos,
                 .sin = grid.sin,
                 .contexts = {&context},
                 .u = f32(in_u, {kPlainTokens, dim}),
                 .keys = make_keys(sparse, c.config, grid, store)},
                {.scale = after.select(0, 0), .shift = after.select(0, 1)}, 0, stream);

  const auto* entry = c.weights->find("blocks.0.attn2.to_out.0.bias");
  const Tensor bias(const_cast<void*>(entry->data), entry->dtype, entry->dims);
  double worst = 0, largest = 0, left_out = 0;
  for (int64_t i = 0; i < kPlainTokens; ++i)
    for (int64_t n = 0; n < dim; ++n) {
      const auto token = static_cast<size_t>(i), channel = static_cast<size_t>(n);
      const double base = static_cast<double>(start[static_cast<size_t>(i * dim + n)]) +
                          static_cast<double>(bias.as<float>()[n]);
      const double wanted = base + static_cast<double>(gate[channel]) * want[token][channel];
      const auto got = static_cast<double>(x[static_cast<size_t>(places[token] * dim + n)]);
      worst = std::max(worst, std::abs(got - wanted)), largest = std::max(largest, std::abs(wanted));
      left_out = std::max(left_out, std::abs(gate[channel] * (dense[token][channel] - want[token][channel])));
    }
  EXPECT_LE(worst / largest, 2e-6);
  EXPECT_GT(left_out / largest, 1e-2) << "the keys that are left out must matter";
}

INSTANTIATE_TEST_SUITE_P(Choosers, WanSparsePlain,
                         testing::Values(KeyChooser::top_k, KeyChooser::sliding_tile));

}  // namespace
}  // namespace tachy
