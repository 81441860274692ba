// Tests ranks that exchange over TCP, here as threads of one process: how they meet, that TcpComm does what
// the contract of Comm says, and how they end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "distributed/rendezvous.h"
#include "distributed/tcp_comm.h"
#include "distributed/tcp_crew.h"
#include "engine/crew_run.h"

namespace tachy::distributed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

uint16_t free_port() {
  std::error_code error;
  return os::Socket::listening({*os::ip_address("127.0.0.1"), 0}, error).local()->port;
}

Launch launch(int rank, int ranks, uint16_t port) {
  return {.rank = rank, .ranks = ranks, .host = "127.0.0.1", .port = port, .launcher = "torchrun"};
}

// Calls body(rank) in a thread for each rank, and returns what each threw.
std::vector<std::string> on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Error& e) {
        errors[static_cast<size_t>(rank)] = e.message();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<std::string> in_mesh(int ranks, const std::function<void(Mesh&)>& body) {
  const uint16_t port = free_port();
  return on_threads(ranks, [&](int rank) {
    const auto mesh = meet(launch(rank, ranks, port), {.secret = "a secret of sixteen", .seconds = 20});
    try {
      body(*mesh);
    } catch (const Error& e) {
      mesh->end(e);
      throw;
    }
  });
}

struct Alone {
  ThreadPool pool{1};
  Arena arena{size_t{1} << 20};
  Stream stream{.arena = &arena, .pool = &pool};
};

TEST(Mesh, ExchangesWhatTheContractSays) {
  constexpr int kRanks = 3;
  const auto errors = in_mesh(kRanks, [](Mesh& mesh) {
    Alone a;
    TcpComm comm(&mesh, 0, kRanks, mesh.rank());
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
  });
  EXPECT_THAT(errors, testing::Each(""));
}

// Much more than the system's buffers hold goes both ways at once.
TEST(Mesh, LargeTensorsOfGroupsOfRanks) {
  const auto errors = in_mesh(4, [](Mesh& mesh) {
    Alone a;
    const int first = mesh.rank() / 2 * 2;
    TcpComm comm(&mesh, first, 2, mesh.rank() - first);
    const int64_t count = (int64_t{12} << 20) + mesh.rank() / 2;
    std::vector<float> mine(static_cast<size_t>(count), static_cast<float>(mesh.rank())),
        theirs(mine.size(), -1), own(mine.size(), -1);
    const Tensor sent(mine.data(), DType::f32, {count}), got(theirs.data(), DType::f32, {count}),
        back(own.data(), DType::f32, {count});
    const Tensor from[] = {sent, sent}, to[] = {comm.rank() == 0 ? back : got, comm.rank() == 0 ? got : back};
    comm.all_to_all(from, to, a.stream);
    EXPECT_EQ(own.back(), mine.back());
    EXPECT_EQ(theirs.front(), static_cast<float>(mesh.rank() ^ 1));
    EXPECT_EQ(theirs.back(), static_cast<float>(mesh.rank() ^ 1));
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Mesh, WhatDoesNotFitTogetherIsToldToAll) {
  const auto errors = in_mesh(3, [](Mesh& mesh) {
    Alone a;
    TcpComm comm(&mesh, 0, 3, mesh.rank());
    std::vector<float> x(4);
    const Tensor one(x.data(), DType::f32, {1}), four(x.data(), DType::f32, {4});
    const Tensor small[] = {one, one, one}, large[] = {one, four, one};
    for (int i = 0; i < 2; ++i) {
      const std::span<const Tensor> wanted = i == 1 && mesh.rank() == 0 ? large : small;
      comm.all_to_all(small, wanted, a.stream);
    }
    comm.all_to_all(small, small, a.stream);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, HasSubstr("4 bytes were sent where 16 are expected"));
}

TEST(Mesh, ARankThatEndsIsNoticedByAll) {
  const auto errors = in_mesh(3, [](Mesh& mesh) {
    Alone a;
    if (mesh.rank() == 2) fail(ErrorCode::numerical, "NaN in step 3");
    std::vector<float> x(1);
    const Tensor one(x.data(), DType::f32, {1}), all[] = {one, one, one};
    TcpComm comm(&mesh, 0, 3, mesh.rank());
    try {
      for (int i = 0; i < 2; ++i) comm.all_to_all(all, all, a.stream);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::numerical);
      throw;
    }
  });
  EXPECT_EQ(errors[2], "NaN in step 3");
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(errors[static_cast<size_t>(rank)], HasSubstr("rank 2 (on "));
    EXPECT_THAT(errors[static_cast<size_t>(rank)], HasSubstr("): NaN in step 3"));
  }
}

// Rank 1 goes without a word, and with something unread, so that whoever sends to it is told at once.
TEST(Mesh, OneThatIsGoneKeepsNoWordFromTheOthers) {
  const auto errors = in_mesh(3, [](Mesh& mesh) {
    std::vector<uint8_t> bytes(64);
    const Outgoing unread[] = {{1, FrameKind::tensor, bytes}};
    if (mesh.rank() != 1) mesh.transfer(unread, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(mesh.rank() == 1 ? 200 : 500));
    if (mesh.rank() == 0) fail(ErrorCode::numerical, "NaN in step 3");
    if (mesh.rank() == 2) throw mesh.reason_of(0);
  });
  EXPECT_THAT(errors[2], HasSubstr("): NaN in step 3"));
}

TEST(TcpCrew, WatchesForTheEndOfOthersAndForTheFlag) {
  const uint16_t port = free_port();
  const auto errors = on_threads(3, [&](int rank) {
    TcpCrew crew(launch(rank, 3, port));
    crew.join({.secret = "a secret of sixteen", .seconds = 20});
    std::atomic<bool> cancel = false;
    const std::atomic<bool>* const stop = crew.watch(&cancel);
    EXPECT_FALSE(stop->load());
    crew.agree(7);  // from here on rank 1 may end
    if (rank == 1) return crew.end(Error(ErrorCode::out_of_memory, "no room"));
    for (int i = 0; i < 100 && !stop->load(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(stop->load());
    const Error reason = crew.reason_for(Error(ErrorCode::cancelled, "cancelled"));
    EXPECT_EQ(reason.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(reason.message(), HasSubstr("no room"));
    const std::atomic<bool>* const again = crew.watch(&cancel);
    cancel = true;
    for (int i = 0; i < 100 && !again->load(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(again->load());
    EXPECT_EQ(crew.reason_for(Error(ErrorCode::cancelled, "cancelled")).code(), ErrorCode::cancelled);
    crew.end(reason);
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(TcpCrew, SharesComparesAndAgrees) {
  const uint16_t port = free_port();
  const auto errors = on_threads(3, [&](int rank) {
    TcpCrew crew(launch(rank, 3, port));
    crew.join({.secret = "a secret of sixteen", .seconds = 20});
    EXPECT_EQ(crew.share(fmt::format("of {}", rank)), "of 0");
    const auto equal = [](const std::string& a, const std::string& b) {
      return a == b ? "" : b + " is not " + a;
    };
    crew.compare("the same", equal);
    if (crew.leads()) {
      crew.begin("state"), crew.skip();
    } else {
      EXPECT_EQ(crew.next(nullptr), "state");
      EXPECT_EQ(crew.next(nullptr), std::nullopt);
    }
    crew.agree(5);
    EXPECT_THROW(crew.compare(rank == 2 ? "other" : "the same", equal), Error);
    EXPECT_THROW(crew.agree(rank == 2 ? 6 : 5), Error);
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(CrewRun, AStateGoesThroughItsBytes) {
  EXPECT_FALSE(state_in(state_bytes(nullptr)).has_value());
  RunState state{.step = 3, .latents = {1, 2, 3}, .solver = {{4, 5}, {}}, .generator = {7, 8}, .motion = {9}};
  state.window = 1, state.windows = 2, state.frames = 5;
  const std::string bytes = state_bytes(&state);
  const auto back = state_in(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->step, 3);
  EXPECT_EQ(back->window, 1);
  EXPECT_EQ(back->windows, 2);
  EXPECT_EQ(back->frames, 5);
  EXPECT_EQ(back->latents, state.latents);
  EXPECT_EQ(back->solver, state.solver);
  EXPECT_EQ(back->generator, state.generator);
  EXPECT_EQ(back->motion, state.motion);
  for (size_t i = 1; i < bytes.size(); ++i)
    EXPECT_THROW(state_in(std::string_view(bytes).substr(0, i)), Error) << i;
  EXPECT_THROW(state_in(bytes + "x"), Error);
}

}  // namespace
}  // namespace tachy::distributed
