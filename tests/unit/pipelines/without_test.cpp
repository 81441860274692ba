// Tests that each optimisation can be switched off by itself: the run takes another path, as the record of
// its implementations shows, does what its plan says, and gives the same latents within rounding (the same
// bits if only the order of the work changes).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ops/implementations.h"
#include "ops/op_case.h"
#include "recording_device.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

using Calls = std::map<std::string, int64_t>;  // numbers of calls in the denoise stage, by "op
                                               // implementation" and by "op"

struct Outcome {
  Calls calls;
  std::vector<float> latents;
  VideoPlan plan;
  int reused = 0;
};

VideoRequest guided(std::vector<std::string> without = {}) {
  VideoRequest r = test::short_request();
  r.negative_prompt = "ugly and long", r.guidance = 5.0, r.steps = 4, r.seed = 3;
  r.without = std::move(without);
  return r;
}

Outcome outcome(const VideoRequest& request, TextToVideo::Options options = {}) {
  options.threads = 2;
  TextToVideo pipeline(ModelBundle::open(test::model_path()), options);
  Outcome out;
  test::Result result;
  VideoCallbacks callbacks;
  callbacks.picks = [&](const std::string& stage, const std::vector<ops::OpPick>& picks) {
    for (const ops::OpPick& p : picks) {
      EXPECT_EQ(p.why, "") << p.op << " " << p.impl << " was not planned";
      if (stage == "denoise") out.calls[p.op + " " + p.impl] += p.calls, out.calls[p.op] += p.calls;
    }
  };
  out.plan = pipeline.plan(request);
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  out.reused = pipeline.generate(request, test::collecting(result, callbacks)).steps_reused;
  if (!options.memory) EXPECT_EQ(Buffer::peak_bytes() - before, out.plan.peak_bytes) << "the plan is exact";
  out.latents = std::move(result.latents);
  return out;
}

int64_t calls(const Outcome& o, const std::string& name) {
  const auto at = o.calls.find(name);
  return at == o.calls.end() ? 0 : at->second;
}

double apart(const Outcome& a, const Outcome& b) {
  double highest = 0;
  for (const float x : a.latents) highest = std::max(highest, std::abs(double{x}));
  return test::furthest(a.latents, b.latents) / highest;
}

constexpr double kRounding = 1e-5;  // the same bound as between levels none and safe

uint64_t denoise_bytes(const Outcome& o) {
  for (const StagePlan& s : o.plan.stages)
    if (s.name == "denoise") return s.weight_bytes;
  return 0;
}

class WithoutOne : public testing::Test {
 protected:
  // Runs with all optimisations, and without `name`.
  void compare(const std::string& name) { all_ = outcome(guided()), without_ = outcome(guided({name})); }
  int64_t more(const std::string& op) { return calls(without_, op) - calls(all_, op); }
  Outcome all_, without_;
};

// The counts come from 2 blocks, 4 steps and 2 branches of guidance.
TEST_F(WithoutOne, BatchedGuidance) {
  compare("batched-guidance");
  EXPECT_EQ(calls(all_, "patchify"), 4);
  EXPECT_EQ(calls(without_, "patchify"), 8) << "a pass a branch";
  EXPECT_EQ(without_.latents, all_.latents) << "rows know nothing of one another";
}

TEST_F(WithoutOne, FewKeys) {
  compare("few-keys");
  EXPECT_GT(denoise_bytes(without_), denoise_bytes(all_)) << "keys and values of 512 rows";
  EXPECT_LT(apart(all_, without_), kRounding);
  EXPECT_NE(all_.latents, without_.latents) << "the same sums";
}

TEST_F(WithoutOne, JoinedQkv) {
  compare("joined-qkv");
  EXPECT_EQ(more("gemm"), 2 * 2 * 4) << "three products of one, in each block and step";
  EXPECT_LT(apart(all_, without_), kRounding);
}

TEST_F(WithoutOne, FusedNorms) {
  compare("fused-norms");
  EXPECT_GT(calls(all_, "add_norm"), 0);
  EXPECT_EQ(calls(without_, "add_norm"), 0);
  EXPECT_EQ(more("gated_residual"), calls(all_, "add_norm"));
  EXPECT_EQ(more("layernorm_modulate"), calls(all_, "add_norm"));
  EXPECT_LT(apart(all_, without_), kRounding);
}

TEST_F(WithoutOne, FusedRope) {
  compare("fused-rope");
  EXPECT_EQ(calls(all_, "rope"), 0);
  EXPECT_EQ(calls(without_, "rope"), 2 * 2 * 4) << "of q and of k";
  EXPECT_EQ(more("qk_norm_rope"), -2 * 2 * 4) << "that of self-attention and the cross-attention's queries";
  EXPECT_EQ(more("rmsnorm"), 3 * 2 * 4);
  EXPECT_LT(apart(all_, without_), kRounding);
  EXPECT_NE(all_.latents, without_.latents) << "the scale is in another place";
}

TEST_F(WithoutOne, FusedActivations) {
  compare("fused-activations");
  EXPECT_EQ(more("activation"), 2 * 4);
  EXPECT_LT(apart(all_, without_), kRounding);
}

