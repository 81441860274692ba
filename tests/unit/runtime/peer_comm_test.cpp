// Tests ranks that are queues of GPUs: what they exchange, in each way and in graphs, and that no wait of theirs
// lasts. The ranks share the first card, and are on several where there are several. Skipped without a GPU.
#include "runtime/peer_comm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "cuda/graph.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/attend_by_heads.h"
#include "runtime/peer_team.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

using runtime::HeadTensors;
using runtime::PeerTeam;

class PeerCommTest : public testing::TestWithParam<bool> {  // whether each rank has a card of its own
 protected:
  void SetUp() override {
    std::string why;
    cards_ = cuda::gpu_count(&why);
    if (cards_ == 0) GTEST_SKIP() << why;
    if (GetParam() && cards_ < 2) GTEST_SKIP() << "there is one GPU";
  }
  std::vector<std::shared_ptr<cuda::Gpu>> open(int ranks) const {
    std::vector<std::shared_ptr<cuda::Gpu>> out;
    for (int rank = 0; rank < ranks; ++rank) out.push_back(cuda::open_gpu(GetParam() ? rank % cards_ : 0));
    return out;
  }
  void replay(const struct Shape& shape, int rounds) const;
  int cards_ = 0;
};

// A rank's queue, with an arena on its device.
struct Place {
  ThreadPool pool{1};
  Arena arena;
  Stream stream;
  explicit Place(cuda::Gpu& gpu) : arena(size_t{160} << 20, &gpu) {
    stream = {.arena = &arena, .pool = &pool, .gpu = &gpu, .memory = &gpu};
  }
};

// The value of an element of q, k or v, which tells where it comes from.
float value_of(int64_t which, int64_t b, int64_t token, int64_t head, int64_t i, int round) {
  return static_cast<float>(round + 1) * static_cast<float>(which + 1) + 0.25f * static_cast<float>(b) +
         static_cast<float>(token % 97) + 128 * static_cast<float>(head) + 0.0078125f * static_cast<float>(i);
}

struct Shape {
  int64_t batch, tokens, heads, dim;
};

// A rank's tokens, on its device: put() writes them, expect() reads the results.
struct Tokens {
  Shape shape;
  runtime::Share own;
  HeadTensors t;
  Tokens(const Shape& s, runtime::Share share, Stream& stream) : shape(s), own(share) {
    for (Tensor* each : {&t.q, &t.k, &t.v, &t.out})
      *each = stream.arena->tensor(DType::f32, {s.batch, own.count(), s.heads, s.dim});
  }
  template <class Value>
  std::vector<float> values(const Value& value) const {
    std::vector<float> out;
    for (int64_t b = 0; b < shape.batch; ++b)
      for (int64_t token = own.first; token < own.end; ++token)
        for (int64_t head = 0; head < shape.heads; ++head)
          for (int64_t i = 0; i < shape.dim; ++i) out.push_back(value(b, token, head, i));
    return out;
  }
  void put(int round, const Stream& stream) const {
    int64_t which = 0;
    for (const Tensor& each : {t.q, t.k, t.v}) {
      upload(values([&](auto... at) { return value_of(which, at..., round); }).data(), each, stream);
      ++which;
    }
    const std::vector<float> nothing(static_cast<size_t>(t.out.numel()), NAN);
    upload(nothing.data(), t.out, stream);
  }
  void expect(int round, const Stream& stream) const {
    std::vector<float> out(static_cast<size_t>(t.out.numel()));
    download(t.out, out.data(), stream);
    EXPECT_EQ(out, values([&](auto... at) {
                return value_of(0, at..., round) + 2 * value_of(1, at..., round) +
                       4 * value_of(2, at..., round);
              }));
  }
};

// In place of attention: a sum that shows which q, k and v met.
void mix(const HeadTensors& t, Stream& stream) {
  const ArenaScope scope(*stream.arena);
  const auto whole = [&](const Tensor& x) {
    if (x.contiguous()) return x;
    const Tensor out = stream.arena->tensor(x.dtype, x.shape());
    ops::copy({.x = x, .y = out}, stream);
    return out;
  };
  const bool some_heads = !t.out.contiguous();
  const Tensor out = some_heads ? stream.arena->tensor(t.out.dtype, t.out.shape()) : t.out;
  ops::LincombArgs sum{.count = 3, .out = out};
  sum.terms[0] = {whole(t.q), 1}, sum.terms[1] = {whole(t.k), 2}, sum.terms[2] = {whole(t.v), 4};
  ops::lincomb(sum, stream);
  if (some_heads) ops::copy({.x = out, .y = t.out}, stream);
}

// Shares of tokens and heads that are even and uneven, rows that a kernel takes and rows that it does not, and
// tensors that go by the copy engines. With the last shape two ranks have heads that travel one after the other, beside
// the mixing.
constexpr Shape kShapes[] = {{1, 64, 4, 16}, {2, 77, 5, 8},     {2, 31, 3, 3},
                             {1, 9, 2, 4},   {1, 9001, 4, 128}, {1, 140000, 4, 8}};

