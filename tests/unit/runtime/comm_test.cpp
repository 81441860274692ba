// Tests the communicator's contract with ranks that are threads, a team of ranks when some of them fail, and
// attention whose tokens are divided.
#include "runtime/comm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/notice.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/attend_by_heads.h"
#include "runtime/rank_team.h"

namespace tachy {
namespace {

using runtime::Comm;
using runtime::RankLayout;
using runtime::RankTeam;
using runtime::share_of;
using testing::ElementsAre;
using testing::HasSubstr;

struct Alone {
  ThreadPool pool{1};
  Arena arena{size_t{4} << 20};
  Stream stream{.arena = &arena, .pool = &pool};
};

Tensor tensor_of(std::vector<float>& values, std::initializer_list<int64_t> dims) {
  return Tensor(values.data(), DType::f32, dims);
}

// Calls body(comm) on the ranks of one group.
void on_ranks(int ranks, const std::function<void(Comm&)>& body) {
  RankTeam(ranks, ranks).run({.groups = 1, .per_group = ranks}, [&](int, Comm& comm) { body(comm); });
}

TEST(Shares, FollowOneAnotherAndDifferByOneAtMost) {
  for (const int64_t count : {0, 1, 5, 16, 17, 31})
    for (const int64_t ranks : {1, 2, 3, 16}) {
      int64_t end = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const runtime::Share share = share_of(count, rank, ranks);
        EXPECT_EQ(share.first, end) << count << " on " << ranks;
        EXPECT_GE(share.count(), count / ranks);
        EXPECT_LE(share.count(), (count + ranks - 1) / ranks);
        end = share.end;
      }
      EXPECT_EQ(end, count);
    }
}

TEST(RankLayout, HasAGroupForBranchesThatDivideTheRanks) {
  const auto of = [](int ranks, int64_t branches, int64_t tokens = 100) {
    const RankLayout out = RankLayout::of(ranks, branches, tokens);
    return std::pair(out.groups, out.per_group);
  };
  EXPECT_EQ(of(1, 2), std::pair(1, 1));
  EXPECT_EQ(of(4, 1), std::pair(1, 4));
  EXPECT_EQ(of(4, 2), std::pair(2, 2));
  EXPECT_EQ(of(3, 2), std::pair(1, 3));
  EXPECT_EQ(of(6, 3), std::pair(3, 2));
  EXPECT_EQ(of(16, 2, 5), std::pair(2, 5)) << "ranks without a token stay out";
  EXPECT_EQ(RankLayout::of(6, 2, 100).group_of(4), 1);
  EXPECT_EQ(RankLayout::of(6, 2, 100).place_of(4), 1);
}

TEST(Ranks, ExchangeWhatTheContractSays) {
  constexpr int kRanks = 3;
  on_ranks(kRanks, [](Comm& comm) {
    Alone a;
    const auto r = static_cast<float>(comm.rank());
    // Rank p gets p + 1 values, and nothing goes from rank 2 to rank 0 or back.
    std::vector<float> values = {10 * r, 10 * r + 1, 10 * r + 2, 10 * r + 3, 10 * r + 4, 10 * r + 5},
                       got(9, -1);
    std::vector<Tensor> from, to;
    for (int p = 0; p < kRanks; ++p) {
      const bool none = (comm.rank() == 2 && p == 0) || (comm.rank() == 0 && p == 2);
      from.push_back(none ? Tensor()
                          : Tensor(&values[static_cast<size_t>(p * (p + 1) / 2)], DType::f32, {p + 1}));
      to.push_back(none ? Tensor() : Tensor(&got[static_cast<size_t>(3 * p)], DType::f32, {comm.rank() + 1}));
    }
    comm.all_to_all(from, to, a.stream);
    if (comm.rank() == 0) EXPECT_THAT(got, ElementsAre(0, -1, -1, 10, -1, -1, -1, -1, -1));
    if (comm.rank() == 1) EXPECT_THAT(got, ElementsAre(1, 2, -1, 11, 12, -1, 21, 22, -1));
    if (comm.rank() == 2) EXPECT_THAT(got, ElementsAre(-1, -1, -1, 13, 14, 15, 23, 24, 25));

    std::vector<float> part(static_cast<size_t>(comm.rank() + 1), r), whole(6, -1);
    const Tensor places[] = {Tensor(&whole[0], DType::f32, {1}), Tensor(&whole[1], DType::f32, {2}),
                             Tensor(&whole[3], DType::f32, {3})};
    const std::span<const Tensor> all(places);
    comm.gather(Tensor(part.data(), DType::f32, {comm.rank() + 1}), comm.rank() == 0 ? all : all.first(0),
                a.stream);
    if (comm.rank() == 0) EXPECT_THAT(whole, ElementsAre(0, 1, 1, 2, 2, 2));
    if (comm.rank() == 1) EXPECT_THAT(whole, testing::Each(-1));
  });
}

TEST(Ranks, WhatDoesNotFitTogetherIsTold) {
  std::string told;
  try {
    on_ranks(2, [](Comm& comm) {
      Alone a;
      std::vector<float> x(4);
      const Tensor two[] = {tensor_of(x, {1}), tensor_of(x, {1})},
                   large[] = {tensor_of(x, {4}), tensor_of(x, {4})};
      comm.all_to_all(two, comm.rank() == 0 ? two : large, a.stream);
    });
  } catch (const Error& e) {
    told = e.message();
  }
  EXPECT_THAT(told, HasSubstr("4 bytes were sent where 16 are expected"));
  on_ranks(1, [](Comm& comm) {
    Alone a;
    EXPECT_THROW(comm.all_to_all({}, {}, a.stream), Error) << "a tensor for each rank";
    std::vector<float> x(1);
    EXPECT_THROW(comm.gather(tensor_of(x, {1}), {}, a.stream), Error) << "rank 0 has room for all";
  });
}

TEST(Ranks, NothingMovesInAMeasureRun) {
  runtime::MeetingPlace nobody(2);
  runtime::ThreadComm comm(nobody, 1);
  Alone a;
  Arena measure;
  a.stream.arena = &measure;
  std::vector<float> x(1), y = {7};
  const Tensor from[] = {tensor_of(x, {1}), Tensor()}, to[] = {tensor_of(y, {1}), Tensor()};
  comm.all_to_all(from, to, a.stream);  // this call waits for no other rank
  comm.gather(tensor_of(x, {1}), {}, a.stream);
  EXPECT_THAT(y, ElementsAre(7));
}

TEST(RankTeam, GroupsExchangeAmongThemselves) {
  std::mutex mutex;
  // Each entry has the rank, its rank within the group, and the last value that it has gathered (-1: none).
  std::set<std::tuple<int, int, int>> seen;
  RankTeam team(6, 4);
  EXPECT_EQ(team.pool(0).threads() + team.pool(3).threads(), 2)
      << "with fewer threads than ranks each has one";
  team.run({.groups = 2, .per_group = 3}, [&](int rank, Comm& comm) {
    Alone a;
    std::vector<float> mine = {static_cast<float>(rank)}, all(3, -1);
    const Tensor places[] = {Tensor(&all[0], DType::f32, {1}), Tensor(&all[1], DType::f32, {1}),
                             Tensor(&all[2], DType::f32, {1})};
    const std::span<const Tensor> to(places);
    comm.gather(tensor_of(mine, {1}), comm.rank() == 0 ? to : to.first(0), a.stream);
    const std::lock_guard lock(mutex);
    seen.emplace(rank, comm.rank(), static_cast<int>(all[2]));
  });
  EXPECT_THAT(seen, ElementsAre(std::tuple(0, 0, 2), std::tuple(1, 1, -1), std::tuple(2, 2, -1),
                                std::tuple(3, 0, 5), std::tuple(4, 1, -1), std::tuple(5, 2, -1)));
}

// Ranks that wait for one that has ended must also end, with the error of that rank and no other.
TEST(RankTeam, OneRanksErrorEndsAllOfThem) {
  std::atomic<int> ended = 0;
  const auto run = [&](int failing) {
    RankTeam(4, 4).run({.groups = 2, .per_group = 2}, [&](int rank, Comm& comm) {
      struct Count {
        std::atomic<int>& n;
        ~Count() { ++n; }
      } const count{ended};
      Alone a;
      std::vector<float> x(1);
      const Tensor one[] = {tensor_of(x, {1}), tensor_of(x, {1})};
      for (int i = 0; i < 100; ++i) {
        if (rank == failing && i == 50) fail(ErrorCode::numerical, "rank {} fails", rank);
        std::vector<float> y(2);
        const Tensor to[] = {Tensor(&y[0], DType::f32, {1}), Tensor(&y[1], DType::f32, {1})};
        comm.all_to_all(one, to, a.stream);
      }
    });
  };
  for (const int failing : {0, 1, 3}) {
    ended = 0;
    try {
      run(failing);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.message(), fmt::format("rank {} fails", failing));
    }
    EXPECT_EQ(ended, 4);
  }
}

