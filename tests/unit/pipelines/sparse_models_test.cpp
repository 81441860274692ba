// Tests block-sparse attention of the models that are more than one transformer of a clip: image-to-video
// with channels, with a CLIP branch and with a given first frame, and two experts. tests/reference/sparse.py
// compares what is left out with PyTorch. The tests here show that the order of the tokens also applies to
// everything that comes from a picture, both experts leave keys out, the dense steps are counted over the
// run, the plan is exact, and a run can be resumed in either part.
#include <gtest/gtest.h>

#include <map>

#include "experts_model.h"

namespace tachy {
namespace {

struct SparseModel {
  std::string model;
  VideoRequest request;
};

// 13 frames make 4 latent frames of 10 x 14 tokens: 560 tokens, five blocks. Two of six steps are dense.
SparseModel sparse_model(const std::string& name) {
  SparseModel out;
  const auto take = [&](const auto& run) { out = {run.model, run.request}; };
  name.starts_with("experts_") ? take(test::experts_run(name.substr(8))) : take(test::image_run(name));
  VideoRequest& r = out.request;
  const int token = name.starts_with("ti2v") ? 32 : 16;  // pixels
  r.width = 14 * token, r.height = 10 * token, r.frames = 13, r.steps = 6;
  if (r.image) r.image = test::picture(test::image_file("first.png"), r);
  r.sparse_attention = 0.4, r.sparse_chooser = "top-k", r.sparse_dense_steps = 2;
  return out;
}

int64_t calls_of(const std::vector<ops::OpPick>& picks, const std::string& op) {
  int64_t calls = 0;
  for (const ops::OpPick& pick : picks) calls += pick.op == op ? pick.calls : 0;
  return calls;
}

class SparseModels : public testing::TestWithParam<std::string> {};

// If all blocks are listed, only the order of tokens remains, which changes nothing but rounding. If the
// picture's channels, its frame's timesteps or an expert's tables had another order, the video would differ.
TEST_P(SparseModels, OfEverythingIsDense) {
  SparseModel m = sparse_model(GetParam());
  const auto some = test::run(m.model, m.request).latents;
  m.request.sparse_attention = 1, m.request.sparse_dense_steps = 0;
  const auto all = test::run(m.model, m.request).latents;
  m.request.sparse_attention = 0;
  const auto dense = test::run(m.model, m.request).latents;
  EXPECT_LT(test::furthest(all, dense), 2e-4);
  EXPECT_GT(test::furthest(some, dense), 1e-3) << "keys are left out";
}

TEST_P(SparseModels, PlanIsExactAndTheDenseStepsAreTheRuns) {
  SparseModel m = sparse_model(GetParam());
  std::map<int, int64_t> chosen;  // number of calls by the number of dense steps
  for (const int dense_steps : {0, 2, 6}) {
    m.request.sparse_dense_steps = dense_steps;
    TextToVideo pipeline(ModelBundle::open(m.model), {.threads = 2});
    const VideoPlan plan = pipeline.plan(m.request);
    int64_t planned = 0, ran = 0;
    for (const StagePlan& stage : plan.stages) planned += calls_of(stage.picks, "choose_blocks");
    VideoCallbacks callbacks;
    callbacks.picks = [&](const std::string&, const auto& picks) { ran += calls_of(picks, "choose_blocks"); };
    const size_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    test::run(pipeline, m.request, callbacks);
    EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes) << dense_steps << " dense steps";
    EXPECT_EQ(ran, planned) << dense_steps << " dense steps";
    chosen[dense_steps] = planned;
  }
  EXPECT_GT(chosen[0], 0);
  EXPECT_EQ(chosen[2] * 6, chosen[0] * 4) << "in four of six steps, whichever expert's they are";
  EXPECT_EQ(chosen[6], 0);
}

// Each expert's Denoiser makes its own lists of blocks.
TEST_P(SparseModels, GoesOnInTheMiddle) {
  SparseModel m = sparse_model(GetParam());
  m.request.sparse_chooser = "sliding-tile";
  std::vector<RunState> states;
  VideoCallbacks callbacks;
  callbacks.state = [&](const RunStateView& v) {
    RunState& s = states.emplace_back();
    s.step = v.step, s.latents.assign(v.latents.begin(), v.latents.end()), s.generator = v.generator;
    for (const auto& t : v.solver) s.solver.emplace_back(t.begin(), t.end());
  };
  TextToVideo pipeline(ModelBundle::open(m.model), {.threads = 2});
  const auto whole = test::run(pipeline, m.request, callbacks);
  ASSERT_EQ(states.size(), 6u);
  for (const size_t i : {size_t{0}, size_t{3}}) {  // one state before a dense step, and one long after
    std::vector<float> latents;
    VideoCallbacks rest;
    rest.latents = [&](std::span<const float> values, std::span<const int64_t>) {
      latents.assign(values.begin(), values.end());
    };
    TextToVideo other(ModelBundle::open(m.model), {.threads = 3});
    other.generate(m.request, rest, &states[i]);
    EXPECT_EQ(latents, whole.latents) << "after step " << states[i].step << ", by three threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SparseModels,
                         testing::Values("ti2v_unipc", "i2v_unipc", "i2v22_unipc", "experts_t2v_unipc",
                                         "experts_i2v_unipc"),
                         [](const auto& info) { return info.param; });

// Each expert leaves keys out: if the steps up to the change are dense, only the second one does.
TEST(SparseExperts, BothLeaveKeysOut) {
  SparseModel m = sparse_model("experts_t2v_unipc");
  const auto latents = [&](double share, int dense_steps) {
    m.request.sparse_attention = share, m.request.sparse_dense_steps = dense_steps;
    return test::run(m.model, m.request).latents;
  };
  // Timesteps fall, and from some step on the second expert predicts.
  TextToVideo pipeline(ModelBundle::open(m.model), {.threads = 2});
  VideoRequest dense = m.request;
  dense.sparse_attention = 0;
  int loads = 0, change = 0;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    loads += p.stage == "load" && p.done == 0;
    if (p.stage == "denoise" && loads < 2) change = static_cast<int>(p.done);
  };
  const auto usual = test::run(pipeline, dense, callbacks).latents;
  ASSERT_GT(change, 0);
  ASSERT_LT(change, 6);
  const auto second = latents(0.4, change), both = latents(0.4, 0);
  EXPECT_GT(test::furthest(second, usual), 1e-4) << "the second one";
  EXPECT_GT(test::furthest(both, second), 1e-4) << "and the first one, too";
}

}  // namespace
}  // namespace tachy
