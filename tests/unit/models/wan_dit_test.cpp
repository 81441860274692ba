// The Wan transformer is compared with diffusers' WanTransformer3DModel in float64
// (tests/golden/wan/make.py): text-to-video, the image branch, first-last-frame, per-token timesteps; odd
// grids, batch 2, float32 and bfloat16 files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "models/wan/timestep.h"
#include "wan_dit_case.h"

namespace tachy {
namespace {

using test::golden_path;
using test::GoldenFile;
using Case = test::WanDitCase;

class WanGolden : public testing::TestWithParam<std::string> {};

TEST_P(WanGolden, WithinTheBoundForPackedAndMappedWeights) {
  Case c(GetParam());
  for (const bool pack : {true, false}) {
    test::PlannedRun run{.pack = pack};
    auto y = c.run(run);
    EXPECT_LE(c.error(y), c.golden.bound()) << "pack " << pack;
    RecordProperty(pack ? "packed" : "mapped", fmt::format("{:.2e}", c.error(y)));
    EXPECT_EQ(run.planned_store, run.store_bytes);
    EXPECT_EQ(run.arena_bytes, run.arena_peak);
  }
}

TEST_P(WanGolden, BitsDoNotDependOnThreads) {
  Case c(GetParam());
  test::PlannedRun one{.threads = 1};
  const auto a = c.run(one);
  for (const int threads : {2, 3}) {
    test::PlannedRun run{.threads = threads};
    EXPECT_EQ(a, c.run(run)) << threads << " threads";
  }
}

// Zero rows given one by one, and zero rows collapsed to one key, give the same attention.
TEST_P(WanGolden, CollapsedPaddingEqualsExplicitRows) {
  Case c(GetParam());
  for (const int64_t rows : {int64_t{40}, int64_t{511}, int64_t{512}}) {
    test::PlannedRun run;
    auto y = c.run(run, rows);
    EXPECT_LE(c.error(y), c.golden.bound()) << rows << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, WanGolden,
                         testing::Values("t2v", "t2v_bf16", "plain_cross", "i2v", "ti2v", "flf2v", "talk",
                                         "quantised/dit_gguf", "quantised/dit_scaled"));

TEST(WanSinusoid, EqualsBothReferences) {
  const GoldenFile golden("wan/sinusoid.safetensors");
  const Tensor times = golden["timesteps"];
  std::vector<double> t(times.as<float>(), times.as<float>() + times.numel());
  const auto worst = [&](Sinusoid kind, const char* name) {
    const Tensor want = golden[name];
    std::vector<float> y(static_cast<size_t>(want.numel()), NAN);
    fill_sinusoid(t, kind, Tensor(y.data(), DType::f32, want.shape()));
    double out = 0;
    for (size_t i = 0; i < y.size(); ++i) out = std::max(out, std::abs(double{y[i]} - want.as<float>()[i]));
    return out;
  };
  EXPECT_LE(worst(Sinusoid::diffusers, "diffusers"), 1.2e-7);
  EXPECT_LE(worst(Sinusoid::original, "original"), 1.2e-7);
  // Another width has no stored table: exp in float32 may be an ulp off, and the angle multiplies that by t.
  EXPECT_LE(worst(Sinusoid::diffusers, "diffusers_40"), 1.3e-4);
  EXPECT_GT(worst(Sinusoid::original, "diffusers"), 1e-6)
      << "the two must differ: the test would not tell them apart";
}

TEST(WanSinusoid, ValuesWrittenOut) {
  const double t[] = {999, 937.5};
  std::vector<float> y(512);
  fill_sinusoid(t, Sinusoid::original, Tensor(y.data(), DType::f32, {2, 256}));
  const float cosines[2][4] = {{0.999650f, 0.963782f, -0.398992f, 0.704820f},
                               {0.262302f, 0.580487f, 0.257223f, 0.075909f}};
  const float sines[2][4] = {{-0.026461f, -0.266690f, -0.916955f, 0.709386f},
                             {0.964986f, -0.814269f, 0.966352f, 0.997115f}};
  const float last[2][2] = {{0.994243f, 0.107147f}, {0.994930f, 0.100574f}};
  for (size_t r = 0; r < 2; ++r) {
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(y[r * 256 + i], cosines[r][i], 6e-7);
      EXPECT_NEAR(y[r * 256 + 128 + i], sines[r][i], 6e-7);
    }
    EXPECT_NEAR(y[r * 256 + 127], last[r][0], 6e-7);
    EXPECT_NEAR(y[r * 256 + 255], last[r][1], 6e-7);
  }
}

TEST(WanConfigs, BothDialectsGiveTheSameDims) {
  const auto original = WanConfig::from_json(nlohmann::json::parse(
      R"({"_class_name":"WanModel","model_type":"t2v","dim":1536,"ffn_dim":8960,"freq_dim":256,"in_dim":16,
          "out_dim":16,"num_heads":12,"num_layers":30,"text_len":512,"eps":1e-6})"));
  const auto diffusers = WanConfig::from_json(nlohmann::json::parse(
      R"({"_class_name":"WanTransformer3DModel","num_attention_heads":12,"attention_head_dim":128,"in_channels":16,
          "out_channels":16,"text_dim":4096,"freq_dim":256,"ffn_dim":8960,"num_layers":30,"patch_size":[1,2,2],
          "cross_attn_norm":true,"qk_norm":"rms_norm_across_heads","eps":1e-6,"image_dim":null,
          "added_kv_proj_dim":null,"pos_embed_seq_len":null,"rope_max_seq_len":1024})"));
  EXPECT_EQ(original.dim(), diffusers.dim());
  EXPECT_EQ(original.head_dim, diffusers.head_dim);
  EXPECT_EQ(original.ffn_dim, diffusers.ffn_dim);
  EXPECT_EQ(original.num_layers, diffusers.num_layers);
  EXPECT_EQ(original.text_dim, diffusers.text_dim);
  EXPECT_FALSE(original.image_branch());
  EXPECT_EQ(original.sinusoid, Sinusoid::original);
  EXPECT_EQ(diffusers.sinusoid, Sinusoid::diffusers);
}

TEST(WanConfigs, WhatCannotWorkIsRefusedByName) {
  const nlohmann::json good = read_json(golden_path("wan/i2v/config.json"));
  EXPECT_TRUE(WanConfig::from_json(good).image_branch());
  const auto fails = [&](const char* key, nlohmann::json value) {
    nlohmann::json j = good;
    j[key] = value;
    try {
      WanConfig::from_json(j);
      ADD_FAILURE() << "accepted " << key << " " << value;
    } catch (const Error& e) {
      EXPECT_THAT(e.message(), testing::HasSubstr(key));
    }
  };
  fails("qk_norm", "layer_norm");
  fails("added_kv_proj_dim", 7);
  fails("added_kv_proj_dim", nullptr);
  fails("freq_dim", 7);
  fails("patch_size", nlohmann::json::array({1, 2}));
  fails("patch_size", nlohmann::json::array({1, 0, 2}));
  fails("num_layers", 1 << 30);
  fails("ffn_dim", -5);
  fails("eps", "small");
  fails("in_channels", 1e300);
}

// Every linear layer can be addressed by its name in the file, even if it is part of a joined product.
TEST(WanDit, LinearLayersHaveTheNamesOfTheFile) {
  for (const char* name : {"t2v", "i2v", "flf2v"}) {
    Case c(name);
    ThreadPool pool(1);
    Arena arena;
    Stream stream{.arena = &arena, .pool = &pool};
    nn::ParamStore store({.plan_only = true}, stream);
    const auto model = load_component(c.weights, "transformer", {}, [&](const Scope& scope) {
      return std::make_unique<WanDit>(scope, c.config, store);
    });
    std::set<std::string> in_file, in_model;
    for (const auto& entry : c.weights->entries())
      if (entry.name.ends_with(".weight") && entry.dims.size() >= 2)
        in_file.insert(entry.name.substr(0, entry.name.size() - 7));
    for (const auto& entry : model->linears()) {
      in_model.insert(entry.name());
      EXPECT_EQ(entry.part().rows, c.weights->find(entry.name() + ".weight")->dims[0]) << entry.name();
    }
    EXPECT_EQ(in_model, in_file) << name;
    const auto& key = model->linears().at("blocks.1.attn1.to_k", "transformer");
    EXPECT_EQ(key.part().first, c.config.dim());
    EXPECT_EQ(key.linear.out(), 3 * c.config.dim());
  }
}

TEST(WanDit, GridsThatDoNotFitAreRefused) {
  Case c("t2v");
  ThreadPool pool(1);
  Arena arena;
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store({.plan_only = true}, stream);
  const auto model = load_component(c.weights, "transformer", {}, [&](const Scope& scope) {
    return std::make_unique<WanDit>(scope, c.config, store);
  });
  EXPECT_THROW(model->make_grid(1, 3, 4, store), Error);
  EXPECT_THROW(model->make_grid(1, 4, 5, store), Error);
  EXPECT_THROW(model->make_grid(1025, 4, 4, store), Error);
  EXPECT_EQ(model->make_grid(1024, 4, 4, store).tokens(), 4096);
  std::vector<float> text(16);
  const Tensor row(text.data(), DType::f32, {1, 16});
  EXPECT_THROW(model->make_context(row, 0, {}, store), Error);
  EXPECT_THROW(model->make_context(row, 512, row, store), Error) << "an image for a model without the branch";
}

// This runs the definitions, since on a CPU only the norm's definition writes codes. Some cases have batch 2
// and timesteps for single tokens.
TEST(WanDit, NormsThatWriteCodesGiveTheBitsOfTwoPasses) {
  for (const char* name : {"t2v", "i2v", "ti2v", "plain_cross", "talk"}) {
    Case c(name);
    test::PlannedRun two{.precision = {.definitions = true, .products = Products::e4m3}}, one = two, wide;
    ::setenv("TACHY_NORM_CODES", "0", 1);
    const auto want = c.run(two);
    ::unsetenv("TACHY_NORM_CODES");
    EXPECT_NE(want, c.run(wide)) << name << ": nothing was rounded";
    EXPECT_EQ(c.run(one), want) << name;
    EXPECT_EQ(one.arena_bytes, one.arena_peak);
    const bool written = std::string_view(name) != "plain_cross" && std::string_view(name) != "talk";
    EXPECT_EQ(one.arena_bytes != two.arena_bytes, written) << name << ": codes have a place of their own";
  }
}

// A weight that is packed for bf16 products has other bytes than one for float32.
TEST(WanDit, AStreamInOtherNumbersIsRefused) {
  Case c("t2v");
  ThreadPool pool(1);
  Arena arena;
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store({.plan_only = true}, stream);
  const auto model = load_component(c.weights, "transformer", {}, [&](const Scope& scope) {
    return std::make_unique<WanDit>(scope, c.config, store);
  });
  const WanGrid grid = model->make_grid(1, 4, 4, store);
  const WanTimes times = model->make_times(std::vector{999.0}, store);
  const Tensor text(nullptr, DType::f32, {1, c.config.text_dim}, Device::null);
  const WanContext context = model->make_context(text, 512, {}, store);
  const Tensor x(nullptr, DType::f32, {1, c.config.in_channels, 1, 4, 4}, Device::null);
  const Tensor y(nullptr, DType::f32, {1, c.config.out_channels, 1, 4, 4}, Device::null);
  const auto run = [&] {
    model->forward({.latents = x, .grid = &grid, .times = times, .row = {}, .contexts = {&context}}, y,
                   stream);
  };
  EXPECT_NO_THROW(run());
  stream.precision.definitions = true;
  EXPECT_NO_THROW(run()) << "the same weights, computed with by definitions";
  stream.precision.compute = Compute::bf16;
  try {
    run();
    ADD_FAILURE() << "weights made for float32 products served bf16 ones";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    EXPECT_THAT(e.message(), testing::HasSubstr("products in f32, and the stream asks for f32 and bf16"));
  }
  EXPECT_THROW(model->make_context(text, 512, {}, store), Error);
}

}  // namespace
}  // namespace tachy
