// VACE's control blocks (models/wan/branches/vace) are compared with diffusers' WanVACETransformer3DModel in
// float64 (tests/golden/wan/make_vace.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gpu_run.h"
#include "models/wan/branches/vace/vace_branch.h"
#include "wan_dit_case.h"

namespace tachy {
namespace {

using testing::HasSubstr;

template <class Body>
std::string refusal_of(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

enum class Scales { given, none, zero };

// The golden case's clip, which follows its control.
struct VaceCase : test::WanDitCase {
  explicit VaceCase(const std::string& name, Scales scales = Scales::given) : WanDitCase(name) {
    sample = scales == Scales::given ? "sample" : scales == Scales::none ? "sample_ones" : "sample_without";
    give = [this, scales](const WanDit& model, WanInput& in, nn::ParamStore& store) {
      std::vector<float> values;
      if (scales != Scales::none) values = test::values_of(golden["control_hidden_states_scale"]);
      if (scales == Scales::zero) std::ranges::fill(values, 0.0f);
      Tensor control = golden["control_hidden_states"];
      if (store.on_gpu()) {
        const Tensor there = store.allocate(control.dtype, control.shape());
        upload(control.data, there, store.stream());
        control = there;
      }
      in.given.put(make_control(model, control, values, store));
    };
  }
};

class WanVace : public testing::TestWithParam<std::string> {};

TEST_P(WanVace, WithinTheBoundForPackedAndMappedWeights) {
  for (const Scales scales : {Scales::given, Scales::none, Scales::zero})
    for (const bool pack : {true, false}) {
      VaceCase c(GetParam(), scales);
      test::PlannedRun run{.pack = pack};
      auto y = c.run(run);
      EXPECT_LE(c.error(y), c.golden.bound()) << c.sample << ", pack " << pack;
      RecordProperty(c.sample + (pack ? "_packed" : "_mapped"), fmt::format("{:.2e}", c.error(y)));
      EXPECT_EQ(run.planned_store, run.store_bytes);
      EXPECT_EQ(run.arena_bytes, run.arena_peak);
    }
}

TEST_P(WanVace, StrengthZeroHasTheBitsOfTheModelWithoutControlBlocks) {
  VaceCase zero(GetParam(), Scales::zero);
  test::PlannedRun run, plain;
  const auto with = zero.run(run);
  test::WanDitCase without(GetParam());
  without.config.vace = {};
  EXPECT_EQ(with, without.run(plain));
  EXPECT_EQ(run.arena_peak, plain.arena_peak);
  EXPECT_NE(with, VaceCase(GetParam()).run(run));
}

TEST_P(WanVace, BitsDoNotDependOnThreads) {
  VaceCase c(GetParam());
  test::PlannedRun one{.threads = 1};
  const auto a = c.run(one);
  for (const int threads : {2, 3}) {
    test::PlannedRun run{.threads = threads};
    EXPECT_EQ(a, c.run(run)) << threads << " threads";
  }
}

TEST_P(WanVace, NormsThatWriteCodesGiveTheBitsOfTwoPasses) {
  VaceCase c(GetParam());
  test::PlannedRun two{.precision = {.definitions = true, .products = Products::e4m3}}, one = two;
  ::setenv("TACHY_NORM_CODES", "0", 1);
  const auto want = c.run(two);
  ::unsetenv("TACHY_NORM_CODES");
  EXPECT_EQ(c.run(one), want);
  EXPECT_EQ(one.arena_bytes != two.arena_bytes, c.config.dim() % 8 == 0) << "codes have a place of their own";
}

// The bounds are those for every Wan transformer (wan_dit_gpu_test.cpp).
TEST_P(WanVace, OnAGpuInEachDtype) {
  if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
  const auto gpu = cuda::open_gpu();
  VaceCase c(GetParam());
  struct Kind {
    DType activation, residual;
    double bound;
  };
  for (const Kind& kind : {Kind{DType::f32, DType::f32, 2e-5}, Kind{DType::f16, DType::f32, 1e-2},
                           Kind{DType::bf16, DType::f32, 5e-2}, Kind{DType::bf16, DType::bf16, 8e-2}}) {
    test::GpuRun run{*gpu, kind.activation, kind.residual};
    auto y = c.run(run);
    const auto name = fmt::format("{}_{}", dtype_name(kind.activation), dtype_name(kind.residual));
    EXPECT_LE(c.error(y), kind.bound) << name;
    RecordProperty("error_" + name, fmt::format("{:.2e}", c.error(y)));
    EXPECT_EQ(y, c.run(run)) << name << ": another run gives other bits";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, WanVace, testing::Values("vace", "vace_every"));

// A hint is made where it is added, so further ones take only the memory of their weights.
TEST(WanVaceMemory, IsThatOfOneControl) {
  VaceCase c("vace_every");
  test::PlannedRun two, one;
  c.run(two);
  c.config.vace.layers = {0};
  c.give = [&](const WanDit& model, WanInput& in, nn::ParamStore& store) {
    in.given.put(make_control(model, c.golden["control_hidden_states"], {}, store));
  };
  c.run(one);
  EXPECT_LT(one.store_bytes, two.store_bytes);
  EXPECT_LE(two.arena_peak - one.arena_peak, 6 * 4 * static_cast<size_t>(c.config.dim()) + 64)
      << "a row of modulation";
}

TEST(WanVaceInput, ControlAndModelMustGoTogether) {
  test::PlannedRun run;
  VaceCase vace("vace_every");
  test::WanDitCase without("t2v");
  const Tensor control = vace.golden["control_hidden_states"];
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model = without.load(store);
    EXPECT_THAT(refusal_of([&] { make_control(*model, control, {}, store); }),
                HasSubstr("no control blocks"));
    const WanGrid grid = model->make_grid(3, 6, 10, store);
    WanInput in{.latents = without.golden["hidden_states"], .grid = &grid};
    in.given.put(WanControl{control, control});
    EXPECT_THAT(refusal_of([&] { model->forward(in, without.golden["sample"], stream); }),
                HasSubstr("a control video given, but the model has no branch for it"));
  });
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model = vace.load(store);
    EXPECT_THAT(refusal_of([&] {
                  make_control(*model, control, std::vector<float>{1, 1, 1}, store);
                }),
                HasSubstr("expected 2 values, got 3"));
    const WanGrid grid = model->make_grid(3, 2, 6, store);
    WanInput in{.latents = vace.golden["hidden_states"], .grid = &grid};
    const auto refused = [&] {
      return refusal_of([&] { model->forward(in, vace.golden["sample"], stream); });
    };
    EXPECT_THAT(refused(), HasSubstr("expected one, got none"));
    in.given.put(make_control(*model, vace.golden["hidden_states"], {}, store));
    EXPECT_THAT(refused(), HasSubstr("expected control_hidden_states [1, 5, 3, 2, 6]"));
  });
}

