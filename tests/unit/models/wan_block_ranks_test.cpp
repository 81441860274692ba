// If the tokens of a transformer block are divided among ranks, each rank gets its part of the result that a
// single rank would compute.
#include <gtest/gtest.h>

#include <cmath>

#include "models/wan/block.h"
#include "models/wan/causal.h"
#include "runtime/rank_team.h"
#include "wan_dit_case.h"

namespace tachy {
namespace {

constexpr int64_t kBatch = 2, kTokens = 8, kKeys = 3;

std::vector<float> wave(int64_t count, float step) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::sin(static_cast<float>(i) * step);
  return out;
}

// Returns tokens [first, first + count) of each item of the batch.
std::vector<float> some_tokens(const std::vector<float>& all, int64_t items, int64_t first, int64_t count) {
  std::vector<float> out;
  const int64_t width = static_cast<int64_t>(all.size()) / (items * kTokens);
  for (int64_t b = 0; b < items; ++b) {
    const auto* from = all.data() + (b * kTokens + first) * width;
    out.insert(out.end(), from, from + count * width);
  }
  return out;
}

struct Streams {
  std::vector<float> x, u;  // the residual stream, and its norm for the next block
};

Streams run_block(const test::WanDitCase& c, runtime::Comm* comm, const WanCausal* causal = nullptr,
                  std::unique_ptr<WanBranch> further = nullptr) {
  const int ranks = comm ? comm->size() : 1, rank = comm ? comm->rank() : 0;
  const runtime::Share own = runtime::share_of(kTokens, rank, ranks);
  const int64_t tokens = own.count(), dim = c.config.dim(), half = c.config.head_dim / 2;
  const auto mine = [&](const std::vector<float>& all, int64_t items) {
    return some_tokens(all, items, own.first, tokens);
  };
  Streams out{mine(wave(kBatch * kTokens * dim, 0.37f), kBatch),
              mine(wave(kBatch * kTokens * dim, 0.71f), kBatch)};
  std::vector<float> modulation = wave(c.config.num_layers * 6 * dim, 0.13f), next = wave(2 * dim, 0.29f),
                     table(static_cast<size_t>(6 * dim)), cos = mine(wave(kTokens * half, 0.11f), 1),
                     sin = cos;
  for (size_t i = 0; i < cos.size(); ++i) sin[i] = std::sqrt(1 - cos[i] * cos[i]);
  std::vector<float> keys = wave(c.config.num_layers * kKeys * dim, 0.53f), values = keys;
  const auto f32 = [](std::vector<float>& v, std::initializer_list<int64_t> dims) {
    return Tensor(v.data(), DType::f32, dims);
  };
  const WanContext context{.k = f32(keys, {c.config.num_layers, kKeys, dim}),
                           .v = f32(values, {c.config.num_layers, kKeys, dim})};
  ThreadPool pool(1);
  Arena arena(size_t{16} << 20);
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store({}, stream);
  WanBranches branches = make_branches(Scope(c.weights), c.config, store);
  if (further) branches.push_back(std::move(further));
  const WanBlock block(Scope(c.weights).sub("blocks").sub(0), c.config, 0, f32(table, {6 * dim}), store,
                       branches);
  const Tensor after = f32(next, {2, 1, dim});
  block.forward({.batch = kBatch,
                 .tokens = tokens,
                 .x = f32(out.x, {kBatch * tokens, dim}),
                 .modulation = f32(modulation, {c.config.num_layers, 1, 6 * dim}),
                 .cos = f32(cos, {tokens, half}),
                 .sin = f32(sin, {tokens, half}),
                 .contexts = {&context, &context},
                 .u = f32(out.u, {kBatch * tokens, dim}),
                 .comm = comm,
                 .spread = {.tokens = kTokens},
                 .causal = causal},
                {.scale = after.select(0, 0), .shift = after.select(0, 1)}, 0, stream);
  return out;
}

void on_ranks(int ranks, const std::function<void(runtime::Comm&)>& body) {
  runtime::RankTeam(ranks, ranks).run({.groups = 1, .per_group = ranks}, [&](int, runtime::Comm& comm) {
    body(comm);
  });
}

TEST(WanBlock, TokensMayBeDividedAmongRanks) {
  const test::WanDitCase c("t2v");
  const Streams whole = run_block(c, nullptr);
  for (const int ranks : {1, 2, 3, 5})
    on_ranks(ranks, [&](runtime::Comm& comm) {
      const Streams part = run_block(c, &comm);
      const runtime::Share own = runtime::share_of(kTokens, comm.rank(), ranks);
      EXPECT_EQ(part.x, some_tokens(whole.x, kBatch, own.first, own.count()))
          << comm.rank() << " of " << ranks;
      EXPECT_EQ(part.u, some_tokens(whole.u, kBatch, own.first, own.count()))
          << comm.rank() << " of " << ranks;
    });
}

// A branch that looks at more than a rank's tokens.
struct Undivided : WanBranch {
  bool load(const Scope&, int64_t, nn::ParamStore&) override { return true; }
  const char* needs_all_tokens() const override { return "a video that looks everywhere"; }
};

// A branch that looks at more than a rank's tokens, and that nobody has divided yet, is refused by name.
TEST(WanBlock, WhatOneRankMustHaveIsRefused) {
  const test::WanDitCase plain("t2v");
  on_ranks(2, [&](runtime::Comm& comm) {
    std::string told = "nothing";
    try {
      run_block(plain, &comm, nullptr, std::make_unique<Undivided>());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      told = e.message();
    }
    EXPECT_EQ(told, "transformer: a video that looks everywhere needs all tokens on one rank");
  });
}

}  // namespace
}  // namespace tachy
