// The communicator: the local one, and its contract with ranks that are threads; attention whose tokens are divided.
#include "runtime/comm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ops/attention/attention.h"
#include "runtime/attend_by_heads.h"
#include "thread_comm.h"

namespace tachy {
namespace {

using runtime::Comm;
using runtime::local_comm;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

struct Alone {
  ThreadPool pool{1};
  Arena arena{size_t{4} << 20};
  Stream stream{.arena = &arena, .pool = &pool};
};

Tensor tensor_of(std::vector<float>& values, std::initializer_list<int64_t> dims) {
  return Tensor(values.data(), DType::f32, dims);
}

TEST(LocalComm, IsOneRankWhoseExchangesAreCopies) {
  Alone a;
  Comm& comm = local_comm();
  EXPECT_EQ(comm.rank(), 0);
  EXPECT_EQ(comm.size(), 1);
  std::vector<float> from = {1, 2, 3, 4}, to(4), gathered(4);
  comm.all_to_all(tensor_of(from, {1, 4}), tensor_of(to, {1, 4}), a.stream);
  EXPECT_THAT(to, ElementsAreArray(from));
  comm.all_gather(tensor_of(from, {4}), tensor_of(gathered, {1, 4}), a.stream);
  EXPECT_THAT(gathered, ElementsAreArray(from));
  comm.all_gather(tensor_of(from, {4}), tensor_of(from, {1, 4}), a.stream);  // in place
  comm.all_reduce(tensor_of(from, {4}), a.stream);
  comm.broadcast(tensor_of(from, {4}), 0, a.stream);
  EXPECT_THAT(from, ElementsAre(1, 2, 3, 4));
}

TEST(LocalComm, ChecksShapesAndMovesNothingInAMeasureRun) {
  Alone a;
  std::vector<float> from = {1, 2}, to = {3, 4};
  const Tensor x = tensor_of(from, {1, 2}), y = tensor_of(to, {1, 2});
  const auto refused = [&](const Tensor& one, const Tensor& other) {
    try {
      local_comm().all_to_all(one, other, a.stream);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::internal);
      return e.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused(x, tensor_of(to, {2})), HasSubstr("[1, 2] and [2]"));
  EXPECT_THAT(refused(tensor_of(from, {2, 1}), tensor_of(to, {2, 1})), HasSubstr("expected two tensors [1,"));
  EXPECT_THROW(local_comm().broadcast(x, 1, a.stream), Error);
  Arena measure;
  a.stream.arena = &measure;
  local_comm().all_to_all(x, y, a.stream);
  EXPECT_THAT(to, ElementsAre(3, 4));
}

TEST(Ranks, ExchangeWhatTheContractSays) {
  constexpr int kRanks = 3;
  test::ThreadRanks(kRanks).run([](Comm& comm) {
    Alone a;
    const auto r = static_cast<float>(comm.rank());
    std::vector<float> from = {10 * r, 10 * r + 1, 10 * r + 2}, to(3), all(6);
    comm.all_to_all(tensor_of(from, {kRanks, 1}), tensor_of(to, {kRanks, 1}), a.stream);
    EXPECT_THAT(to, ElementsAre(r, 10 + r, 20 + r));
    std::vector<float> part = {r, -r};
    comm.all_gather(tensor_of(part, {2}), tensor_of(all, {kRanks, 2}), a.stream);
    EXPECT_THAT(all, ElementsAre(0, 0, 1, -1, 2, -2));
    std::vector<float> x = {r + 1, 0.5f};
    comm.all_reduce(tensor_of(x, {2}), a.stream);
    EXPECT_THAT(x, ElementsAre(6, 1.5f));
    x = {r, r};
    comm.broadcast(tensor_of(x, {2}), 2, a.stream);
    EXPECT_THAT(x, ElementsAre(2, 2));
    EXPECT_THROW(comm.all_to_all(tensor_of(from, {kRanks, 1}), tensor_of(from, {kRanks, 1}), a.stream), Error)
        << "in place";
  });
}

// Tokens of `rank` out of all: [B, T, …] → [B, T / ranks, …].
std::vector<float> share(const std::vector<float>& whole, int64_t batch, int rank, int ranks) {
  std::vector<float> out;
  const size_t item = whole.size() / static_cast<size_t>(batch), part = item / static_cast<size_t>(ranks);
  for (size_t b = 0; b < static_cast<size_t>(batch); ++b) {
    const auto* from = whole.data() + b * item + static_cast<size_t>(rank) * part;
    out.insert(out.end(), from, from + part);
  }
  return out;
}

// qkv [B, T, 3, H, D]: q, k and v as a joined product leaves them.
runtime::HeadTensors parts_of(const Tensor& qkv, const Tensor& out) {
  return {qkv.select(2, 0), qkv.select(2, 1), qkv.select(2, 2), out};
}

TEST(AttendByHeads, GivesEachRankTheAttentionOfItsTokens) {
  constexpr int64_t kBatch = 2, kTokens = 12, kHeads = 4, kDim = 8;
  std::vector<float> qkv(static_cast<size_t>(kBatch * kTokens * 3 * kHeads * kDim));
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<float>(i) * 0.7f);
  const auto attention = [](const runtime::HeadTensors& t, Stream& stream) {
    ops::attention({.q = t.q, .k = t.k, .v = t.v, .scale = 0.3f, .out = t.out}, stream);
  };
  std::vector<float> whole(static_cast<size_t>(kBatch * kTokens * kHeads * kDim));
  Alone a;
  runtime::attend_by_heads(nullptr,
                           parts_of(tensor_of(qkv, {kBatch, kTokens, 3, kHeads, kDim}),
                                    tensor_of(whole, {kBatch, kTokens, kHeads, kDim})),
                           a.stream, [&](const runtime::HeadTensors& t) { attention(t, a.stream); });
  for (const int ranks : {1, 2, 4})
    test::ThreadRanks(ranks).run([&](Comm& comm) {
      Alone mine;
      std::vector<float> part = share(qkv, kBatch, comm.rank(), ranks);
      std::vector<float> out(whole.size() / static_cast<size_t>(ranks), NAN);
      const int64_t tokens = kTokens / ranks;
      int64_t seen = 0;
      const auto attend = [&](const runtime::HeadTensors& t) {
        EXPECT_THAT(t.q.shape(), ElementsAre(kBatch, kTokens, kHeads / ranks, kDim));
        seen += t.q.dim(2);
        attention(t, mine.stream);
      };
      runtime::attend_by_heads(&comm,
                               parts_of(tensor_of(part, {kBatch, tokens, 3, kHeads, kDim}),
                                        tensor_of(out, {kBatch, tokens, kHeads, kDim})),
                               mine.stream, attend);
      EXPECT_EQ(seen, kHeads / ranks);
      EXPECT_EQ(out, share(whole, kBatch, comm.rank(), ranks)) << comm.rank() << " of " << ranks;
    });
}

TEST(AttendByHeads, HeadsThatDoNotDivideAreRefused) {
  test::ThreadRanks(2).run([](Comm& comm) {
    Alone a;
    std::vector<float> qkv(3 * 3 * 4), out(3 * 4);
    const auto parts = parts_of(tensor_of(qkv, {1, 1, 3, 3, 4}), tensor_of(out, {1, 1, 3, 4}));
    EXPECT_THROW(runtime::attend_by_heads(&comm, parts, a.stream, [](auto&) {}), Error);
  });
}

}  // namespace
}  // namespace tachy