TEST(WanVaceConfigs, BothDialects) {
  const auto read = [](const char* text) {
    return WanVaceConfig::from_json(nlohmann::json::parse(text), 30);
  };
  EXPECT_EQ(read(R"({"vace_layers": [0, 2, 4], "vace_in_dim": 96})"),
            read(R"({"vace_layers": [0, 2, 4], "vace_in_channels": 96})"));
  EXPECT_FALSE(read("{}").present());
  EXPECT_EQ(read(R"({"vace_layers": [0, 5]})").hint_of(5), 1);
  EXPECT_EQ(read(R"({"vace_layers": [0, 5]})").hint_of(1), -1);
  for (const char* bad : {R"({"vace_layers": [1, 2]})", R"({"vace_layers": [0, 3, 2]})",
                          R"({"vace_layers": [0, 0]})", R"({"vace_layers": [0, 30]})"})
    EXPECT_THAT(refusal_of([&] { read(bad); }), HasSubstr("vace_layers")) << bad;
}

// The original repository has other names for the same tensors.
TEST(WanVaceNames, ThereAndBack) {
  const test::WanDitCase c("vace");
  for (const auto& entry : c.weights->entries())
    EXPECT_EQ(dit_from_original(dit_to_original(entry.name)), entry.name);
  EXPECT_EQ(dit_to_original("vace_blocks.1.proj_out.bias"), "vace_blocks.1.after_proj.bias");
  EXPECT_EQ(dit_from_original("vace_blocks.0.before_proj.weight"), "vace_blocks.0.proj_in.weight");
  EXPECT_EQ(dit_from_original("vace_blocks.0.self_attn.q.weight"), "vace_blocks.0.attn1.to_q.weight");
}

}  // namespace
}  // namespace tachy
