// VaeDecoder is compared with diffusers (float64); its plan and its refusals are tested, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>

#include "wan_vae_golden.h"

namespace tachy::test {
namespace {

struct Decoded {
  std::vector<float> values;  // [T, H, W, C]
  std::vector<int64_t> dims;
  std::vector<int64_t> firsts;
  Tensor tensor() { return Tensor(values.data(), DType::f32, dims); }
};

VaeDecoder::Sink collect(Decoded& out) {
  return [&out](const Tensor& frames, int64_t first) {
    if (frames.device == Device::null) return;  // a measure run gives no values
    EXPECT_EQ(first, out.dims.empty() ? 0 : out.dims[0]);
    if (out.dims.empty()) out.dims = {0, frames.dim(1), frames.dim(2), frames.dim(3)};
    out.dims[0] += frames.dim(0);
    out.firsts.push_back(first);
    out.values.insert(out.values.end(), frames.as<float>(), frames.as<float>() + frames.numel());
  };
}

// Plans, then runs in exactly the planned memory and compares every figure of the plan.
Decoded decode(VaeCase& c, const Tensor& latents, VaeDecoderOptions options, int64_t chunk = 1,
               int threads = 2) {
  Runner runner(threads);
  Decoded out;
  const Scope scope(c.source());
  size_t peak = 0, weights = 0, state = 0;
  {
    Stream stream = runner.measuring();
    const size_t before = Buffer::live_bytes();
    const VaeDecoder decoder(scope, c.config, options, stream);
    decoder.decode(latents, collect(out), stream, chunk);
    EXPECT_EQ(Buffer::live_bytes(), before);
    EXPECT_TRUE(out.dims.empty());  // nothing is decoded in a measure run
    peak = runner.arena.peak();
    weights = decoder.buffer_bytes();
    state = decoder.state_bytes(latents.dim(2), latents.dim(3), latents.dim(1));
  }
  Stream stream = runner.sized(peak);
  const size_t before = Buffer::live_bytes();
  const VaeDecoder decoder(scope, c.config, options, stream);
  EXPECT_EQ(Buffer::live_bytes() - before, weights);
  EXPECT_EQ(decoder.buffer_bytes(), weights);
  Buffer::reset_peak();
  decoder.decode(latents, collect(out), stream, chunk);
  EXPECT_EQ(runner.arena.peak(), peak);
  EXPECT_EQ(Buffer::peak_bytes() - before, weights + align_up(state));
  return out;
}

class DecodeGolden : public testing::TestWithParam<const char*> {};

TEST_P(DecodeGolden, EveryLengthAndChunk) {
  VaeCase c(GetParam());
  const Tensor latents = c.input("latents");
  const Tensor expected = channels_last_view(c.expected("decoded"));
  for (int64_t t = 1; t <= latents.dim(1); ++t)
    for (int64_t chunk : {1, 2, 3}) {
      if (chunk > 1 && t <= chunk) continue;
      Decoded got = decode(c, latents.slice(1, 0, t), {.normalised = false}, chunk);
      const double error = error_of(got.tensor(), expected.slice(0, 0, c.config.pixel_frames(t)));
      RecordProperty(fmt::format("error_{}_{}", t, chunk), fmt::format("{:.2e}", error));
      EXPECT_LE(error, kVaeBound) << GetParam() << ", " << t << " latent frames in chunks of " << chunk;
      if (chunk == 1) {
        ASSERT_EQ(static_cast<int64_t>(got.firsts.size()), t);
        for (int64_t i = 0; i < t; ++i)
          EXPECT_EQ(got.firsts[static_cast<size_t>(i)], c.config.pixel_frames(i));
      }
    }
}

TEST_P(DecodeGolden, NormalisedLatents) {
  VaeCase c(GetParam());
  Named latents = c.inputs.at("latents");
  const size_t plane = latents.values.size() / static_cast<size_t>(c.config.z_dim);
  for (size_t i = 0; i < latents.values.size(); ++i)
    latents.values[i] =
        static_cast<float>((static_cast<double>(latents.values[i]) - c.config.latents_mean[i / plane]) /
                           c.config.latents_std[i / plane]);
  Decoded got = decode(c, latents.tensor(), {.normalised = true});
  EXPECT_LE(error_of(got.tensor(), channels_last_view(c.expected("decoded"))), kVaeBound);
}

INSTANTIATE_TEST_SUITE_P(All, DecodeGolden,
                         testing::Values("wan21", "shallow", "wide_decoder", "wan22", "residual"),
                         [](const auto& info) { return std::string(info.param); });

TEST(WanVaeDecoder, SameBitsForAnyThreadCount) {
  VaeCase c("shallow");
  const Decoded one = decode(c, c.input("latents"), {.normalised = false}, 1, 1);
  const Decoded three = decode(c, c.input("latents"), {.normalised = false}, 1, 3);
  ASSERT_EQ(one.values.size(), three.values.size());
  EXPECT_EQ(std::memcmp(one.values.data(), three.values.data(), one.values.size() * 4), 0);
}

TEST(WanVaeDecoder, StridedLatents) {
  VaeCase c("shallow");
  const Tensor latents = c.input("latents");  // [z, T, h, w] stored as [h, z, w, T]
  std::vector<float> shuffled(static_cast<size_t>(latents.numel()));
  Tensor view(shuffled.data(), DType::f32, {latents.dim(2), latents.dim(0), latents.dim(3), latents.dim(1)});
  view = view.transpose(0, 1).transpose(1, 3).transpose(2, 3);  // z, T, h, w
  ASSERT_TRUE(same_shape(view, latents));
  for (int64_t a = 0; a < latents.dim(0); ++a)
    for (int64_t b = 0; b < latents.dim(1); ++b)
      for (int64_t i = 0; i < latents.dim(2); ++i)
        for (int64_t j = 0; j < latents.dim(3); ++j)
          shuffled[offset_of(view, {a, b, i, j})] = latents.as<float>()[offset_of(latents, {a, b, i, j})];
  const Decoded plain = decode(c, latents, {.normalised = false}),
                strided = decode(c, view, {.normalised = false});
  EXPECT_EQ(plain.values, strided.values);
}

TEST(WanVaeDecoder, HalfPrecisionWeights) {
  VaeCase c("shallow"), halved("shallow");
  std::map<std::string, std::vector<bf16_t>> narrow;
  std::vector<TensorSource::Entry> entries;
  for (auto& [name, w] : halved.weights) {
    auto& bits = narrow[name];
    for (float& v : w.values) {
      bits.push_back(to_bf16(v));
      v = to_float(bits.back());
    }
    entries.push_back({.name = name,
                       .name_in_file = name,
                       .dtype = DType::bf16,
                       .dims = w.dims,
                       .data = bits.data(),
                       .bytes = bits.size() * 2});
  }
  const Decoded wide = decode(halved, c.input("latents"), {.normalised = false});
  const auto source =
      std::make_shared<TensorSource>(std::move(entries), std::vector<std::shared_ptr<const MappedFile>>{});
  Runner runner;
  Stream stream = runner.sized(64 << 20);
  const VaeDecoder decoder(Scope(source), c.config, {.normalised = false}, stream);
  Decoded got;
  decoder.decode(c.input("latents"), collect(got), stream);
  EXPECT_EQ(wide.values, got.values);
}

TEST(WanVaeDecoder, NamesTheMissingTensor) {
  VaeCase c("shallow");
  Runner runner;
  Stream stream = runner.measuring();
  try {
    load_component(c.source("decoder.up_blocks.1.resnets.0.conv2.bias"), "vae", {"encoder.", "quant_conv."},
                   [&](const Scope& s) { return VaeDecoder(s, c.config, {}, stream); });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::not_found);
    EXPECT_THAT(e.message(), testing::HasSubstr("decoder.up_blocks.1.resnets.0.conv2.bias"));
  }
}

TEST(WanVaeDecoder, NanIsAnErrorThatNamesTheStage) {
  for (const char* name : {"decoder.conv_in.weight", "decoder.norm_out.gamma", "decoder.conv_out.bias"}) {
    VaeCase c("shallow");
    c.weights.at(name).values[1] = std::numeric_limits<float>::quiet_NaN();
    try {
      decode(c, c.input("latents"), {.normalised = false});
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::numerical);
      EXPECT_THAT(e.message(), testing::HasSubstr("vae decode"));
    }
  }
}

