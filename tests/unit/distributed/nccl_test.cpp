// Tests exchanges by NCCL with a library in its place (standin_nccl.cpp): how it is opened, what is moved, and how waits
// end. The ranks are threads of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/os/process.h"
#include "distributed/nccl_comm.h"
#include "distributed/tcp_crew.h"

namespace tachy::distributed {
namespace {

namespace fs = std::filesystem;
using cuda::NcclRanks;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

uint16_t free_port_here() {
  std::error_code error;
  return os::Socket::listening({*os::ip_address("127.0.0.1"), 0}, error).local()->port;
}

class Nccl : public testing::Test {
 protected:
  Nccl() {
    fs::create_directories(folder_ / "nccl/lib");
    ::setenv("TACHY_CUDA_LIBRARIES", folder_.c_str(), 1);
  }
  ~Nccl() override {
    for (const char* name : {"TACHY_CUDA_LIBRARIES", "STANDIN_NCCL_VERSION", "STANDIN_NCCL_FAILS"})
      ::unsetenv(name);
    fs::remove_all(folder_);
  }
  void put(const char* library) { fs::copy_file(library, folder_ / "nccl/lib/libnccl.so.2"); }

  // Calls body(crew) in a thread for each rank once all are connected, and returns what each threw.
  std::vector<std::string> connected(
      int ranks, const std::function<void(TcpCrew&, const std::atomic<bool>* stop)>& body) {
    put(STANDIN_NCCL);
    const uint16_t port = free_port_here();
    std::vector<std::string> errors(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        TcpCrew crew(
            {.rank = rank, .ranks = ranks, .host = "127.0.0.1", .port = port, .launcher = "torchrun"});
        try {
          crew.join({.secret = "a secret of sixteen", .seconds = 20});
          const std::atomic<bool>* const stop = crew.watch(nullptr);
          crew.connect("a device", nullptr, nullptr);
          body(crew, stop);
        } catch (const Error& e) {
          const Error reason = crew.reason_for(e);
          errors[static_cast<size_t>(rank)] = reason.message();
          crew.end(reason);
        }
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  static std::string refusal() {
    NcclRanks ranks;
    try {
      ranks.open();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      return e.message();
    }
    return "no error";
  }

  // A library stays loaded under the path by which it was opened, so each test has a path of its own.
  static inline int tests_ = 0;
  const fs::path folder_ = fs::temp_directory_path() / fmt::format("nccl_{}_{}", os::process_id(), ++tests_);
};

struct Queue {
  ThreadPool pool{1};
  Arena arena{size_t{1} << 16};
  Stream stream{.arena = &arena, .pool = &pool};
};

TEST_F(Nccl, ALibraryThatDoesNotServeIsNamed) {
  std::ofstream(folder_ / "nccl/lib/libnccl.so.2") << "no library";
  // Where the system has NCCL, it is opened in place of the broken one.
  if (const std::string told = refusal(); told != "no error")
    EXPECT_THAT(told, AllOf(HasSubstr("NCCL 2.28 or later"), HasSubstr("could not open it")));
}

TEST_F(Nccl, OneThatIsTooOldIsNamed) {
  put(STANDIN_NCCL);
  ::setenv("STANDIN_NCCL_VERSION", "22706", 1);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("NCCL 2.28 or later"), HasSubstr("libnccl.so.2 is 2.27.6"),
                               HasSubstr("TACHY_CUDA_LIBRARIES")));
  ::setenv("STANDIN_NCCL_VERSION", "23001", 1);
  EXPECT_EQ(refusal(), "no error");
}

TEST_F(Nccl, AnotherLibraryOfItsNameIsNamed) {
  put(STANDIN_DRIVER);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("libnccl.so.2"), HasSubstr("ncclGetVersion")));
}

TEST_F(Nccl, ExchangesWhatTheContractSays) {
  const auto errors = connected(3, [](TcpCrew& crew, const std::atomic<bool>*) {
    Queue q;
    const auto comm = crew.among(0, 3);
    const auto r = static_cast<float>(comm->rank());
    // Rank p gets p + 1 values, and nothing goes from rank 2 to rank 0 or back.
    std::vector<float> values = {10 * r, 10 * r + 1, 10 * r + 2, 10 * r + 3, 10 * r + 4, 10 * r + 5},
                       got(9, -1);
    std::vector<Tensor> from, to;
    for (int p = 0; p < 3; ++p) {
      const bool none = (comm->rank() == 2 && p == 0) || (comm->rank() == 0 && p == 2);
      from.push_back(none ? Tensor()
                          : Tensor(&values[static_cast<size_t>(p * (p + 1) / 2)], DType::f32, {p + 1}));
      to.push_back(none ? Tensor()
                        : Tensor(&got[static_cast<size_t>(3 * p)], DType::f32, {comm->rank() + 1}));
    }
    comm->all_to_all(from, to, q.stream);
    if (comm->rank() == 0) EXPECT_THAT(got, ElementsAre(0, -1, -1, 10, -1, -1, -1, -1, -1));
    if (comm->rank() == 1) EXPECT_THAT(got, ElementsAre(1, 2, -1, 11, 12, -1, 21, 22, -1));
    if (comm->rank() == 2) EXPECT_THAT(got, ElementsAre(-1, -1, -1, 13, 14, 15, 23, 24, 25));

    std::vector<float> part(static_cast<size_t>(comm->rank() + 1), r), whole(6, -1);
    const Tensor places[] = {Tensor(&whole[0], DType::f32, {1}), Tensor(&whole[1], DType::f32, {2}),
                             Tensor(&whole[3], DType::f32, {3})};
    const std::span<const Tensor> all(places);
    comm->gather(Tensor(part.data(), DType::f32, {comm->rank() + 1}), comm->rank() == 0 ? all : all.first(0),
                 q.stream);
    if (comm->rank() == 0) EXPECT_THAT(whole, ElementsAre(0, 1, 1, 2, 2, 2));
    crew.settle(q.stream);
    crew.rest();
  });
  EXPECT_THAT(errors, Each(""));
}

