// Tests every kind of video with its passes divided among ranks: it has the bits of a single rank, within the plan.
// With keys that go round it has nearly the same values, and what cannot be divided is refused by name. The
// tests here take a few counts of ranks; those of `make test-ranks` are disabled otherwise and take all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experts_model.h"
#include "image_model.h"
#include "lora_files.h"
#include "talk_model.h"

namespace tachy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A kind of video: opens its model, and makes one video.
struct Family {
  std::string name;
  std::function<ModelBundle()> open;
  std::function<test::Result(TextToVideo&)> make;
  std::function<Resolved(TextToVideo&)> resolve;
};

Family family(const std::string& name, const std::string& model, const VideoRequest& request) {
  return {.name = name,
          .open = [model] { return ModelBundle::open(model); },
          .make = [request](TextToVideo& pipeline) { return test::run(pipeline, request); },
          .resolve = [request](TextToVideo& pipeline) { return pipeline.resolved(request); }};
}

VideoRequest guided(double scale = 5) {
  VideoRequest r = test::short_request();
  r.guidance = scale;
  return r;
}

VideoRequest by_blocks(int64_t window) {
  VideoRequest r = test::golden_request();
  r.frames = 21, r.width = 48, r.height = 32, r.seed = 7, r.guidance = 1.0, r.block = 2,
  r.block_window = window;
  r.sampler = "self-forcing-4", r.steps.reset(), r.shift.reset();
  return r;
}

VideoRequest sparse(const std::string& chooser) {
  VideoRequest r = guided();
  r.width = 224, r.height = 160, r.frames = 13, r.steps = 3;
  r.sparse_attention = 0.4, r.sparse_chooser = chooser, r.sparse_dense_steps = 1;
  return r;
}

Family talk(const std::string& name, int64_t frames) {
  return {.name = name,
          .open = [] { return test::talk_model().open(); },
          .make = [frames](TextToVideo& p) { return test::talk(p, test::talk_request(frames)); },
          .resolve =
              [frames](TextToVideo& p) {
                Resolved r = p.resolved(test::talk_request(frames));
                r.speech = r.request.speech->samples;
                return r;
              }};
}

Family two_speakers() {
  return {.name = "two speakers",
          .open = [] { return test::talk_model().open(); },
          .make = [](TextToVideo& p) { return test::talk_of_two(p, test::two_talk(9)); },
          .resolve = [](TextToVideo& p) { return test::complete(p, p.resolved(test::two_talk(9))); }};
}

const std::string& adapter() {
  static const test::ScratchFolder scratch;
  static const std::string path = test::make_lora(test::model_path(), scratch, "a.safetensors", 1);
  return path;
}

// The kinds that are quick, or that only this file tries.
std::vector<Family> few_families() {
  return {
      talk("a talking photo", 9), two_speakers(), family("blocks", test::model_path(), by_blocks(4)),
      family("an adapter beside the weights", test::model_path(), test::with_loras({adapter()}, "runtime"))};
}

std::vector<Family> all_families() {
  std::vector<Family> out = few_families();
  out.push_back(family("text", test::model_path(), guided()));
  out.push_back(family("text without guidance", test::model_path(), guided(1)));
  for (const std::string& name : test::image_runs()) {
    const test::ImageRun run = test::image_run(name);
    out.push_back(family(name, run.model, run.request));
  }
  const test::ExpertsRun experts = test::experts_run("t2v_unipc");
  out.push_back(family("experts", experts.model, experts.request));
  VideoRequest windows = guided();
  windows.frames = 33, windows.windows = "static", windows.window_frames = 17, windows.window_overlap = 8;
  out.push_back(family("windows", test::model_path(), windows));
  out.push_back(talk("a talking photo in windows", 24));
  out.push_back(family("blocks that see all", test::model_path(), by_blocks(0)));
  for (const char* chooser : {"top-k", "sliding-tile"})
    out.push_back(family(std::string("sparse, ") + chooser, test::model_path(), sparse(chooser)));
  out.push_back(family("a merged adapter", test::model_path(), test::with_loras({adapter()})));
  return out;
}

