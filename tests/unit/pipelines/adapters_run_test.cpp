// Tests runs with adapters: merged into the weights and added to products, alone and among other runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "experts_model.h"
#include "lora_files.h"
#include "session/request_adapters.h"

namespace tachy {
namespace {

using test::furthest;
using test::kRank;
using test::LoraFile;
using test::ScratchFolder;
using test::with_loras;
using testing::HasSubstr;

std::string make_lora(const ScratchFolder& scratch, const std::string& name, unsigned seed,
                      bool delta = false) {
  return test::make_lora(test::model_path(), scratch, name, seed, delta);
}

// Returns the model with the adapter merged into its files by plain loops.
std::filesystem::path merged_by_hand(const ScratchFolder& scratch, const std::string& lora, double strength) {
  const auto folder = test::model_copy(scratch);
  const auto file = open_weights(lora);
  test::edit_weights(folder, "transformer", [&](const std::string& name, Tensor t) {
    std::string stem = "diffusion_model." + dit_to_original(name);
    if (!stem.ends_with(".weight")) return true;
    stem.resize(stem.size() - std::string(".weight").size());
    const auto *down = file->find(stem + ".lora_down.weight"), *up = file->find(stem + ".lora_up.weight");
    if (!down) return true;
    const auto *a = static_cast<const float*>(down->data), *b = static_cast<const float*>(up->data);
    for (int64_t i = 0; i < t.dim(0); ++i)
      for (int64_t j = 0; j < t.dim(1); ++j) {
        double sum = 0;
        for (int64_t k = 0; k < kRank; ++k) sum += double{b[i * kRank + k]} * double{a[k * t.dim(1) + j]};
        const int64_t at = i * t.dim(1) + j;
        if (t.dtype == DType::bf16)
          t.as<bf16_t>()[at] = to_bf16(static_cast<float>(to_float(t.as<bf16_t>()[at]) + 2 * strength * sum));
        else
          t.as<float>()[at] = static_cast<float>(t.as<float>()[at] + 2 * strength * sum);
      }
    return true;
  });
  return folder;
}

TEST(AdapterRuns, MergedIsTheModelWithMergedFiles) {
  const ScratchFolder scratch;
  const std::string lora = make_lora(scratch, "a.safetensors", 1);
  const auto none = test::run(test::model_path(), with_loras({}));
  const auto want = test::run(merged_by_hand(scratch, lora, 0.5).string(), with_loras({}));
  const double effect = furthest(want.latents, none.latents);
  ASSERT_GT(effect, 0.05);
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
    const auto merged = test::run(test::model_path(), with_loras({lora + ":0.5"}), {.weights = mode});
    EXPECT_LT(furthest(merged.latents, want.latents), effect / 500);
    const auto added =
        test::run(test::model_path(), with_loras({lora + ":0.5"}, "runtime"), {.weights = mode});
    EXPECT_LT(furthest(added.latents, want.latents), effect / 100);  // merged weights were rounded to bf16
    EXPECT_NE(added.latents, none.latents);
  }
}

TEST(AdapterRuns, NoStrengthIsNoAdapter) {
  const ScratchFolder scratch;
  const std::string lora = make_lora(scratch, "a.safetensors", 1, true);
  const auto none = test::run(test::model_path(), with_loras({}));
  for (const char* mode : {"merge", "runtime", "auto"})
    EXPECT_EQ(test::run(test::model_path(), with_loras({lora + ":0"}, mode)).latents, none.latents);
}

// An adapter that cannot be added to a product is merged, whatever the mode; plus and minus cancel.
TEST(AdapterRuns, SeveralAdaptersAddUp) {
  const ScratchFolder scratch;
  const std::string a = make_lora(scratch, "a.safetensors", 1, true),
                    b = make_lora(scratch, "b.safetensors", 2);
  const auto none = test::run(test::model_path(), with_loras({}));
  const auto both = test::run(test::model_path(), with_loras({a, b + ":-0.5"}));
  const double effect = furthest(both.latents, none.latents);
  for (const char* mode : {"runtime", "auto"})
    EXPECT_LT(
        furthest(test::run(test::model_path(), with_loras({a, b + ":-0.5"}, mode)).latents, both.latents),
        effect / 100);
  for (const char* mode : {"merge", "runtime"})
    EXPECT_LT(furthest(test::run(test::model_path(), with_loras({a, a + ":-1"}, mode)).latents, none.latents),
              effect / 100);
}

TEST(AdapterRuns, ThePlanIsWhatTheRunTakes) {
  const ScratchFolder scratch;
  const std::string lora = make_lora(scratch, "a.safetensors", 1, true);
  for (const char* how : {"merge", "runtime"})
    for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
      TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .weights = mode});
      const VideoRequest request = with_loras({lora}, how);
      const VideoPlan plan = pipeline.plan(request);
      const size_t before = Buffer::live_bytes();
      Buffer::reset_peak();
      test::run(pipeline, request);
      EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes) << how << " " << static_cast<int>(mode);
      EXPECT_EQ(Buffer::live_bytes(), before);
    }
}

