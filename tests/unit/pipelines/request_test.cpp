// Requests are checked before anything runs; errors name the option, the value and what would work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "resolve/resolve.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const ModelBundle& tiny() {
  static const ModelBundle model = ModelBundle::open(test::model_path());
  return model;
}

std::string refusal(const std::function<void(VideoRequest&)>& change) {
  VideoRequest request = test::short_request();
  change(request);
  try {
    resolve(tiny(), request);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << e.message();
    return e.message();
  }
  return "accepted";
}

TEST(Request, WrongValuesNameWhatWouldWork) {
  EXPECT_THAT(refusal([](auto& r) { r.width = 100; }),
              AllOf(HasSubstr("`width`"), HasSubstr("96"), HasSubstr("112")));
  EXPECT_THAT(refusal([](auto& r) { r.height = 8; }), AllOf(HasSubstr("`height`"), HasSubstr("16")));
  EXPECT_THAT(refusal([](auto& r) { r.height = 1 << 20; }), HasSubstr("16384"));
  EXPECT_THAT(refusal([](auto& r) { r.frames = 80; }),
              AllOf(HasSubstr("`frames`"), HasSubstr("77"), HasSubstr("81")));
  EXPECT_THAT(refusal([](auto& r) { r.frames = 0; }), HasSubstr("`frames`"));
  EXPECT_THAT(refusal([](auto& r) { r.frames = -3; }), HasSubstr("`frames`"));
  EXPECT_THAT(refusal([](auto& r) { r.steps = 0; }), AllOf(HasSubstr("`steps`"), HasSubstr("1 to 1000")));
  EXPECT_THAT(refusal([](auto& r) { r.guidance = NAN; }), HasSubstr("`guidance`"));
  EXPECT_THAT(refusal([](auto& r) { r.guidance = INFINITY; }), HasSubstr("`guidance`"));
  EXPECT_THAT(refusal([](auto& r) { r.guidance = -1; }), HasSubstr("`guidance`"));
  EXPECT_THAT(refusal([](auto& r) { r.shift = NAN; }), HasSubstr("`shift`"));
  EXPECT_THAT(refusal([](auto& r) { r.shift = 0; }), HasSubstr("`shift`"));
  EXPECT_THAT(refusal([](auto& r) { r.fps = NAN; }), HasSubstr("`fps`"));
  EXPECT_THAT(refusal([](auto& r) { r.sampler = "foo"; }),
              AllOf(HasSubstr("foo"), HasSubstr("unipc"), HasSubstr("dpm++")));
  EXPECT_THAT(refusal([](auto& r) { r.grid = "foo"; }), AllOf(HasSubstr("foo"), HasSubstr("original")));
  EXPECT_THAT(refusal([](auto& r) { r.rng = "foo"; }), AllOf(HasSubstr("foo"), HasSubstr("cuda")));
  EXPECT_THAT(refusal([](auto& r) { r.max_text_tokens = 0; }), HasSubstr("`max_text_tokens`"));
  EXPECT_THAT(refusal([](auto& r) { r.rng_multiprocessors = 0; }), HasSubstr("`rng_multiprocessors`"));
  EXPECT_THAT(refusal([](auto& r) { r.init_latents.resize(7); }),
              AllOf(HasSubstr("`init_latents`"), HasSubstr("[16, 2, 2, 4]")));
}

TEST(Request, DefaultsComeFromTheModel) {
  VideoRequest request;
  request.prompt = "x";
  const Resolved r = resolve(tiny(), request);
  EXPECT_EQ(*r.request.width, 32);
  EXPECT_EQ(*r.request.height, 16);
  EXPECT_EQ(*r.request.frames, 5);
  EXPECT_EQ(*r.request.steps, 2);
  EXPECT_EQ(*r.request.fps, 8);
  EXPECT_EQ(*r.request.guidance, 4);
  EXPECT_EQ(*r.request.shift, 3);
  EXPECT_EQ(*r.request.negative_prompt, "ugly");
  EXPECT_EQ(*r.request.sampler, "unipc");
  EXPECT_EQ(*r.request.grid, "diffusers");
  EXPECT_TRUE(r.guided);
  EXPECT_EQ(r.latent_frames, 2);
  const ModelBundle original = ModelBundle::open(test::model_path(true));
  const Resolved o = resolve(original, request);
  EXPECT_EQ(*o.request.grid, "original");
  EXPECT_EQ(*o.request.frames, 81);
  EXPECT_EQ(*o.request.width, 832);
  EXPECT_THAT(*o.request.negative_prompt, HasSubstr("静态"));
}

TEST(Request, NearestSizesWorkIndeed) {
  for (const int frames : {77, 81, 1}) {
    VideoRequest request = test::short_request();
    request.frames = frames, request.width = 96, request.height = 112;
    EXPECT_EQ(resolve(tiny(), request).latent_frames, (frames - 1) / 4 + 1);
  }
}

}  // namespace
}  // namespace tachy