TEST(WanVaeDecoder, StopsWhenCancelled) {
  VaeCase c("shallow");
  Runner runner;
  Stream stream = runner.sized(64 << 20);
  std::atomic<bool> cancel{false};
  stream.hooks.cancel = &cancel;
  const VaeDecoder decoder(Scope(c.source()), c.config, {.normalised = false}, stream);
  int chunks = 0;
  const auto stop = [&](const Tensor&, int64_t) { cancel = ++chunks == 2; };
  try {
    decoder.decode(c.input("latents"), stop, stream);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
  EXPECT_EQ(chunks, 2);
}

// An endless video comes in blocks of three latent frames: the first gives nine frames and each later one
// twelve, the same as all at once.
TEST(WanVaeDecoder, BlocksOfASession) {
  VaeCase c("wan21");
  Runner runner;
  Stream stream = runner.sized(64 << 20);
  const VaeDecoder decoder(Scope(c.source()), c.config, {.normalised = false}, stream);
  const Tensor given = c.input("latents");
  const int64_t z = given.dim(0), h = given.dim(2), w = given.dim(3), frames = 9;
  std::vector<float> values(static_cast<size_t>(z * frames * h * w));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] =
        given.as<float>()[i % static_cast<size_t>(given.numel())] * (1 + 0.01f * static_cast<float>(i % 7));
  const Tensor latents(values.data(), DType::f32, {z, frames, h, w});
  Decoded whole, blocks;
  decoder.decode(latents, collect(whole), stream);
  VaeState state = decoder.make_state(h, w, 3, stream);
  std::vector<int64_t> ends;
  for (int64_t first = 0; first < frames; first += 3) {
    decoder.decode_block(state, latents.slice(1, first, first + 3), collect(blocks), stream);
    ends.push_back(blocks.dims[0]);
  }
  EXPECT_EQ(ends, (std::vector<int64_t>{9, 21, 33}));
  EXPECT_EQ(blocks.values, whole.values);
}

