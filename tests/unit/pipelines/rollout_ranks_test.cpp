// Tests rollouts whose passes are divided among ranks with a denoiser each (denoise/ranks_causal.h), as GPUs of one
// process do it: here they are threads of the CPU, on a device that is simulated. They have the bits of one rank, in
// rings that are filling and in full ones, queued and recorded.
#include <gtest/gtest.h>

#include <deque>

#include "denoise/ranks_causal.h"
#include "recording_device.h"
#include "rollout_case.h"
#include "runtime/nobody_else.h"
#include "runtime/rank_threads.h"

namespace tachy {
namespace {

using test::WanCausalCase;

// What the ranks of a rollout have: places to sit and, but for the first one, a stream with scratch.
class Team {
 public:
  Team(int ranks, test::RecordingDevice& device)
      : layout_{.per_group = ranks}, device_(device), meeting_(ranks) {}

  std::unique_ptr<BlockDenoiser> make(const CausalInput& in, Stream& stream) {
    const int ranks = layout_.count();
    const bool measuring = stream.measuring();
    seats_.clear(), streams_.clear();
    std::vector<std::unique_ptr<CausalDenoiser>> denoisers;
    for (int rank = 0; rank < ranks; ++rank) {
      runtime::Comm* comm = nullptr;
      if (measuring)
        comm = &alone_.emplace_back(rank, ranks);
      else
        comm = &comms_.emplace_back(meeting_, rank);
      seats_.push_back({.layout = layout_, .rank = rank, .comm = comm});
      Stream& own = rank > 0 && !measuring ? further(stream) : stream;
      CausalInput mine = in;
      mine.seat = &seats_.back();
      denoisers.push_back(std::make_unique<CausalDenoiser>(mine, own));
    }
    return std::make_unique<RanksCausal>(std::move(denoisers), [=, this](const auto& body) {
      if (!measuring) return runtime::run_ranks(ranks, body, [this] { meeting_.abandon(); });
      for (int rank = 0; rank < ranks; ++rank) body(rank);
    });
  }

 private:
  // A further rank's scratch is as large as the first one's.
  Stream& further(const Stream& stream) {
    Stream& own = streams_.emplace_back(stream);
    own.pool = &pools_.emplace_back(1);
    own.arena = &arenas_.emplace_back(stream.arena->capacity(), &device_);
    return own;
  }

  const runtime::RankLayout layout_;
  test::RecordingDevice& device_;
  runtime::MeetingPlace meeting_;
  std::deque<RankSeat> seats_;
  std::deque<runtime::NobodyElse> alone_;
  std::deque<runtime::ThreadComm> comms_;
  std::deque<ThreadPool> pools_;
  std::deque<Arena> arenas_;
  std::deque<Stream> streams_;
};

test::LongRollout divided(const WanCausalCase& c, int ranks, bool graphs, int64_t blocks, int* launches) {
  test::RecordingDevice device(size_t{1} << 30);
  Team team(ranks, device);
  const auto out =
      test::roll_long(c, {.memory = &device,
                          .graphs = graphs,
                          .drawn_blocks = blocks,
                          .make = [&](const auto& in, Stream& stream) { return team.make(in, stream); }});
  *launches = device.launches;
  return out;
}

// The windows have a sink, none in a ring whose end falls within a block, and a sink that follows.
TEST(RolloutRanks, HaveTheBitsOfOneQueuedAndRecorded) {
  WanCausalCase c("self_forcing");
  for (const WanWindow& window : {c.window, WanWindow{.frames = 5}, WanWindow{5, 1, true}})
    for (const int64_t blocks : {int64_t{0}, int64_t{20}}) {  // the golden noise, and drawn noise
      c.window = window;
      test::RecordingDevice device(size_t{1} << 30);
      const auto one = test::roll_long(c, {.memory = &device, .drawn_blocks = blocks});
      for (const bool graphs : {false, true}) {
        int launches = 0;
        const auto two = divided(c, 2, graphs, blocks, &launches);
        const std::string what =
            fmt::format("{} sinks, {} blocks, {}", window.sinks, blocks, graphs ? "recorded" : "queued");
        EXPECT_EQ(two.latents, one.latents) << what;
        EXPECT_EQ(two.velocities, one.velocities) << what;
        EXPECT_TRUE(two.peak_as_planned) << what;
        if (blocks > 0) EXPECT_EQ(launches > 80, graphs) << what << ": " << launches;
      }
    }
}

// A model whose branches look at all tokens says so, and no rank is left waiting.
TEST(RolloutRanks, ActionsAreRefused) {
  const WanCausalCase c("universal");
  int launches = 0;
  try {
    divided(c, 2, false, 0, &launches);
    ADD_FAILURE() << "it succeeded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported) << e.message();
  }
}

}  // namespace
}  // namespace tachy
