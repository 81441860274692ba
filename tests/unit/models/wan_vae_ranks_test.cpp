// If the rows of a picture are divided among ranks, the VAE makes the bits that a single rank makes, in the
// memory that was planned, and ends with one rank's error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "wan_vae_on_ranks.h"

namespace tachy::test {
namespace {

struct BothMoments {
  std::vector<float> mean, logvar;
  bool operator==(const BothMoments&) const = default;
};

BothMoments encoded(VaeCase& c, const Size& size, int ranks, bool logvar = true, int64_t chunk = 1) {
  const auto [t, h, w] = size;
  const int64_t s = c.config.spatial_stride(), frames = c.config.pixel_frames(t), z = c.config.z_dim;
  std::vector<float> values = wave(frames * h * w * s * s * c.config.image_channels());
  const Tensor video(values.data(), DType::f32, {frames, h * s, w * s, c.config.image_channels()});
  BothMoments out;
  out.mean.assign(static_cast<size_t>(z * t * h * w), NAN);
  if (logvar) out.logvar = out.mean;
  const auto moment = [&](std::vector<float>& to) {
    return to.empty() ? Tensor() : Tensor(to.data(), DType::f32, {z, t, h, w});
  };
  Runner loader;
  Stream loading = loader.sized(size_t{64} << 20);
  const VaeEncoder encoder(Scope(c.source()), c.config, {.logvar = logvar}, loading);
  on_ranks(ranks, [&](Stream& stream, Comm* comm) {
    const bool first = !comm || comm->rank() == 0;
    const auto source = [&](int64_t from, int64_t count) {
      EXPECT_TRUE(first);
      return video.slice(0, from, from + count);
    };
    encoder.encode({frames, h * s, w * s}, source, first ? moment(out.mean) : Tensor(),
                   first ? moment(out.logvar) : Tensor(), stream, comm, {}, chunk);
  });
  return out;
}

// `make test-ranks` tries every number of ranks with every size. Otherwise each size has one, and the VAEs
// whose channels oneDNN only convolves in plain loops have a single size.
bool all_ranks() {
  static const bool all = std::getenv("TACHY_ALL_RANKS") != nullptr;
  return all;
}
bool tried(const std::string& name, const Size& size, int ranks) {
  if (ranks > size.height || all_ranks()) return all_ranks() && ranks <= size.height;
  return ranks == (size.height + 1) / 2 && (size.height == 5 || (name != "wide_decoder" && name != "wan22"));
}

class RanksOf : public testing::TestWithParam<const char*> {};

// Some bands of three rows on two ranks, or of five on three, are single rows.
constexpr Size kSizes[] = {{3, 5, 2}, {1, 3, 4}, {3, 9, 1}, {3, 16, 1}};

TEST_P(RanksOf, DecodeTheBitsOfOne) {
  VaeCase c(GetParam());
  for (const Size& size : kSizes) {
    std::vector<float> one;
    for (const int ranks : {2, 3, 4, 5, 8}) {
      if (!tried(GetParam(), size, ranks)) continue;
      if (one.empty()) one = decoded(c, size, 1);
      EXPECT_TRUE(decoded(c, size, ranks) == one) << size.height << " rows on " << ranks;
    }
  }
}

TEST(VaeRanks, DecodeSeveralFramesAtATime) {
  VaeCase c("wan21");
  EXPECT_TRUE(decoded(c, {4, 3, 2}, 2, 3) == decoded(c, {4, 3, 2}, 1));
}

TEST_P(RanksOf, EncodeTheBitsOfOne) {
  VaeCase c(GetParam());
  for (const Size& size : kSizes) {
    const BothMoments one = encoded(c, size, 1);
    for (const int ranks : {2, 3, 4, 5, 8})
      if (tried(GetParam(), size, ranks))
        EXPECT_TRUE(encoded(c, size, ranks) == one) << size.height << " rows on " << ranks;
  }
}

TEST(VaeRanks, EncodeSeveralFramesAtATime) {
  VaeCase c("wan21");
  EXPECT_TRUE(encoded(c, {4, 3, 2}, 2, true, 2) == encoded(c, {4, 3, 2}, 1));
}

TEST(VaeRanks, EncodeTheMeanAlone) {
  VaeCase c("shallow");
  EXPECT_TRUE(encoded(c, {1, 3, 2}, 3, false) == encoded(c, {1, 3, 2}, 1, false));
}

INSTANTIATE_TEST_SUITE_P(Vae, RanksOf,
                         testing::Values("wan21", "shallow", "wide_decoder", "wan22", "residual"),
                         [](const auto& info) { return std::string(info.param); });

// Returns the error of a decoding on three ranks.
Error decoding_error(VaeCase& c, const std::atomic<bool>* cancel, const VaeDecoder::Sink& sink) {
  std::vector<float> values = wave(c.config.z_dim * 4 * 5 * 3);
  const Tensor latents(values.data(), DType::f32, {c.config.z_dim, 4, 5, 3});
  Runner runner;
  Stream stream = runner.sized(size_t{64} << 20);
  stream.hooks.cancel = cancel;
  const VaeDecoder decoder(Scope(c.source()), c.config, {}, stream);
  runtime::RankTeam team(3, 3);
  const size_t before = Buffer::live_bytes();
  try {
    runtime::run_on_ranks(team, 3, stream, [&](Stream& own, Comm& comm) {
      decoder.decode(latents, own.measuring() ? VaeDecoder::Sink() : sink, own, 1, &comm);
    });
  } catch (const Error& e) {
    EXPECT_EQ(Buffer::live_bytes(), before);
    return e;
  }
  return Error(ErrorCode::internal, "no error");
}

TEST(VaeRanks, EndWithTheErrorOfOne) {
  VaeCase c("shallow");
  std::atomic<bool> cancel{false};
  int chunks = 0;
  const Error stopped = decoding_error(c, &cancel, [&](const Tensor&, int64_t) { cancel = ++chunks == 2; });
  EXPECT_EQ(stopped.code(), ErrorCode::cancelled);
  EXPECT_EQ(chunks, 2);
  c.weights.at("decoder.conv_out.bias").values[1] = NAN;
  const Error broken = decoding_error(c, nullptr, {});
  EXPECT_EQ(broken.code(), ErrorCode::numerical);
  EXPECT_THAT(broken.message(), testing::HasSubstr("frames from 0 on hold NaN"));
}

TEST(VaeRanks, AreNoMoreThanRows) {
  VaeCase c("shallow");
  Runner runner;
  Stream stream = runner.measuring();
  const VaeDecoder decoder(Scope(c.source()), c.config, {}, stream);
  EXPECT_GT(decoder.state_bytes(2, 3, 3, 2), decoder.state_bytes(2, 3, 3));
  EXPECT_THROW(decoder.state_bytes(2, 3, 3, 3), Error);
}

}  // namespace
}  // namespace tachy::test