void expect_bits_of_one(const Family& f, std::initializer_list<int> counts) {
  TextToVideo alone(f.open(), {.threads = 2});
  const test::Result one = f.make(alone);
  for (const int ranks : counts) {
    TextToVideo pipeline(f.open(), {.threads = 2, .ranks = ranks});
    const VideoPlan plan = pipeline.prepare(f.resolve(pipeline)).plan;
    const size_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    const test::Result divided = f.make(pipeline);
    EXPECT_EQ(divided.latents, one.latents) << f.name << ", " << ranks << " ranks";
    EXPECT_EQ(divided.rgb, one.rgb) << f.name;
    EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes) << f.name << ", " << ranks << " ranks";
    EXPECT_EQ(plan.parallel.ring, ranks == 1 ? 0 : 1);
  }
}

TEST(RankFamilies, AFewHaveTheBitsOfOne) {
  for (const Family& f : few_families()) expect_bits_of_one(f, {2, 3});
}

// Run by `make test-ranks`.
TEST(RankFamilies, DISABLED_EachHasTheBitsOfOne) {
  for (const Family& f : all_families()) expect_bits_of_one(f, {1, 2, 3, 4, 8});
}

// Runs with `parallel`, and compares with one rank: the bits are equal, or the values are near.
void expect_like_one(const Family& f, const Parallel& parallel) {
  TextToVideo alone(f.open(), {.threads = 2}),
      pipeline(f.open(), {.threads = 2, .ranks = parallel.ranks(), .parallel = parallel});
  const test::Result one = f.make(alone);
  const VideoPlan plan = pipeline.prepare(f.resolve(pipeline)).plan;
  EXPECT_EQ(plan.parallel.text(), parallel.text());
  EXPECT_EQ(plan.ranks.size(), static_cast<size_t>(parallel.ranks()));
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  const test::Result divided = f.make(pipeline);
  EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes) << f.name << ", " << parallel.text();
  if (parallel.keeps_bits()) {
    EXPECT_EQ(divided.latents, one.latents) << f.name << ", " << parallel.text();
    return;
  }
  EXPECT_NE(divided.latents, one.latents) << f.name << ": the keys did not go round";
  EXPECT_LE(test::furthest(divided.latents, one.latents), 2e-3) << f.name << ", " << parallel.text();
}

TEST(RankLayouts, AreWhatIsAskedFor) {
  const Family text = family("text", test::model_path(), guided());
  for (const Parallel& p : {Parallel{2, 2, 1}, Parallel{1, 4, 1}, Parallel{2, 1, 2}, Parallel{1, 2, 2}})
    expect_like_one(text, p);
}

// Run by `make test-ranks`.
TEST(RankLayouts, DISABLED_OfEveryKindWhoseKeysMayGoRound) {
  for (const Family& f : all_families()) {
    if (f.name.starts_with("blocks") || f.name.starts_with("sparse")) continue;
    for (const Parallel& p : {Parallel{1, 1, 2}, Parallel{1, 2, 2}, Parallel{1, 1, 3}}) expect_like_one(f, p);
  }
}

std::string refusal(const VideoRequest& request, const Parallel& parallel) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 1, .ranks = parallel.ranks(), .parallel = parallel});
  try {
    pipeline.plan(request);
  } catch (const Error& e) {
    return e.message();
  }
  return "nothing";
}

TEST(RankLayouts, WhatCannotBeDividedSoIsTold) {
  EXPECT_THAT(refusal(guided(1), {2, 1, 1}), AllOf(HasSubstr("cfg=2"), HasSubstr("this request has 1")));
  EXPECT_THAT(refusal(guided(), {1, 8, 2}), HasSubstr("16 ranks are to divide what"));
  EXPECT_THAT(refusal(by_blocks(4), {1, 1, 2}),
              HasSubstr("a video that is made block by block cannot go round"));
  EXPECT_THAT(refusal(sparse("top-k"), {1, 1, 2}), HasSubstr("`sparse_attention`"));
}

TEST(RankLayouts, ThePlanSaysWhy) {
  const auto why = [](const VideoRequest& request, int ranks) {
    TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 1, .ranks = ranks});
    const VideoPlan plan = pipeline.plan(request);
    return plan.parallel.text() + ": " + plan.parallel_why;
  };
  EXPECT_THAT(why(guided(), 4), AllOf(HasSubstr("cfg=2,ulysses=2,ring=1"), HasSubstr("branches come first")));
  EXPECT_THAT(why(guided(1), 2), AllOf(HasSubstr("cfg=1,ulysses=2"), HasSubstr("one branch")));
  EXPECT_THAT(why(guided(), 3), HasSubstr("no divisor in common with 3 ranks"));
}

}  // namespace
}  // namespace tachy
