// Causal Wan models (models/wan/causal.h) are compared with the original repositories' own results
// (tests/golden/causal); further tests check properties that such a comparison does not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/transfer.h"
#include "wan_causal_case.h"

namespace tachy {
namespace {

using test::WanCausalCase;
using testing::HasSubstr;

constexpr double kVelocityBound = 5e-6, kLatentBound = 1e-5;

template <class Body>
std::string error_of_call(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

// Calls body(session) in a measure run and for real.
template <class Body>
void with_session(const WanCausalCase& c, Body&& body, test::PlannedRun run = {}) {
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model = c.load(store);
    WanCausalCase::Session session(c, *model, store);
    body(session, !stream.measuring());
  });
  EXPECT_EQ(run.store_bytes, run.planned_store);
  EXPECT_EQ(run.arena_peak, run.arena_bytes);
}

class WanCausalGolden : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(WanCausalGolden, VelocitiesAndLatentsOfTheOriginal) {
  const auto [name, fill_only] = GetParam();
  const WanCausalCase c(name);
  with_session(c, [&](WanCausalCase::Session& session, bool real) {
    const WanCausalCase::Result result = c.rollout(session, fill_only);
    if (!real) return;
    EXPECT_LE(result.velocities, kVelocityBound) << std::stod(c.text("velocities_error"));
    EXPECT_LE(result.latents, kLatentBound) << std::stod(c.text("latents_error"));
    RecordProperty("velocities", fmt::format("{:.1e}", result.velocities));
    RecordProperty("latents", fmt::format("{:.1e}", result.latents));
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, WanCausalGolden,
                         testing::Combine(testing::Values("self_forcing", "universal", "short_window",
                                                          "templerun"),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_fill" : "_whole");
                         });

// Returns the keys and values of everything that a video remembers.
std::vector<Tensor> rings_of(const WanCausal& c) {
  std::vector<Tensor> all{c.ring.k, c.ring.v};
  if (const auto* more = c.memory.find<WanActionMemory>())
    for (const runtime::KvRing& ring : {more->mouse_ring, more->keyboard_ring})
      all.insert(all.end(), {ring.k, ring.v});
  return all;
}

std::vector<float> ring_of(const WanCausal& c) {
  std::vector<float> all;
  for (const Tensor& t : rings_of(c))
    if (t.defined()) {
      const auto values = test::values_of(t);
      all.insert(all.end(), values.begin(), values.end());
    }
  return all;
}

// A pass that only fills the rings leaves the same bits as a whole one, even if the last block has an action
// module.
TEST(WanCausal, APassThatOnlyFillsLeavesTheSameKeys) {
  for (const char* name : {"self_forcing", "universal"}) {
    const WanCausalCase c(name);
    std::vector<float> left[2];
    for (const bool fill_only : {false, true})
      with_session(c, [&](WanCausalCase::Session& session, bool real) {
        session.begin(c.blocks[0]);
        const auto x = WanCausalCase::frames_of(c.golden["noise"], 0, c.blocks[0]);
        for (const Tensor& t : rings_of(session.causal))
          if (t.defined()) zero(t, session.store.stream());
        session.predict(x, c.timesteps.size(), fill_only);
        if (real) left[fill_only ? 1 : 0] = ring_of(session.causal);
      });
    EXPECT_EQ(left[0], left[1]) << name;
    EXPECT_GT(left[0].size(), 0u);
  }
}

// The keyboard's keys and values from an earlier pass serve the block's further passes, to the bit. Further
// passes really use them: other keys that are pressed in the meantime change nothing.
TEST(WanCausal, TheKeyboardIsKnownAfterABlocksFirstPass) {
  for (const char* name : {"universal", "templerun"}) {
    const WanCausalCase c(name);
    std::vector<float> anew, known, otherwise, pressed, left[2];
    with_session(c, [&](WanCausalCase::Session& session, bool real) {
      session.begin(c.blocks[0]);
      const auto x = WanCausalCase::frames_of(c.golden["noise"], 0, c.blocks[0]);
      session.predict(x, 0);
      const auto& memory = *session.causal.memory.find<WanActionMemory>();
      const auto keep = [&](std::vector<float>& to) {
        for (const Tensor& t : {memory.keyboard_ring.k, memory.keyboard_ring.v})
          for (int64_t module = 0; real && module < t.dim(0); ++module) {
            const auto rows = test::values_of(t.select(0, module).slice(0, 0, c.blocks[0]));
            to.insert(to.end(), rows.begin(), rows.end());
          }
      };
      keep(left[0]);
      anew = session.predict(x, 1);
      known = session.predict(x, 1, false, true);
      if (real) {
        const Tensor& keys = memory.keyboard;
        for (int64_t i = 0; i < keys.numel(); ++i) keys.as<float>()[i] = 1 - keys.as<float>()[i];
      }
      otherwise = session.predict(x, 1, false, true);
      keep(left[1]);
      pressed = session.predict(x, 1);
    });
    EXPECT_EQ(known, anew) << name;
    EXPECT_EQ(otherwise, anew) << name;
    EXPECT_FALSE(left[0].empty());
    EXPECT_EQ(left[1], left[0]) << name;
    EXPECT_NE(pressed, anew) << name;
  }
}

// Attention depends only on differences of positions: far beyond the 1024 positions of the published tables,
// and beyond the range where angles in float32 would be useful, a block that sees only itself predicts the
// same.
TEST(WanCausal, PositionsHaveNoEnd) {
  WanCausalCase c("self_forcing");
  c.window = {.frames = c.blocks[0]};
  std::vector<float> at[2];
  for (const int64_t first : {int64_t{0}, int64_t{1'000'000}})
    with_session(c, [&](WanCausalCase::Session& session, bool real) {
      session.causal.first = first;
      session.begin(c.blocks[0]);
      const auto v = session.predict(WanCausalCase::frames_of(c.golden["noise"], 0, c.blocks[0]), 1);
      if (real) at[first > 0 ? 1 : 0] = v;
    });
  double off = 0, most = 0;
  for (size_t i = 0; i < at[0].size(); ++i) {
    off = std::max(off, std::abs(static_cast<double>(at[1][i]) - at[0][i]));
    most = std::max(most, std::abs(static_cast<double>(at[0][i])));
  }
  EXPECT_LE(off / most, 2e-6);
  EXPECT_NE(at[0], at[1]);
}

// In a long session only the actions that a block sees need to be kept.
TEST(WanCausal, ActionsBeforeThoseThatAreSeenMayBeForgotten) {
  const WanCausalCase c("universal");
  const WanScript whole = c.script();
  std::vector<float> seen[2];
  for (const bool forgetful : {false, true})
    with_session(c, [&](WanCausalCase::Session& s, bool real) {
      const int64_t from = forgetful ? c.config.actions.frame_of(6, 0) : 0;
      s.causal.first = 6;
      s.grid = s.model.make_grid(3, 2 * s.rows, 2 * s.columns, s.store);
      const auto rest = [&](const Tensor& t) { return t.slice(0, from, t.dim(0)); };
      s.model.begin_block(s.causal, s.grid,
                          WanExtras::of(WanScript{rest(whole.keyboard), rest(whole.mouse), from}),
                          s.store.stream());
      if (!real) return;
      const auto& memory = *s.causal.memory.find<WanActionMemory>();
      for (const Tensor& t : {memory.keyboard, memory.mouse}) {
        const auto values = test::values_of(t);
        seen[forgetful ? 1 : 0].insert(seen[forgetful ? 1 : 0].end(), values.begin(), values.end());
      }
    });
  EXPECT_EQ(seen[0], seen[1]);
  ASSERT_EQ(seen[0].size(), 20u * 6);
  EXPECT_EQ(seen[0][3], whole.keyboard.as<float>()[12 * 4 + 3]);
}

// The mask is training's block-causal one. At timestep 0 everywhere, one pass over a clip predicts the same
// as its blocks one after the other, each of which has left its keys; also with a window and sinks, for which
// blocks give up slots. Without the mask the prediction differs.
TEST(WanCausal, AMaskedPassOverAClipIsItsBlocks) {
  for (const char* name : {"self_forcing", "universal", "short_window", "templerun"}) {
    const WanCausalCase c(name);
    const size_t zero_row = c.timesteps.size();
    std::vector<float> by_blocks, masked, unmasked;
    int64_t frames = 0;
    for (const int64_t n : c.blocks) frames += n;
    ASSERT_GT(c.blocks.size(), 2u);
    with_session(c, [&](WanCausalCase::Session& session, bool real) {
      const int64_t plane = 4 * session.rows * session.columns, z = c.golden["noise"].dim(0);
      if (real) by_blocks.assign(static_cast<size_t>(z * frames * plane), NAN);
      int64_t first = 0;
      for (const int64_t n : c.blocks) {
        session.begin(n);
        const auto v = session.predict(WanCausalCase::frames_of(c.golden["noise"], first, n), zero_row);
        for (int64_t i = 0; real && i < z; ++i)
          std::copy_n(v.begin() + i * n * plane, n * plane, by_blocks.begin() + (i * frames + first) * plane);
        first += n;
      }
    });
    WanCausalCase whole(name);
    whole.blocks = {frames}, whole.window = {.frames = frames};
    for (const bool with_mask : {false, true})
      with_session(whole, [&](WanCausalCase::Session& session, bool real) {
        if (with_mask) session.causal.mask = {c.blocks, c.window.frames, c.window.sinks};
        session.begin(frames);
        const auto v = session.predict(WanCausalCase::frames_of(c.golden["noise"], 0, frames), zero_row);
        if (real) (with_mask ? masked : unmasked) = v;
      });
    const auto off = [&](const std::vector<float>& y) {
      double most = 0, error = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        error = std::max(error, std::abs(static_cast<double>(y[i]) - by_blocks[i]));
        most = std::max(most, std::abs(static_cast<double>(by_blocks[i])));
      }
      return error / most;
    };
    ASSERT_EQ(masked.size(), by_blocks.size());
    EXPECT_LE(off(masked), kVelocityBound) << name;
    EXPECT_GT(off(unmasked), 100 * kVelocityBound) << name;
    RecordProperty(name, fmt::format("{:.1e}", off(masked)));
  }
}

TEST(WanCausal, FractionalTimestepsAreNotCutOff) {
  const WanCausalCase c("universal");
  ASSERT_NE(c.timesteps[1], std::floor(c.timesteps[1]));
  with_session(c, [&](WanCausalCase::Session& session, bool real) {
    session.begin(c.blocks[0]);
    const auto x = WanCausalCase::frames_of(c.golden["noise"], 0, c.blocks[0]);
    const auto exact = session.predict(x, 1);
    session.times =
        session.model.make_times(std::vector<double>{0, std::floor(c.timesteps[1])}, session.store);
    const auto cut = session.predict(x, 1);
    if (!real) return;
    double off = 0;
    for (size_t i = 0; i < exact.size(); ++i)
      off = std::max(off, std::abs(static_cast<double>(exact[i]) - cut[i]));
    EXPECT_GT(off, 100 * kVelocityBound);
  });
}

TEST(WanCausal, WhatCannotBe) {
  const WanCausalCase c("universal"), plain("self_forcing");
  test::PlannedRun run;
  run([&](Stream& stream, nn::ParamStore& store) {
    if (stream.measuring()) return (void)c.load(store);
    const auto model = c.load(store);
    const auto window = [&](WanWindow w, int64_t most) {
      return error_of_call([&] { model->allocate_causal(w, most, 2, 3, store); });
    };
    EXPECT_THAT(window({.frames = 2}, 3), HasSubstr("blocks of 1 to 2 frames"));
    EXPECT_THAT(window({.frames = 4, .sinks = 2}, 3), HasSubstr("blocks of 1 to 2 frames"));
    EXPECT_THAT(window({.frames = 3, .sinks = 3}, 1), HasSubstr("3 sinks"));
    EXPECT_THAT(window({}, 1), HasSubstr("at least one frame"));
    WanCausal causal = model->allocate_causal(c.window, 3, 2, 3, store);
    const WanGrid grid = model->make_grid(3, 4, 6, store), long_grid = model->make_grid(4, 4, 6, store);
    const auto begin = [&](const WanGrid& g, const WanScript& s) {
      return error_of_call([&] { model->begin_block(causal, g, WanExtras::of(s), stream); });
    };
    const WanScript whole = c.script();
    EXPECT_THAT(begin(long_grid, whole), HasSubstr("a block of 1 to 3 frames"));
    EXPECT_THAT(begin(grid, {}), HasSubstr("expected the actions of a keyboard"));
    EXPECT_THAT(begin(grid, {.keyboard = whole.keyboard, .mouse = {}}), HasSubstr("actions of a mouse"));
    EXPECT_THAT(begin(grid, {whole.keyboard.slice(0, 0, 8), whole.mouse}),
                HasSubstr("of pixel frames 0 to 8, got 8 from 0 on"));
    EXPECT_THAT(begin(grid, {whole.mouse, whole.mouse}), HasSubstr("keyboard"));
    EXPECT_THAT(begin(grid, {whole.keyboard, whole.mouse, 1}), HasSubstr("from 1 on"));
    const auto masked = [&](const WanMask& mask) {
      WanCausal other = model->allocate_causal({.frames = 3}, 3, 2, 3, store);
      other.mask = mask;
      return error_of_call([&] { model->begin_block(other, grid, WanExtras::of(whole), stream); });
    };
    EXPECT_EQ(masked({.parts = {1, 2}}), "");
    EXPECT_THAT(masked({.parts = {1, 1}}),
                HasSubstr("a mask of 2 latent frames, expected one of a whole clip of 3"));
    EXPECT_THAT(masked({.parts = {0, 3}}), HasSubstr("parts of 0 latent frames"));
    EXPECT_THAT(masked({.parts = {1, 2}, .frames = 1}),
                HasSubstr("parts of 2 latent frames that see 1, 0 of them sinks"));
    const WanInput without{.latents = Tensor(nullptr, DType::f32, {1, 9, 3, 4, 6}), .grid = &grid};
    EXPECT_THAT(error_of_call([&] { model->forward(without, {}, stream); }), HasSubstr("follows actions"));
    EXPECT_THAT(error_of_call([&] { model->make_context(whole.mouse, 512, {}, store); }),
                HasSubstr("no text"));
  });
}

}  // namespace
}  // namespace tachy