TEST_F(Nccl, GroupsOfRanksExchangeAmongThemselves) {
  const auto errors = connected(4, [](TcpCrew& crew, const std::atomic<bool>*) {
    Queue q;
    const int first = crew.rank() / 2 * 2;
    const auto comm = crew.among(first, 2);
    for (int round = 0; round < 200; ++round) {
      float mine = static_cast<float>(100 * round + crew.rank()), got[2] = {-1, -1};
      const Tensor sent(&mine, DType::f32, {1}),
          from[] = {sent, sent}, to[] = {Tensor(&got[0], DType::f32, {1}), Tensor(&got[1], DType::f32, {1})};
      comm->all_to_all(from, to, q.stream);
      EXPECT_THAT(got, ElementsAre(static_cast<float>(100 * round + first),
                                   static_cast<float>(100 * round + first + 1)));
    }
    crew.rest();
  });
  EXPECT_THAT(errors, Each(""));
}

// Rank 1 never sends: the others wait for it in an exchange when it ends.
TEST_F(Nccl, WhoeverWaitsForARankThatEndsIsToldWhy) {
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = connected(3, [](TcpCrew& crew, const std::atomic<bool>* stop) {
    Queue q;
    q.stream.hooks.cancel = stop;
    if (crew.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      fail(ErrorCode::numerical, "NaN in step 3");
    }
    float x[3] = {0, 0, 0}, y[3] = {0, 0, 0};
    std::vector<Tensor> from, to;
    for (int p = 0; p < 3; ++p)
      from.emplace_back(&x[p], DType::f32, std::initializer_list<int64_t>{1}),
          to.emplace_back(&y[p], DType::f32, std::initializer_list<int64_t>{1});
    crew.among(0, 3)->all_to_all(from, to, q.stream);
    ADD_FAILURE() << "rank 1 has sent nothing";
  });
  EXPECT_EQ(errors[1], "NaN in step 3");
  for (const int rank : {0, 2})
    EXPECT_THAT(errors[static_cast<size_t>(rank)],
                AllOf(HasSubstr("rank 1 (on "), HasSubstr("): NaN in step 3")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// The connection between two GPUs fails, and no process has ended.
TEST_F(Nccl, AFailureOfNcclEndsAllWithItsWords) {
  const auto errors = connected(2, [](TcpCrew& crew, const std::atomic<bool>* stop) {
    crew.agree(1);  // both are connected
    if (crew.rank() == 1) ::setenv("STANDIN_NCCL_FAILS", "1", 1);
    for (int i = 0; i < 100 && !stop->load(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Queue q;
    crew.settle(q.stream);
    ADD_FAILURE() << "nobody has noticed";
  });
  EXPECT_EQ(errors[1], "NCCL: remote process exited");
  EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 1 (on "), HasSubstr("NCCL: remote process exited")));
}

TEST_F(Nccl, RanksOfOtherDevicesDoNotConnect) {
  put(STANDIN_NCCL);
  const uint16_t port = free_port_here();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      TcpCrew crew({.rank = rank, .ranks = 2, .host = "127.0.0.1", .port = port, .launcher = "torchrun"});
      crew.join({.secret = "a secret of sixteen", .seconds = 20});
      try {
        crew.connect(rank == 0 ? "a GPU of compute capability 9.0" : "a GPU of compute capability 8.0",
                     nullptr, nullptr);
        ADD_FAILURE() << "they have connected";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
        EXPECT_THAT(
            e.message(),
            AllOf(HasSubstr("rank 1 (on "),
                  HasSubstr("it has a GPU of compute capability 8.0 and NCCL 2.28.9, and rank 0 has")));
        crew.end(e);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

// One process with no other has nothing to wait for.
TEST_F(Nccl, NobodyIsWaitedForWithoutAnEnd) {
  put(STANDIN_NCCL);
  NcclRanks ranks;
  ranks.open();
  EXPECT_EQ(ranks.version(), "2.28.9");
  const std::string id = ranks.new_id();
  EXPECT_EQ(id.size(), 128u);
  try {
    ranks.join(id, 0, 2, nullptr, NcclRanks::Clock::now() + std::chrono::milliseconds(200));
    ADD_FAILURE() << "nobody else is there";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::device);
    EXPECT_THAT(e.message(), HasSubstr("takes too long"));
  }
  const std::atomic<bool> cancel = true;
  NcclRanks other;
  other.open();
  EXPECT_THROW(other.join(other.new_id(), 0, 2, &cancel, NcclRanks::Clock::now() + std::chrono::hours(1)),
               Error);
}

// The thread that watches calls abort() again and again, and so does the destructor.
TEST_F(Nccl, RanksThatHaveNotJoinedAreGivenUpOnce) {
  put(STANDIN_NCCL);
  const auto begin = NcclRanks::Clock::now();
  {
    NcclRanks ranks;
    ranks.open();
    EXPECT_THROW(ranks.join(ranks.new_id(), 0, 2, nullptr, begin), Error);
    ranks.abort(), ranks.abort();
    EXPECT_THROW(ranks.expect_whole(), Error);
    EXPECT_EQ(ranks.failure(), "");
  }
  // Whoever ends the process next gives NCCL's own threads some time.
  EXPECT_GE(NcclRanks::Clock::now() - begin, std::chrono::milliseconds(100));
}

}  // namespace
}  // namespace tachy::distributed
