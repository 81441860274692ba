// Decodes on several ranks of the CPU.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/run_on_ranks.h"
#include "wan_vae_golden.h"

namespace tachy::test {

using runtime::Comm;

// Fills what is left of an arena with NaN, so that rows which were never written show.
inline void poison(Arena& arena) {
  if (!arena.measuring()) std::memset(arena.bytes(0), 0xff, arena.capacity() - arena.mark());
}

// Runs body(stream, comm) on ranks, with exactly the memory that a measure run takes; returns its size.
inline size_t on_ranks(int ranks, const std::function<void(Stream&, Comm*)>& body) {
  Runner runner(3);
  const auto run = [&](Stream stream) {
    if (ranks == 1) {
      body(stream, nullptr);
      return;
    }
    runtime::RankTeam team(ranks, 3);
    runtime::run_on_ranks(team, ranks, stream, [&](Stream& own, Comm& comm) {
      poison(*own.arena);
      body(own, &comm);
    });
  };
  run(runner.measuring());
  const size_t peak = runner.arena.peak();
  run(runner.sized(peak));
  EXPECT_EQ(runner.arena.peak(), peak);
  return peak;
}

// Values that no two rows share.
inline std::vector<float> wave(int64_t count) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::sin(static_cast<float>(i) * 0.731f);
  return out;
}

struct Size {
  int64_t frames, height, width;  // of latents
};

inline std::vector<float> decoded(VaeCase& c, const Size& size, int ranks, int64_t chunk = 1) {
  const auto [t, h, w] = size;
  std::vector<float> values = wave(c.config.z_dim * t * h * w), out;
  const Tensor latents(values.data(), DType::f32, {c.config.z_dim, t, h, w});
  const Tensor shape(nullptr, DType::f32, latents.shape());  // rank 0 alone has values
  Runner loader;
  Stream loading = loader.sized(size_t{64} << 20);
  const VaeDecoder decoder(Scope(c.source()), c.config, {}, loading);
  size_t states = 0;
  on_ranks(ranks, [&](Stream& stream, Comm* comm) {
    const bool first = !comm || comm->rank() == 0;
    const auto sink = [&](const Tensor& frames, int64_t) {
      EXPECT_TRUE(first);
      if (stream.measuring()) return;
      EXPECT_EQ(frames.dim(1), h * c.config.spatial_stride());
      out.insert(out.end(), frames.as<float>(), frames.as<float>() + frames.numel());
    };
    if (first && !stream.measuring()) {
      states = Buffer::live_bytes();
      Buffer::reset_peak();
    }
    decoder.decode(first ? latents : shape, sink, stream, chunk, comm);
    if (first && !stream.measuring()) states = Buffer::peak_bytes() - states;
  });
  EXPECT_LE(states, align_up(decoder.state_bytes(h, w, t, ranks)));
  EXPECT_EQ(out.size(), static_cast<size_t>(c.config.pixel_frames(t) * h * w * c.config.image_channels() *
                                            c.config.spatial_stride() * c.config.spatial_stride()));
  return out;
}

}  // namespace tachy::test