TEST(RankTeam, WarningsAreTheCallers) {
  std::vector<std::string> lines;
  const LineScope scope([&](std::string_view line) { lines.emplace_back(line); });
  on_ranks(3, [](Comm& comm) {
    if (comm.rank() > 0) warn("the same from two ranks");
  });
  EXPECT_THAT(lines, ElementsAre("warning: the same from two ranks"));
}

// Returns a rank's share of all tokens: [B, T, …] → [B, its share, …].
std::vector<float> tokens_of(const std::vector<float>& whole, int64_t batch, int64_t tokens,
                             const runtime::Share& share) {
  std::vector<float> out;
  const size_t item = whole.size() / static_cast<size_t>(batch), token = item / static_cast<size_t>(tokens);
  for (size_t b = 0; b < static_cast<size_t>(batch); ++b) {
    const auto* from = whole.data() + b * item;
    out.insert(out.end(), from + static_cast<size_t>(share.first) * token,
               from + static_cast<size_t>(share.end) * token);
  }
  return out;
}

// qkv is [B, T, 3, H, D]: q, k and v as a joined product leaves them.
runtime::HeadTensors parts_of(const Tensor& qkv, const Tensor& out) {
  return {qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), out};
}

// A communicator that moves views, as those of GPUs do: each rank writes its rows into the others' memory.
class ViewsComm final : public Comm {
 public:
  ViewsComm(runtime::MeetingPlace& place, int rank) : place_(place), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return place_.size(); }
  bool moves_views() const override { return true; }

 private:
  void exchange(std::span<const Tensor>, std::span<const Tensor>, Stream&) override {
    ADD_FAILURE() << "views were to be moved";
  }
  void collect(const Tensor&, std::span<const Tensor>, Stream&) override {}
  void exchange_views(std::span<const Tensor> from, std::span<const Tensor> to, Stream& stream,
                      bool) override {
    place_.show(rank_, to);
    place_.meet();
    const auto ranks = static_cast<size_t>(size());
    for (size_t i = 0; i < from.size(); ++i) {
      const Tensor& there =
          place_.shown(static_cast<int>(i % ranks))[i / ranks * ranks + static_cast<size_t>(rank_)];
      EXPECT_EQ(from[i].defined(), there.defined());
      if (there.defined()) ops::copy({.x = from[i], .y = there}, stream);
    }
    place_.meet();
  }

  runtime::MeetingPlace& place_;
  int rank_;
};

