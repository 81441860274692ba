// A run that resumes from the state of any of its steps gives the bits of an uninterrupted run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host_device.h"
#include "image_model.h"
#include "session/fingerprint.h"

namespace tachy {
namespace {

using testing::HasSubstr;

RunState copy_of(const RunStateView& view) {
  RunState out{view.step, {view.latents.begin(), view.latents.end()}, {}, view.generator};
  for (const auto& tensor : view.solver) out.solver.emplace_back(tensor.begin(), tensor.end());
  return out;
}

struct Watched {
  test::Result result;
  std::vector<RunState> states;
};

Watched watch(const std::string& model, const VideoRequest& request) {
  Watched out;
  TextToVideo pipeline(ModelBundle::open(model), {.threads = 2});
  VideoCallbacks callbacks;
  callbacks.state = [&](const RunStateView& view) {
    out.states.push_back(copy_of(view));
    EXPECT_EQ(view.step, static_cast<int64_t>(out.states.size()));
    EXPECT_LE(view.step, view.steps);
  };
  out.result = test::run(pipeline, request, callbacks);
  return out;
}

// Makes the rest of the run, with another object and another number of threads.
test::Result go_on(const std::string& model, const VideoRequest& request, const RunState& state) {
  TextToVideo pipeline(ModelBundle::open(model), {.threads = 1, .weights = WeightMode::mapped});
  test::Result out;
  VideoCallbacks callbacks;
  callbacks.frame = [&](const RgbImage& image, int64_t) {
    out.rgb.insert(out.rgb.end(), image.rgb.begin(), image.rgb.end());
  };
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t>) {
    out.latents.assign(values.begin(), values.end());
  };
  callbacks.progress = [&](const Progress& p) {
    if (p.stage == "denoise") {
      EXPECT_GE(p.done, state.step);
    }
  };
  pipeline.generate(request, callbacks, &state);
  return out;
}

TEST(Resume, EverySamplerFromEveryStep) {
  VideoRequest request = test::short_request();
  request.steps = 5;
  for (const char* sampler : {"unipc", "euler", "dpm++", "dpm++_sde", "lcm", "self-forcing-4", "fastwan-3"})
    for (const char* rng : {"cpu", "cuda"}) {
      request.sampler = sampler, request.rng = rng;
      const Watched whole = watch(test::model_path(), request);
      ASSERT_GE(whole.states.size(), 3u);
      for (const RunState& state : whole.states) {
        const test::Result rest = go_on(test::model_path(), request, state);
        EXPECT_EQ(rest.latents, whole.result.latents) << sampler << " after step " << state.step;
        EXPECT_EQ(rest.rgb, whole.result.rgb) << sampler << " after step " << state.step;
      }
    }
}

TEST(Resume, OnlyStatesThatAreWanted) {
  VideoRequest request = test::short_request();
  request.steps = 4;
  std::vector<int64_t> asked, got;
  VideoCallbacks callbacks;
  callbacks.wants_state = [&](const RunPlace& place) {
    EXPECT_EQ(place.steps, 4);
    EXPECT_EQ(place.windows, 1);
    asked.push_back(place.step);
    return place.step % 2 == 0;
  };
  callbacks.state = [&](const RunStateView& view) { got.push_back(view.step); };
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  test::run(pipeline, request, callbacks);
  EXPECT_EQ(asked, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(got, (std::vector<int64_t>{2, 4}));
}

TEST(Resume, ImageToVideo) {
  for (const char* name : {"ti2v_unipc", "i2v_unipc", "flf2v_euler", "i2v22_last"}) {
    test::ImageRun run = test::image_run(name);
    run.request.steps = 4;
    const Watched whole = watch(run.model, run.request);
    for (const RunState& state : whole.states) {
      const test::Result rest = go_on(run.model, run.request, state);
      EXPECT_EQ(rest.latents, whole.result.latents) << name << " after step " << state.step;
      EXPECT_EQ(rest.rgb, whole.result.rgb) << name << " after step " << state.step;
    }
  }
}

// A step that reuses the last output has only its first branch; the other branches are fresh memory, which
// holds NaN here.
TEST(Resume, AtAStepThatReusesTheLastOutput) {
  VideoRequest request = test::short_request();
  request.steps = 6, request.guidance = 5, request.step_cache = 1;
  const Watched whole = watch(test::model_path(), request);
  for (const RunState& state : whole.states) {
    TextToVideo pipeline(ModelBundle::open(test::model_path()),
                         {.threads = 1, .memory = std::make_shared<test::HostDevice>(size_t{1} << 30)});
    std::vector<float> latents;
    VideoCallbacks callbacks;
    callbacks.latents = [&](std::span<const float> values, std::span<const int64_t>) {
      latents.assign(values.begin(), values.end());
    };
    EXPECT_NO_THROW(pipeline.generate(request, callbacks, &state)) << "after step " << state.step;
    EXPECT_EQ(latents, whole.result.latents) << "after step " << state.step;
  }
}

// Every part of a state matters: without the sampler's history or the generator, the result differs.
TEST(Resume, EveryPartOfTheStateIsUsed) {
  VideoRequest request = test::short_request();
  request.steps = 5, request.sampler = "unipc";
  const Watched unipc = watch(test::model_path(), request);
  RunState state = unipc.states[2];
  for (auto& tensor : state.solver) std::fill(tensor.begin(), tensor.end(), 0.0f);
  EXPECT_NE(go_on(test::model_path(), request, state).latents, unipc.result.latents);
  request.sampler = "lcm";
  const Watched lcm = watch(test::model_path(), request);
  state = lcm.states[2];
  state.generator = lcm.states[0].generator;
  EXPECT_NE(go_on(test::model_path(), request, state).latents, lcm.result.latents);
}

TEST(Resume, StatesThatDoNotFitAreRefused) {
  VideoRequest request = test::short_request();
  request.steps = 3;
  const Watched whole = watch(test::model_path(), request);
  const auto refused = [&](const std::function<void(RunState&)>& change) {
    RunState state = whole.states[1];
    change(state);
    try {
      go_on(test::model_path(), request, state);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::corrupt) << e.message();
      return e.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused([](RunState& s) { s.step = 0; }), HasSubstr("step 0"));
  EXPECT_THAT(refused([](RunState& s) { s.step = 4; }), HasSubstr("4 of 3"));
  EXPECT_THAT(refused([](RunState& s) { s.latents.pop_back(); }), HasSubstr("latents"));
  EXPECT_THAT(refused([](RunState& s) { s.latents[5] = NAN; }), HasSubstr("finite"));
  EXPECT_THAT(refused([](RunState& s) { s.solver.pop_back(); }), HasSubstr("sampler"));
  EXPECT_THAT(refused([](RunState& s) { s.solver[0].push_back(0); }), HasSubstr("sampler"));
  EXPECT_THAT(refused([](RunState& s) { s.solver[1][0] = INFINITY; }), HasSubstr("sampler"));
  EXPECT_THAT(refused([](RunState& s) { s.generator.pop_back(); }), HasSubstr("generator"));
  EXPECT_THAT(refused([](RunState& s) { s.generator[624 * 4 + 2] = 1; }), HasSubstr("damaged"));
}

TEST(Fingerprint, ChangesWithTheFilesAlone) {
  const test::ScratchFolder scratch;
  const auto folder = test::model_copy(scratch);
  const std::string want = fingerprint(ModelBundle::open(test::model_path()));
  EXPECT_EQ(want.size(), 64u);
  EXPECT_EQ(fingerprint(ModelBundle::open(folder)), want) << "the place plays no part";
  test::edit_weights(folder, "vae", [](const std::string& name, Tensor t) {
    if (name == "decoder.conv_out.bias") static_cast<uint8_t*>(t.data)[0] ^= 1;
    return true;
  });
  EXPECT_NE(fingerprint(ModelBundle::open(folder)), want);
}

}  // namespace
}  // namespace tachy
