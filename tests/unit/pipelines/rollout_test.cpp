// Tests a whole rollout (denoise/rollout.h) of the golden causal models: the latents are the original's, and
// noise and memory are used as planned.
#include <gmock/gmock.h>

#include "denoise/noise_source.h"
#include "recording_device.h"
#include "rollout_case.h"

namespace tachy {
namespace {

using test::WanCausalCase;
using testing::HasSubstr;

struct Rolled {
  std::vector<float> latents;   // [z, T, h, w]
  std::vector<int64_t> starts;  // where the finished blocks begin
  bool noise_used_up = false;
};

// The caller stops after `blocks_wanted` blocks. `known` has the given frames, in whole blocks.
Rolled roll(const WanCausalCase& c, int64_t blocks_wanted = 1 << 20, const Tensor& known = {}) {
  Rolled out;
  const Tensor noise = c.golden["noise"];
  out.latents.assign(static_cast<size_t>(noise.numel()), NAN);
  const Tensor all(out.latents.data(), DType::f32, noise.shape());
  SamplerConfig config{.kind = SamplerKind::lcm, .steps = static_cast<int>(c.timesteps.size())};
  config.sigmas = c.sigmas, config.timesteps = c.timesteps;
  const Sampler sampler(config);
  test::PlannedRun run;
  uint64_t held[2] = {};
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model = c.load(store);
    const bool text = c.config.text_dim > 0;
    const Tensor context = c.golden["context"];
    CausalDenoiser denoiser({.network = model.get(),
                             .weights = c.weights.get(),
                             .timesteps = c.timesteps,
                             .text = text ? context : Tensor(),
                             .text_rows = std::stoll(c.text("context_rows")),
                             .image_embeds = text ? Tensor() : context,
                             .channels = c.golden.has("condition") ? c.golden["condition"] : Tensor(),
                             .window = c.window,
                             .z = noise.dim(0),
                             .height = noise.dim(2),
                             .width = noise.dim(3),
                             .block_lengths = c.blocks},
                            stream);
    held[stream.measuring() ? 0 : 1] = denoiser.bytes();
    const int64_t given = known.defined() ? known.dim(1) : 0;
    std::vector<float> fresh = test::fresh_in_order(c);
    fresh.erase(fresh.begin(), fresh.begin() + given * noise.dim(0) * noise.dim(2) * noise.dim(3) *
                                                   static_cast<int64_t>(c.timesteps.size() - 1));
    NoiseSource source(std::move(fresh));
    rollout({.sampler = &sampler,
             .blocks = c.blocks,
             .latent_shape = {noise.dim(0), noise.dim(2), noise.dim(3)},
             .given = known,
             .start = noise.slice(1, given, noise.dim(1)),
             .noise = &source,
             .script = [&](int64_t) { return c.script(); },
             .finished =
                 [&](const Tensor& block, int64_t first) {
                   if (stream.measuring()) return true;
                   for (int64_t z = 0; z < block.dim(0); ++z) {
                     const Tensor from = block.select(0, z);
                     std::copy_n(from.as<float>(), from.numel(),
                                 all.select(0, z).slice(0, first, first + block.dim(1)).as<float>());
                   }
                   out.starts.push_back(first);
                   return static_cast<int64_t>(out.starts.size()) < blocks_wanted;
                 }},
            denoiser, stream);
    float one = 0;
    try {
      source.draw({&one, 1});
    } catch (const Error&) {
      out.noise_used_up = !stream.measuring();
    }
  });
  EXPECT_EQ(held[0], held[1]);
  EXPECT_EQ(run.arena_peak, run.arena_bytes);
  return out;
}

// Only the noise between the steps is drawn; the pass that remembers a block takes none.
TEST(Rollout, LatentsOfTheOriginal) {
  for (const char* name : {"self_forcing", "universal", "short_window", "templerun"}) {
    const WanCausalCase c(name);
    Rolled rolled = roll(c);
    const Tensor want = c.golden["latents"];
    EXPECT_LE(test::error_of(Tensor(rolled.latents.data(), DType::f32, want.shape()), want), 1e-5) << name;
    EXPECT_TRUE(rolled.noise_used_up) << name;
    EXPECT_EQ(rolled.starts.size(), c.blocks.size());
  }
}

TEST(Rollout, EndsWhereTheCallerHasEnough) {
  const WanCausalCase c("universal");
  const Rolled whole = roll(c), part = roll(c, 2);
  EXPECT_EQ(part.starts, (std::vector<int64_t>{0, 3}));
  const Tensor noise = c.golden["noise"];
  const auto frames = [&](const Rolled& r) {
    return WanCausalCase::frames_of(Tensor(const_cast<float*>(r.latents.data()), DType::f32, noise.shape()),
                                    0, 6);
  };
  EXPECT_EQ(frames(part), frames(whole));
  EXPECT_FALSE(part.noise_used_up);
}