TEST(WanVaeDecoder, RefusesWrongUse) {
  VaeCase c("shallow");
  Runner runner;
  Stream stream = runner.sized(64 << 20);
  const VaeDecoder decoder(Scope(c.source()), c.config, {.normalised = false}, stream);
  const Tensor latents = c.input("latents");
  const auto ignore = [](const Tensor&, int64_t) {};
  EXPECT_THROW(decoder.decode(latents.slice(0, 0, 3), ignore, stream), Error);  // wrong channels
  EXPECT_THROW(decoder.decode(latents.slice(1, 0, 0), ignore, stream), Error);  // no frames
  EXPECT_THROW(decoder.decode(latents, ignore, stream, 0), Error);
  VaeState state = decoder.make_state(2, 7, 3, stream);
  EXPECT_THROW(decoder.decode_chunk(state, latents.slice(1, 0, 2), ignore, stream),
               Error);  // the first frame comes together with others
  VaeState image = decoder.make_state(2, 7, 1, stream);
  decoder.decode_chunk(image, latents.slice(1, 0, 1), ignore, stream);
  // A single image has no caches.
  EXPECT_THROW(decoder.decode_chunk(image, latents.slice(1, 1, 2), ignore, stream), Error);
}

}  // namespace
}  // namespace tachy::test