TEST_P(PeerCommTest, ExchangesGiveEachRankItsHeadsAndBack) {
  for (const int ranks : {1, 2, 3, 4})
    for (const Shape& shape : kShapes) {
      const auto gpus = open(ranks);
      PeerTeam team({.groups = 1, .per_group = ranks}, gpus);
      for (const bool careful : {true, false})
        team.run([&](int rank) {
          Place place(*gpus[static_cast<size_t>(rank)]);
          team.comm(rank).set_careful(careful);
          const Tokens mine(shape, runtime::share_of(shape.tokens, rank, ranks), place.stream);
          for (int round = 0; round < 3; ++round) {
            mine.put(round, place.stream);
            runtime::attend_by_heads(&team.comm(rank), {.tokens = shape.tokens}, mine.t, place.stream,
                                     [&](const HeadTensors& t) { mix(t, place.stream); });
            mine.expect(round, place.stream);
          }
        });
    }
}

// Two ranks replay a graph of three exchanges `rounds` times, each time with other values.
void PeerCommTest::replay(const Shape& shape, int rounds) const {
  constexpr int kRanks = 2;
  const auto gpus = open(kRanks);
  PeerTeam team({.groups = 1, .per_group = kRanks}, gpus);
  team.run([&](int rank) {
    Place place(*gpus[static_cast<size_t>(rank)]);
    runtime::PeerComm& comm = team.comm(rank);
    const Tokens mine(shape, runtime::share_of(shape.tokens, rank, kRanks), place.stream);
    const auto layers = [&] {
      for (int layer = 0; layer < 3; ++layer)
        runtime::attend_by_heads(&comm, {.tokens = shape.tokens}, mine.t, place.stream,
                                 [&](const HeadTensors& t) { mix(t, place.stream); });
    };
    comm.set_careful(true);
    layers();
    comm.set_careful(false);
    const auto graph = cuda::capture(*gpus[static_cast<size_t>(rank)], layers);
    comm.most(0);
    for (int round = 0; round < rounds; ++round) {
      mine.put(round, place.stream);
      graph->launch();
      mine.expect(round, place.stream);
    }
  });
}

TEST_P(PeerCommTest, GraphsExchangeWhatIsThereWhenTheyAreLaunched) {
  replay({1, 1040, 6, 32}, 100);
  replay({1, 140000, 4, 8}, 5);  // travels beside the mixing
}

TEST_P(PeerCommTest, GathersToTheFirstRank) {
  constexpr int kRanks = 3;
  const auto gpus = open(kRanks);
  PeerTeam team({.groups = 1, .per_group = kRanks}, gpus);
  team.run([&](int rank) {
    Place place(*gpus[static_cast<size_t>(rank)]);
    Stream& stream = place.stream;
    const Tensor part = stream.arena->f32({rank + 1}), whole = stream.arena->f32({6});
    const std::vector<float> values(3, static_cast<float>(rank));
    upload(values.data(), part, stream);
    const Tensor to[] = {whole.slice(0, 0, 1), whole.slice(0, 1, 3), whole.slice(0, 3, 6)};
    const std::span<const Tensor> all(to);
    team.comm(rank).gather(part, rank == 0 ? all : all.first(0), stream);
    if (rank > 0) return;
    std::vector<float> out(6);
    download(whole, out.data(), stream);
    EXPECT_THAT(out, testing::ElementsAre(0, 1, 1, 2, 2, 2));
  });
}

// A rank that fails while another one waits for it on the device ends that wait.
TEST_P(PeerCommTest, OneRanksErrorEndsTheOthersWaits) {
  using Clock = std::chrono::steady_clock;
  const auto gpus = open(2);
  for (const int failing : {0, 1}) {
    PeerTeam team({.groups = 1, .per_group = 2}, gpus);
    std::vector<cuda::Gpu*> both = {gpus[0].get(), gpus[1].get()};
    const auto peers = cuda::join_peers(both);
    peers->barrier(1 - failing);  // the kernel is loaded, and the other queue comes soon
    peers->barrier(failing);
    for (const auto& gpu : gpus) gpu->synchronize();
    const auto begin = Clock::now();
    std::string told;
    try {
      team.run([&](int rank) {
        Place mine(*gpus[static_cast<size_t>(rank)]);
        if (rank == failing) fail(ErrorCode::numerical, "rank {} fails", rank);
        const Tensor part = mine.stream.arena->f32({4});
        const Tensor to[] = {part, part};
        for (int i = 0; i < 100; ++i) team.comm(rank).all_to_all(to, to, mine.stream);
      });
    } catch (const Error& e) {
      told = e.message();
    }
    EXPECT_EQ(told, fmt::format("rank {} fails", failing));
    peers->barrier(1 - failing);  // nobody else comes
    peers->stop();
    gpus[static_cast<size_t>(1 - failing)]->synchronize();
    EXPECT_THROW(peers->check(), Error);
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 5);
    peers->restart();
    for (int rank : {0, 1}) peers->barrier(rank);
    for (const auto& gpu : gpus) gpu->synchronize();
    peers->check();
  }
}

INSTANTIATE_TEST_SUITE_P(Cards, PeerCommTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Several" : "One"; });

}  // namespace
}  // namespace tachy