// Given blocks are remembered without a step before. The blocks after them are the same as after generated
// ones.
TEST(Rollout, GivenBlocksAreRememberedAsOwnOnes) {
  for (const char* name : {"self_forcing", "universal", "templerun"}) {
    const WanCausalCase c(name);
    const Rolled whole = roll(c);
    const Tensor noise = c.golden["noise"];
    const int64_t given = c.blocks[0] + c.blocks[1], rest = noise.dim(1) - given;
    std::vector<float> known = WanCausalCase::frames_of(
        Tensor(const_cast<float*>(whole.latents.data()), DType::f32, noise.shape()), 0, given);
    const Rolled after =
        roll(c, 1 << 20, Tensor(known.data(), DType::f32, {noise.dim(0), given, noise.dim(2), noise.dim(3)}));
    EXPECT_TRUE(after.noise_used_up);
    const auto made = [&](const Rolled& r) {
      return WanCausalCase::frames_of(Tensor(const_cast<float*>(r.latents.data()), DType::f32, noise.shape()),
                                      given, rest);
    };
    ASSERT_GT(rest, 0);
    EXPECT_EQ(made(after), made(whole)) << name;
  }
}

// On a device whose passes can be recorded, each phase of the full ring is recorded once for a step and once
// for remembering, and replayed for every later block of that phase. A recording of another phase would write
// other slots. With a keyboard, a block's first step is recorded separately: the other steps use its keys.
TEST(Rollout, RecordedPassesGiveTheSameBits) {
  struct Expected {
    const char* name;
    int captures;
  };
  for (const auto& [name, captures] : {Expected{"self_forcing", 4}, Expected{"universal", 6},
                                       Expected{"short_window", 12}, Expected{"templerun", 6}}) {
    const WanCausalCase c(name);
    test::RecordingDevice device(size_t{1} << 30);
    const auto plain = test::roll_long(c, {.memory = &device, .drawn_blocks = 40});
    EXPECT_EQ(device.launches, 0);
    const auto recorded = test::roll_long(c, {.memory = &device, .graphs = true, .drawn_blocks = 40});
    EXPECT_EQ(recorded.latents, plain.latents) << name;
    EXPECT_EQ(recorded.captures, captures) << name;
    EXPECT_GT(device.launches, 60) << name;
    EXPECT_TRUE(recorded.peak_as_planned) << name;
    EXPECT_THAT(recorded.latents, testing::Each(testing::Truly([](float v) { return std::isfinite(v); })));
  }
}

// On a device each block is queued as a whole, and its noise is drawn while the previous block is made: the
// bits are those of the CPU, which does one thing after the other.
TEST(Rollout, ADeviceGivesTheBitsOfTheCpu) {
  for (const char* name : {"self_forcing", "universal"}) {
    const WanCausalCase c(name);
    test::RecordingDevice device(size_t{1} << 30);
    const auto cpu = test::roll_long(c, {.drawn_blocks = 20});
    EXPECT_EQ(test::roll_long(c, {.memory = &device, .graphs = true, .drawn_blocks = 20}).latents,
              cpu.latents);
  }
}

// For a block in a full ring there is one upload of what the host makes from its position and actions, one
// upload of each noise, and one check of the marks; nothing else is sent, waited for or allocated. The only
// other transfer is the test's own copy of the latents.
TEST(Rollout, ASteadyBlockIsQueuedWhole) {
  for (const char* name : {"self_forcing", "universal"}) {
    const WanCausalCase c(name);
    struct Count {
      int64_t allocations, uploads, waits;
    } of[2];
    for (const int64_t blocks : {20, 40}) {
      test::RecordingDevice device(size_t{1} << 30);
      test::roll_long(c, {.memory = &device, .graphs = true, .drawn_blocks = blocks});
      of[blocks == 40] = {device.allocations, device.uploads, device.waits};
    }
    // A block takes one noise at its beginning, and one before each of its further steps.
    const auto noises = static_cast<int64_t>(c.timesteps.size());
    EXPECT_EQ(of[1].allocations, of[0].allocations) << name;
    EXPECT_EQ(of[1].uploads - of[0].uploads, 20 * (1 + noises)) << name;
    EXPECT_EQ(of[1].waits - of[0].waits, 20 * 2) << name;
  }
}

// A loop's tensors are made for the first block and serve all later ones.
TEST(Rollout, LaterBlocksAllocateNothing) {
  const WanCausalCase c("universal");
  int64_t made[2];
  for (const int64_t blocks : {4, 40}) {
    test::RecordingDevice device(size_t{1} << 30);
    test::roll_long(c, {.memory = &device, .graphs = true, .drawn_blocks = blocks});
    made[blocks == 40] = device.allocations;
  }
  EXPECT_EQ(made[1], made[0]);
}

TEST(Rollout, LengthsOfBlocks) {
  EXPECT_EQ(block_lengths(9, 3, 3), (std::vector<int64_t>{3, 3, 3}));
  EXPECT_EQ(block_lengths(7, 3, 1), (std::vector<int64_t>{1, 3, 3}));
  EXPECT_EQ(block_lengths(1, 3, 1), (std::vector<int64_t>{1}));
  EXPECT_THROW(block_lengths(8, 3, 3), Error);
  EXPECT_THROW(block_lengths(2, 3, 3), Error);
  EXPECT_THROW(block_lengths(3, 0, 3), Error);
}

}  // namespace
}  // namespace tachy