TEST(MeetingPlace, GivesAllRanksTheLargestOfTheirValues) {
  constexpr int kRanks = 4;
  runtime::MeetingPlace place(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(place.most(rank, rank == i % kRanks ? i : -1), i);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Comm, TheRanksOfThreadsDoNotMoveViews) {
  on_ranks(1, [](Comm& comm) {
    Alone a;
    EXPECT_FALSE(comm.moves_views());
    EXPECT_THROW(comm.all_to_all_views({}, {}, a.stream), Error);
  });
  runtime::MeetingPlace place(1);
  ViewsComm comm(place, 0);
  Alone a;
  std::vector<float> x(8);
  const Tensor flat[] = {tensor_of(x, {8})}, turned[] = {tensor_of(x, {1, 2, 2, 2}).transpose(2, 3)};
  EXPECT_THROW(comm.all_to_all_views(flat, flat, a.stream), Error) << "four dimensions";
  EXPECT_THROW(comm.all_to_all_views(turned, turned, a.stream), Error) << "the heads of a token in one piece";
}

TEST(AttendByHeads, GivesEachRankTheAttentionOfItsTokens) {
  constexpr int64_t kBatch = 2, kTokens = 13, kHeads = 4, kDim = 8;
  std::vector<float> qkv(static_cast<size_t>(kBatch * kTokens * 3 * kHeads * kDim));
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i) * 0.7f);
  const auto attention = [](const runtime::HeadTensors& t, Stream& stream) {
    ops::attention({.q = t.q, .k = t.k, .v = t.v, .scale = 0.3f, .out = t.out}, stream);
  };
  std::vector<float> whole(static_cast<size_t>(kBatch * kTokens * kHeads * kDim));
  Alone a;
  runtime::attend_by_heads(nullptr, {.tokens = kTokens},
                           parts_of(tensor_of(qkv, {kBatch, kTokens, 3, kHeads, kDim}),
                                    tensor_of(whole, {kBatch, kTokens, kHeads, kDim})),
                           a.stream, [&](const runtime::HeadTensors& t) { attention(t, a.stream); });
  for (const int ranks : {1, 2, 3, 4, 7}) {  // with seven ranks, three have no heads
    runtime::MeetingPlace place(ranks);
    const auto work = [&](Comm& comm) {
      Alone mine;
      const runtime::Share own = share_of(kTokens, comm.rank(), ranks),
                           heads = share_of(kHeads, comm.rank(), ranks);
      std::vector<float> part = tokens_of(qkv, kBatch, kTokens, own);
      std::vector<float> out(static_cast<size_t>(kBatch * own.count() * kHeads * kDim), NAN);
      int64_t seen = 0;
      const auto attend = [&](const runtime::HeadTensors& t) {
        EXPECT_THAT(t.q.shape(), ElementsAre(kBatch, kTokens, heads.count(), kDim));
        seen += t.q.dim(2);
        attention(t, mine.stream);
      };
      runtime::attend_by_heads(&comm, {.tokens = kTokens},
                               parts_of(tensor_of(part, {kBatch, own.count(), 3, kHeads, kDim}),
                                        tensor_of(out, {kBatch, own.count(), kHeads, kDim})),
                               mine.stream, attend);
      EXPECT_EQ(seen, heads.count());
      EXPECT_EQ(out, tokens_of(whole, kBatch, kTokens, own)) << comm.rank() << " of " << ranks;
    };
    on_ranks(ranks, work);
    on_ranks(ranks, [&](Comm& comm) {
      ViewsComm views(place, comm.rank());
      work(views);
    });
  }
}

