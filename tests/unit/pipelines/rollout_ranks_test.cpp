// Tests rollouts whose passes are divided among ranks with a denoiser each (denoise/ranks_causal.h), as GPUs of one
// process do it: here they are threads of the CPU, on a device that is simulated. They have the bits of one rank, in
// rings that are filling and in full ones, queued and recorded.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "denoise/block_frames.h"
#include "denoise/ranks_causal.h"
#include "recording_device.h"
#include "rollout_case.h"
#include "runtime/nobody_else.h"
#include "runtime/rank_threads.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::WanCausalCase;

// Places for ranks to sit and, but for the first one, a stream with scratch.
class Team {
 public:
  Team(int ranks, test::RecordingDevice& device)
      : layout_{.per_group = ranks}, device_(device), meeting_(ranks) {}

  // Begins anew with a first rank that has this stream. All ranks of a measuring stream have it.
  void sit(Stream& first) {
    seats_.clear(), streams_.clear(), own_.clear();
    measuring_ = first.measuring();
    for (int rank = 0; rank < layout_.count(); ++rank) {
      runtime::Comm* comm = nullptr;
      if (measuring_)
        comm = &alone_.emplace_back(rank, layout_.count());
      else
        comm = &comms_.emplace_back(meeting_, rank);
      seats_.push_back({.layout = layout_, .rank = rank, .comm = comm});
      streams_.push_back(rank > 0 && !measuring_ ? &further(first) : &first);
    }
  }
  int size() const { return layout_.count(); }
  const RankSeat& seat(int rank) const { return seats_[static_cast<size_t>(rank)]; }
  Stream& stream(int rank) { return *streams_[static_cast<size_t>(rank)]; }
  void run(const std::function<void(int)>& body) {
    if (!measuring_) return runtime::run_ranks(size(), body, [this] { meeting_.abandon(); });
    for (int rank = 0; rank < size(); ++rank) body(rank);
  }

  std::unique_ptr<BlockDenoiser> make(const CausalInput& in, Stream& first) {
    sit(first);
    std::vector<std::unique_ptr<CausalDenoiser>> denoisers;
    for (int rank = 0; rank < size(); ++rank) {
      CausalInput mine = in;
      mine.seat = &seat(rank);
      denoisers.push_back(std::make_unique<CausalDenoiser>(mine, stream(rank)));
    }
    return std::make_unique<RanksCausal>(std::move(denoisers), [this](const auto& body) { run(body); });
  }

 private:
  // A further rank's scratch is as large as the first one's.
  Stream& further(const Stream& stream) {
    Stream& own = own_.emplace_back(stream);
    own.pool = &pools_.emplace_back(1);
    own.arena = &arenas_.emplace_back(stream.arena->capacity(), &device_);
    return own;
  }

  const runtime::RankLayout layout_;
  test::RecordingDevice& device_;
  runtime::MeetingPlace meeting_;
  bool measuring_ = false;
  std::deque<RankSeat> seats_;
  std::deque<runtime::NobodyElse> alone_;
  std::deque<runtime::ThreadComm> comms_;
  std::deque<ThreadPool> pools_;
  std::deque<Arena> arenas_;
  std::deque<Stream> own_;
  std::vector<Stream*> streams_;
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

// Decodes blocks of two latent frames, as the stage of blocks does. All pixels, one frame after the other.
std::vector<uint8_t> decoded(int ranks, bool graphs, int* launches) {
  std::vector<uint8_t> out;
  const ModelBundle model = ModelBundle::open(test::model_path());
  constexpr int64_t kFrames = 8, kHeight = 6, kWidth = 8;
  const int64_t z = model.vae_config.z_dim;
  std::vector<float> values(static_cast<size_t>(z * kFrames * kHeight * kWidth));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.37f * static_cast<float>(i));
  test::RecordingDevice device(size_t{1} << 30);
  Team team(ranks, device);
  const auto body = [&](Stream& stream, nn::ParamStore& store) {
    const LoadedVae loaded = load_vae(model, stream);
    team.sit(stream);
    const Tensor latents = store.allocate(DType::f32, {z, kFrames, kHeight, kWidth});
    upload(values.data(), latents, stream);
    BlockFrames::Input in{.vae = loaded.model.get(),
                          .height = kHeight,
                          .width = kWidth,
                          .frames = kFrames,
                          .steps = 1,
                          .graphs = graphs,
                          .seat = &team.seat(0),
                          .run = [&](const auto& work) { team.run(work); }};
    for (int rank = 1; rank < ranks; ++rank)
      in.further.push_back({in.vae, &team.stream(rank), &team.seat(rank)});
    BlockFrames frames(in, stream);
    for (int64_t at = 0; at < kFrames; at += 2) {
      frames.begin_block();
      frames.decode(latents.slice(1, at, at + 2), [&](const RgbImage& image, int64_t) {
        out.insert(out.end(), image.rgb.begin(), image.rgb.end());
      });
    }
  };
  ThreadPool pool(2);
  Arena measure;
  Stream stream{.arena = &measure, .pool = &pool, .memory = &device};
  nn::ParamStore planned({.plan_only = true}, stream);
  body(stream, planned);
  out.clear();
  Arena arena(measure.peak(), &device);
  stream.arena = &arena;
  nn::ParamStore store({.plan_only = false}, stream);
  body(stream, store);
  *launches = device.launches;
  return out;
}

TEST(RolloutRanks, DecodeByRowsToTheFramesOfOne) {
  int launches = 0;
  const std::vector<uint8_t> one = decoded(1, false, &launches);
  ASSERT_EQ(one.size(), 29u * 48 * 64 * 3);
  for (const int ranks : {2, 3})
    for (const bool graphs : {false, true}) {
      EXPECT_TRUE(decoded(ranks, graphs, &launches) == one) << ranks << (graphs ? ", recorded" : ", queued");
      EXPECT_EQ(launches > 3 * ranks, graphs) << launches;
    }
}

}  // namespace
}  // namespace tachy