// A model that stays loaded uses each request's own adapters, and gives its own bits for the next request
// without adapters.
TEST(AdapterRuns, AModelThatStaysLoadedChangesItsAdapters) {
  const ScratchFolder scratch;
  const std::string a = make_lora(scratch, "a.safetensors", 1, true),
                    b = make_lora(scratch, "b.safetensors", 2);
  for (const char* mode : {"merge", "runtime", "auto"}) {
    TextToVideo kept(ModelBundle::open(test::model_path()), {.threads = 2, .keep_loaded = true});
    const bool added = std::string(mode) != "merge";
    for (const std::vector<std::string>& loras :
         {std::vector<std::string>{}, {a}, {b}, {}, {a + ":0.25"}, {a, b}, {a}, {}}) {
      const auto alone = test::run(test::model_path(), with_loras(loras, added ? "runtime" : "merge"));
      EXPECT_EQ(test::run(kept, with_loras(loras, mode)).latents, alone.latents)
          << mode << ", " << loras.size();
    }
  }
}

TEST(AdapterRuns, ExpertsHaveAdaptersOfTheirOwn) {
  const ScratchFolder scratch;
  const auto folder = test::model_copy(scratch);
  test::make_two_experts(folder);
  const std::string lora = make_lora(scratch, "a.safetensors", 1);
  const auto run = [&](std::vector<std::string> loras, const char* mode) {
    VideoRequest r = with_loras(std::move(loras), mode);
    r.steps = 4;
    return test::run(folder.string(), r).latents;
  };
  const auto none = run({}, "merge");
  for (const char* mode : {"merge", "runtime"}) {
    const auto high = run({lora + "@high"}, mode), low = run({lora + "@low"}, mode),
               both = run({lora + "@both"}, mode);
    const std::set<std::vector<float>> all = {none, high, low, both};
    EXPECT_EQ(all.size(), 4u) << mode;
    EXPECT_EQ(run({lora + "@high", lora + "@low"}, mode), both);
  }
  try {
    run({lora}, "merge");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("add @high, @low or @both"));
  }
}

void expect_refused(const VideoRequest& request, ErrorCode code, const std::string& text) {
  try {
    TextToVideo(ModelBundle::open(test::model_path()), {.threads = 1}).plan(request);
    FAIL() << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_THAT(e.what(), HasSubstr(text));
  }
}

TEST(AdapterRuns, WhatDoesNotFitIsSaid) {
  const ScratchFolder scratch;
  const std::string lora = make_lora(scratch, "a.safetensors", 1);
  expect_refused(with_loras({"/nowhere/x.safetensors"}), ErrorCode::not_found,
                 "`loras`: /nowhere/x.safetensors");
  const auto model = test::golden_path("vace/one/transformer/diffusion_pytorch_model.safetensors");
  expect_refused(with_loras({model}), ErrorCode::invalid_argument, "this is a VACE model and no adapter");
  expect_refused(with_loras({lora + "@low"}), ErrorCode::invalid_argument, "one transformer");
  LoraFile strange(1);
  strange.add("blocks.90.attn1.to_q.lora_A.weight", {2, 24}, 1);
  strange.add("blocks.90.attn1.to_q.lora_B.weight", {24, 2}, 1);
  const auto path = (scratch.path / "strange.safetensors").string();
  write_safetensors(path, strange.tensors);
  expect_refused(with_loras({path}), ErrorCode::not_found, "layers fits the model");
  strange.add("blocks.0.attn1.to_q.diff_b",
              ModelBundle::open(test::model_path()).transformer->find("blocks.0.attn1.to_q.bias")->dims, 1);
  write_safetensors(path, strange.tensors);
  VideoRequest strict = with_loras({path});
  strict.lora_unmatched = "error";
  expect_refused(strict, ErrorCode::not_found, "1 of 2 layers do not fit");
}

// causvid-9 wants half the strength, but only for the first adapter, and not if that one has its own
// strength.
TEST(AdapterRuns, APresetSaysTheStrengthOfTheFirst) {
  const ScratchFolder scratch;
  const std::string a = make_lora(scratch, "a.safetensors", 1), b = make_lora(scratch, "b.safetensors", 2);
  const auto run = [&](std::vector<std::string> loras) {
    VideoRequest r = with_loras(std::move(loras));
    r.steps.reset(), r.preset = "causvid-9";
    return test::run(test::model_path(), r).latents;
  };
  EXPECT_EQ(run({a}), run({a + ":0.5"}));
  EXPECT_NE(run({a}), run({a + ":1"}));
  EXPECT_EQ(run({a, b}), run({a + ":0.5", b + ":1"}));
}

TEST(AdapterSpecs, PathStrengthAndExpert) {
  const auto is = [](const std::string& text, const std::string& path, double strength,
                     AdapterExpert expert) {
    const LoraSpec spec = parse_lora(text);
    EXPECT_EQ(spec.path, path) << text;
    EXPECT_EQ(spec.strength.value_or(1), strength) << text;
    EXPECT_EQ(spec.expert, expert) << text;
  };
  is("a.safetensors", "a.safetensors", 1, AdapterExpert::unsaid);
  is("a.safetensors:0.8", "a.safetensors", 0.8, AdapterExpert::unsaid);
  is("a.safetensors:-1@high", "a.safetensors", -1, AdapterExpert::high);
  is("a.safetensors:+.5@both", "a.safetensors", 0.5, AdapterExpert::both);
  is("a:b/c.safetensors", "a:b/c.safetensors", 1, AdapterExpert::unsaid);
  is("a:b", "a:b", 1, AdapterExpert::unsaid);
  is("x@low", "x", 1, AdapterExpert::low);
  is("x@home", "x@home", 1, AdapterExpert::unsaid);
  is("x:", "x:", 1, AdapterExpert::unsaid);
  for (const char* wrong : {"", "@high", ":1", "x:nan", "x:1e9", "x:inf"})
    EXPECT_THROW(parse_lora(wrong), Error) << wrong;
}

}  // namespace
}  // namespace tachy