TEST_F(WithoutOne, FusedBlockIsItsMembers) {
  compare("fused-block");
  const Outcome one_by_one =
      outcome(guided({"joined-qkv,fused-norms", "fused-rope, fused-activations", "norm-codes"}));
  EXPECT_EQ(without_.calls, one_by_one.calls);
  EXPECT_EQ(without_.latents, one_by_one.latents);
  EXPECT_EQ(calls(without_, "add_norm"), 0);
  EXPECT_LT(apart(all_, without_), kRounding);
}

TEST_F(WithoutOne, StepCacheWhateverTheLevelOrTheRequestSays) {
  VideoRequest request = guided();
  request.steps = 20, request.step_cache = 0.3;
  EXPECT_GT(outcome(request).reused, 0);
  request.without = {"step-cache"};
  const Outcome off = outcome(request);
  EXPECT_EQ(off.reused, 0);
  request.without.clear(), request.step_cache = 0;
  EXPECT_EQ(off.latents, outcome(request).latents);
}

TEST_F(WithoutOne, Graphs) {
  const auto captured = [](std::vector<std::string> without, std::vector<float>& latents) {
    const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
    TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .memory = device});
    latents = test::run(pipeline, guided(std::move(without))).latents;
    return pipeline.counters().captured;
  };
  std::vector<float> with, without;
  EXPECT_GT(captured({}, with), 0);
  EXPECT_EQ(captured({"graphs"}, without), 0);
  EXPECT_EQ(with, without);
}

// If a profiler keeps graphs on (--nvtx), the run has graphs; with any other profiler, each range's work is
// queued inside the range.
TEST_F(WithoutOne, WhoeverWatchesDecidesAboutGraphs) {
  struct Watching final : Profiler {
    explicit Watching(bool keeps) : keeps_(keeps) {}
    uint64_t begin(const char*, ProfileKind, int64_t) override { return static_cast<uint64_t>(++begun_); }
    void end(uint64_t) override { ++ended_; }
    bool keeps_graphs() const override { return keeps_; }
    bool keeps_;
    std::atomic<int> begun_{0}, ended_{0};
  };
  for (const bool keeps : {false, true}) {
    const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
    TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .memory = device});
    Watching watching(keeps);
    VideoCallbacks callbacks;
    callbacks.profiler = &watching;
    test::run(pipeline, guided(), callbacks);
    EXPECT_EQ(pipeline.counters().captured > 0, keeps);
    EXPECT_GT(watching.begun_, 10);
    EXPECT_EQ(watching.begun_, watching.ended_);
  }
}

// Without a kernel the op's other implementations remain, at last the definition.
TEST_F(WithoutOne, AKernelOfEachOpThatARunUses) {
  all_ = outcome(guided());
  int tried = 0;
  for (const ops::OpImplementations& op : ops::all_implementations())
    for (const std::string& impl : op.names) {
      if (impl == "ref" || calls(all_, op.op + " " + impl) == 0) continue;
      without_ = outcome(guided({op.op + ":" + impl}));
      EXPECT_EQ(calls(without_, op.op + " " + impl), 0) << op.op;
      EXPECT_GE(calls(without_, op.op), calls(all_, op.op)) << op.op;
      EXPECT_LT(apart(all_, without_), 10 * kRounding) << op.op << ":" << impl;
      ++tried;
    }
  EXPECT_GE(tried, 8);
}

// These names only have a meaning on a GPU, where no test has run them yet: they change nothing here.
TEST_F(WithoutOne, WhatThisDeviceHasNot) {
  for (const char* name : {"kernel-overlap", "norm-codes"}) {
    compare(name);
    EXPECT_EQ(without_.calls, all_.calls) << name;
    EXPECT_EQ(without_.latents, all_.latents) << name;
  }
}

TEST(Without, SaysWhatThereIs) {
  const auto refusal = [](const char* name) -> std::string {
    try {
      outcome(guided({name}));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.message();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal("speed"), HasSubstr("`without`: expected batched-guidance, few-keys"));
  EXPECT_THAT(refusal("speed"), HasSubstr("'speed'"));
  EXPECT_THAT(refusal("attention:fast"),
              HasSubstr("no implementation is named 'attention:fast'; attention has "));
  EXPECT_THAT(refusal("attention:fast"), HasSubstr("flash_sm90"));
  EXPECT_THAT(refusal("attention:ref"), HasSubstr("definition"));
  EXPECT_THAT(refusal("attend:cpu"), HasSubstr("no op is named 'attend'"));
}

TEST(Without, NamesAreKeptOnceAndOneByOne) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  const auto kept = [&](std::vector<std::string> names) {
    return pipeline.resolved(guided(std::move(names))).request.without;
  };
  EXPECT_THAT(kept({"few-keys, graphs", "few-keys"}), testing::ElementsAre("few-keys", "graphs"));
  EXPECT_THAT(kept({"nothing"}), testing::IsEmpty()) << "takes back what the settings of another run say";
}

// The list in which names are looked up is made from the ops' headers, and has everything that the ops' cases
// have.
TEST(Without, KnowsEveryImplementation) {
  ASSERT_GE(ops::all_implementations().size(), 39u);
  for (const ops::OpImplementations& op : ops::all_implementations()) {
    EXPECT_THAT(op.names, testing::Contains("ref")) << op.op;
    for (const std::string& impl : op.names)
      if (impl != "ref") {
        const std::string name = op.op + ":" + impl;
        EXPECT_TRUE(ops::parse_without(std::span(&name, 1)).kernel(op.op, impl)) << name;
      }
  }
}

}  // namespace
}  // namespace tachy
