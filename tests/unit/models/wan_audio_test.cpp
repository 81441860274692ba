// Tests InfiniteTalk's audio branch (models/wan/branches/audio/audio_config.h): its sizes are inferred from
// its tensors, a latent frame reads the right frames, and wrong inputs are refused. The golden case "talk" of
// wan_dit_test.cpp checks its values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/wan/infer_config.h"
#include "shapes.h"
#include "wan_dit_case.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

using test::Shapes;
using test::source_of;
using testing::HasSubstr;

Shapes published() {
  return {{"audio_proj.proj1.weight", {512, 46080}},
          {"audio_proj.proj1_vf.weight", {512, 73728}},
          {"audio_proj.proj3.weight", {24576, 512}},
          {"audio_proj.norm.weight", {768}},
          {"blocks.0.audio_cross_attn.kv_linear.weight", {10240, 768}}};
}

template <class Body>
std::string error_of_call(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

TEST(WanAudioBranch, SizesOfThePublishedFile) {
  WanConfig c, none;
  add_audio_branch(c, *source_of(published()));
  EXPECT_EQ(c.audio_dim, 768);
  EXPECT_EQ(c.audio_layers, 12);
  EXPECT_EQ(c.audio_tokens, 32);
  EXPECT_EQ(c.audio_hidden, 512);
  add_audio_branch(none, *source_of({{"blocks.0.attn1.to_q.weight", {4, 4}}}));
  EXPECT_FALSE(none.audio_branch());
}

TEST(WanAudioBranch, ShapesThatContradictOneAnother) {
  const auto fails = [&](const char* name, std::vector<int64_t> dims) {
    Shapes shapes = published();
    shapes.erase(name);
    if (!dims.empty()) shapes[name] = std::move(dims);
    WanConfig c;
    return error_of_call([&] { add_audio_branch(c, *source_of(shapes)); });
  };
  EXPECT_THAT(fails("audio_proj.proj1.weight", {512, 46081}), HasSubstr("proj1.weight"));
  EXPECT_THAT(fails("audio_proj.proj1.weight", {46080}), HasSubstr("2 dimensions"));
  EXPECT_THAT(fails("audio_proj.proj1_vf.weight", {512, 46080}), HasSubstr("[512, 73728]"));
  EXPECT_THAT(fails("audio_proj.proj3.weight", {24577, 512}), HasSubstr("proj3.weight"));
  EXPECT_THAT(fails("audio_proj.norm.weight", {1 << 20}), HasSubstr("norm.weight"));
  EXPECT_THAT(fails("audio_proj.norm.weight", {}), HasSubstr("audio_proj.norm.weight"));
}

TEST(WanAudioBranch, OtherModelsOfSpeechAreStillRefused) {
  const test::WanDitCase i2v("i2v"), talk("talk");
  Shapes shapes;
  for (const auto& e : i2v.weights->entries()) shapes[e.name] = e.dims;
  shapes["audio_proj.audio_proj_glob_1.layer.weight"] = {4, 4};
  EXPECT_THAT(error_of_call([&] { check_wan_config(i2v.config, *source_of(shapes)); }),
              HasSubstr("another model that follows speech"));
  EXPECT_NO_THROW(check_wan_config(talk.config, *talk.weights));
}

TEST(WanAudioBranch, ATensorInBothFilesIsAnError) {
  const test::WanDitCase talk("talk");
  EXPECT_THAT(error_of_call([&] { joined(*talk.weights, *talk.weights); }), HasSubstr("audio_proj"));
}

// The branch's projection from the golden case, on clips whose states the test makes.
struct Projecting {
  test::WanDitCase talk{"talk"};
  ThreadPool pool{1};
  Arena arena{64 << 20};
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store{{}, stream};
  AudioProjection projection{Scope(talk.weights).sub("audio_proj"), talk.config, store};

  // Returns for each latent frame the values from which its tokens are made.
  std::vector<std::vector<float>> tokens(const std::vector<float>& states, int64_t start, int64_t frames) {
    const WanConfig& c = talk.config;
    const int64_t row = c.audio_layers * c.audio_dim, each = c.audio_tokens * c.audio_dim;
    Tensor clip;  // without states: no speech
    if (!states.empty())
      clip = Tensor(const_cast<float*>(states.data()), DType::f32,
                    {static_cast<int64_t>(states.size()) / row, c.audio_layers, c.audio_dim});
    std::vector<float> out(static_cast<size_t>(frames * each), NAN);
    projection({clip, start}, frames, Tensor(out.data(), DType::f32, {frames * c.audio_tokens, c.audio_dim}),
               stream);
    std::vector<std::vector<float>> parts;
    for (auto at = out.begin(); at != out.end(); at += each) parts.emplace_back(at, at + each);
    return parts;
  }
};

// Latent frame 0 of a window that begins at pixel frame a reads a-2 … a+2, and latent frame i reads a+4i-5 …
// a+4i+2. Beyond the clip's ends its first or last frame counts; frames before the window are read all the
// same.
TEST(WanAudioBranch, ALatentFrameLooksAtItsFramesAndTheirNeighbours) {
  Projecting p;
  constexpr int64_t kClip = 23, kLatent = 4;
  const auto row = static_cast<ptrdiff_t>(p.talk.config.audio_layers * p.talk.config.audio_dim);
  for (const int64_t start : {0, 1, 9, 18, 30}) {
    std::vector<float> states(static_cast<size_t>(kClip * row), 0.5f);
    const auto still = p.tokens(states, start, kLatent);
    for (int64_t j = 0; j < kClip; ++j) {
      std::fill_n(states.begin() + j * row, row, -2.0f);
      const auto moved = p.tokens(states, start, kLatent);
      std::fill_n(states.begin() + j * row, row, 0.5f);
      for (int64_t i = 0; i < kLatent; ++i) {
        const int64_t first = i == 0 ? start - 2 : start + 4 * i - 5, last = start + 4 * i + 2;
        const auto in_clip = [](int64_t frame) { return std::clamp<int64_t>(frame, 0, kClip - 1); };
        const auto at = static_cast<size_t>(i);
        EXPECT_EQ(moved[at] != still[at], in_clip(first) <= j && j <= in_clip(last))
            << "clip frame " << j << ", latent frame " << i << " of a window from " << start;
      }
    }
  }
}

// "No speech" means zeros from which the projection makes tokens, not tokens of zeros.
TEST(WanAudioBranch, NoSpeechIsZerosThroughTheProjection) {
  Projecting p;
  const int64_t row = p.talk.config.audio_layers * p.talk.config.audio_dim;
  const auto silent = p.tokens({}, 0, 3),
             zeros = p.tokens(std::vector<float>(static_cast<size_t>(9 * row)), 0, 3);
  EXPECT_EQ(silent, zeros);
  for (const auto& tokens : silent) EXPECT_GT(*std::ranges::max_element(tokens), 0.01f);
}

// The norm after the projection divides by the root of variance plus 1e-5, not 1e-6 like the transformer's
// norms.
TEST(WanAudioBranch, EpsOfTheProjectionsNorm) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("tachyscope-eps-{}.safetensors", getpid());
  std::vector<float> zeros(32), one = {1}, last = {1e-3f, -1e-3f, 2e-3f, -2e-3f}, ones = {1, 1, 1, 1};
  const auto named = [](const char* name, std::vector<float>& values, std::initializer_list<int64_t> dims) {
    return NamedTensor{name, Tensor(values.data(), DType::f32, dims)};
  };
  write_safetensors(path, {named("proj1.weight", zeros, {1, 20}), named("proj1.bias", one, {1}),
                           named("proj1_vf.weight", zeros, {1, 32}), named("proj1_vf.bias", one, {1}),
                           named("proj2.weight", one, {1, 1}), named("proj2.bias", zeros, {1}),
                           named("proj3.weight", last, {4, 1}), named("proj3.bias", zeros, {4}),
                           named("norm.weight", ones, {4}), named("norm.bias", zeros, {4})});
  WanConfig c;
  c.audio_dim = 4, c.audio_layers = 1, c.audio_hidden = 1, c.audio_tokens = 1;
  ThreadPool pool(1);
  Arena arena(1 << 20);
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store({}, stream);
  const AudioProjection projection(Scope(open_weights(path)), c, store);
  std::vector<float> tokens(8);
  projection({}, 2, Tensor(tokens.data(), DType::f32, {2, 4}), stream);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(tokens[i], last[i % 4] / std::sqrt(2.5e-6 + 1e-5), 1e-5);
  std::filesystem::remove(path);
}

TEST(WanAudioBranch, SpeechAndModelMustGoTogether) {
  test::PlannedRun run;
  test::WanDitCase talk("talk"), without("i2v");
  run([&](Stream&, nn::ParamStore& store) {
    const auto model = without.load(store);
    EXPECT_THAT(error_of_call([&] { allocate_audio(*model, 3, store); }), HasSubstr("no audio branch"));
  });
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model = talk.load(store);
    const WanGrid grid = model->make_grid(3, 4, 6, store);
    const WanInput in{.latents = talk.golden["hidden_states"], .grid = &grid};
    const Tensor out = talk.golden["sample"];
    EXPECT_THAT(error_of_call([&] { model->forward(in, out, stream); }), HasSubstr("expected the speech"));
  });
}

}  // namespace
}  // namespace tachy