// Ranks have some places of every frame, and give them packed or as views.
TEST(AttendByHeads, GivesEachRankTheAttentionOfItsPlaces) {
  constexpr int64_t kFrames = 3, kPlaces = 5, kHeads = 4, kDim = 8, kTokens = kFrames * kPlaces;
  const auto attention = [](const runtime::HeadTensors& t, Stream& stream) {
    ops::attention({.q = t.q, .k = t.k, .v = t.v, .scale = 0.3f, .out = t.out}, stream);
  };
  for (const int64_t batch : {1, 2}) {
    std::vector<float> qkv(static_cast<size_t>(batch * kTokens * 3 * kHeads * kDim));
    for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i) * 0.7f);
    std::vector<float> whole(static_cast<size_t>(batch * kTokens * kHeads * kDim));
    Alone a;
    runtime::attend_by_heads(nullptr, {.tokens = kTokens},
                             parts_of(tensor_of(qkv, {batch, kTokens, 3, kHeads, kDim}),
                                      tensor_of(whole, {batch, kTokens, kHeads, kDim})),
                             a.stream, [&](const runtime::HeadTensors& t) { attention(t, a.stream); });
    for (const int ranks : {2, 3, 5}) {
      runtime::MeetingPlace place(ranks);
      const auto work = [&](Comm& comm) {
        Alone mine;
        const runtime::Share own = share_of(kPlaces, comm.rank(), ranks);
        std::vector<float> part = tokens_of(qkv, batch * kFrames, kPlaces, own);
        std::vector<float> out(static_cast<size_t>(batch * kFrames * own.count() * kHeads * kDim), NAN);
        const int64_t tokens = kFrames * own.count();
        runtime::attend_by_heads(&comm, {.tokens = kTokens, .frames = kFrames, .together = true},
                                 parts_of(tensor_of(part, {batch, tokens, 3, kHeads, kDim}),
                                          tensor_of(out, {batch, tokens, kHeads, kDim})),
                                 mine.stream,
                                 [&](const runtime::HeadTensors& t) { attention(t, mine.stream); });
        EXPECT_EQ(out, tokens_of(whole, batch * kFrames, kPlaces, own)) << comm.rank() << " of " << ranks;
      };
      on_ranks(ranks, work);
      on_ranks(ranks, [&](Comm& comm) {
        ViewsComm views(place, comm.rank());
        work(views);
      });
    }
  }
}

}  // namespace
}  // namespace tachy
