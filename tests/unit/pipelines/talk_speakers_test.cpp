// Tests two people who talk in one picture: the plan is exact, it matters what each says and where each is,
// and mistakes are reported. report/infinitetalk_test.cpp compares the values with InfiniteTalk's own code,
// and tests/reference/talk.py compares whole runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "request/speakers.h"
#include "resolve/resolve.h"
#include "talk_model.h"

namespace tachy {
namespace {

using test::talk_request;
using testing::AllOf;
using testing::HasSubstr;

VideoRequest two(int64_t frames) { return test::two_talk(frames); }
using test::complete, test::talk_of_two;

TEST(TalkOfTwo, PlanIsExact) {
  for (const int64_t frames : {7, 24})
    for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped})
      for (const double guidance : {1.0, 3.0}) {
        VideoRequest request = two(frames);
        request.guidance = guidance;
        TextToVideo pipeline(test::talk_model().open(), {.threads = 2, .weights = mode});
        const VideoPlan plan = pipeline.prepare(complete(pipeline, pipeline.resolved(request))).plan;
        const size_t before = Buffer::live_bytes();
        Buffer::reset_peak();
        EXPECT_EQ(talk_of_two(pipeline, request).frames, frames);
        EXPECT_EQ(Buffer::live_bytes(), before);
        EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes)
            << frames << " frames, guidance " << guidance;
      }
}

TEST(TalkOfTwo, BitsDoNotDependOnThreadsWeightsOrRepetition) {
  const VideoRequest request = two(16);
  TextToVideo kept(test::talk_model().open(), {.threads = 1, .keep_loaded = true});
  const test::Result first = talk_of_two(kept, request);
  EXPECT_EQ(first.rgb, talk_of_two(kept, request).rgb);
  TextToVideo other(test::talk_model().open(), {.threads = 3, .weights = WeightMode::mapped});
  EXPECT_EQ(first.rgb, talk_of_two(other, request).rgb);
}

TEST(TalkOfTwo, WhatEachSaysWhenAndWhereMatters) {
  TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
  const VideoRequest request = two(9);
  const test::Result said = talk_of_two(pipeline, request);
  // Here the first speaker takes up more of the picture.
  EXPECT_NE(talk_of_two(pipeline, request, 1).latents, said.latents);
  VideoRequest other = request;
  std::swap(other.speech, other.speech_2);
  EXPECT_NE(talk_of_two(pipeline, other).latents, said.latents);
  other = request;
  other.speakers = "add";
  other.frames = 9;
  // The first sound has 100 samples in addition to 640 for each frame, and the second one has 700 fewer.
  EXPECT_EQ(pipeline.resolved(other).talk.spoken, 9 + 8);
  EXPECT_NE(talk_of_two(pipeline, other).latents, said.latents);
  EXPECT_NE(test::talk(pipeline, talk_request(9)).latents, said.latents);
}

// A kept pipeline replays nothing from an earlier request's regions.
TEST(TalkOfTwo, RegionsOfEarlierRequestsAreForgotten) {
  TextToVideo kept(test::talk_model().open(), {.threads = 2, .keep_loaded = true}),
      fresh(test::talk_model().open(), {.threads = 2});
  const VideoRequest request = two(9);
  talk_of_two(kept, request, 1);
  EXPECT_EQ(talk_of_two(kept, request).latents, talk_of_two(fresh, request).latents);
}

TEST(TalkOfTwo, SoundsAreLaidInTime) {
  std::vector<float> a{1, 2, 3}, b{4, 5};
  lay_in_time("together", a, b);
  EXPECT_EQ(b, (std::vector<float>{4, 5, 0}));
  EXPECT_EQ(a, (std::vector<float>{1, 2, 3}));
  b.pop_back();
  lay_in_time("one-after-the-other", a, b);
  EXPECT_EQ(a, (std::vector<float>{1, 2, 3, 0, 0}));
  EXPECT_EQ(b, (std::vector<float>{0, 0, 0, 4, 5}));
}

std::string refusal(const std::function<void(VideoRequest&)>& change) {
  VideoRequest request = two(13);
  change(request);
  return test::refusal([&] { resolve(test::talk_model().open(), request); }, ErrorCode::invalid_argument);
}

void expect_accepted(const std::function<void(VideoRequest&)>& change) {
  VideoRequest request = two(13);
  change(request);
  EXPECT_NO_THROW(resolve(test::talk_model().open(), request));
}

TEST(TalkOfTwo, WrongRequestsNameFieldAndWhatWouldWork) {
  const auto alone = [](const std::function<void(VideoRequest&)>& change) {
    return refusal([&](VideoRequest& r) { r.speech_2 = nullptr, change(r); });
  };
  EXPECT_THAT(alone([](auto& r) { r.speakers = "add"; }),
              AllOf(HasSubstr("`speakers`"), HasSubstr("`speech_2`")));
  EXPECT_THAT(alone([](auto& r) { r.speaker_boxes = {"0,0,1,1"}; }), HasSubstr("`speaker_boxes`"));
  EXPECT_THAT(alone([](auto& r) { r.speaker_mask = r.image; }), HasSubstr("`speaker_mask`"));
  EXPECT_THAT(alone([](auto& r) { r.speaker_mask_2 = r.image; }), HasSubstr("`speaker_mask_2`"));
  EXPECT_THAT(refusal([](auto& r) { r.speakers = "in turns"; }),
              AllOf(HasSubstr("`speakers`"), HasSubstr("one-after-the-other")));

  const VideoRequest r = two(13);
  const int w = r.image->width, h = r.image->height;
  const auto boxes = [&](std::vector<std::string> two_boxes) {
    return refusal([&](VideoRequest& q) { q.speaker_boxes = std::move(two_boxes); });
  };
  const std::string left = fmt::format("0,0,{},{}", w / 2, h), right = fmt::format("{},0,{},{}", w / 2, w, h);
  expect_accepted([&](auto& q) { q.speaker_boxes = {left, right}; });
  EXPECT_THAT(boxes({left}), HasSubstr("expected two boxes"));
  EXPECT_THAT(boxes({left, right, right}), HasSubstr("got 3"));
  EXPECT_THAT(boxes({left, fmt::format("{},0,{},{}", w / 2 - 1, w, h)}), HasSubstr("overlap"));
  for (const std::string& bad : {fmt::format("0,0,{},{}", w + 1, h), fmt::format("0,0,4,{}", h + 1),
                                 std::string("-1,0,4,4"), std::string("4,4,4,8"), std::string("8,0,4,4")})
    EXPECT_THAT(boxes({bad, right}), AllOf(HasSubstr("`speaker_boxes`"), HasSubstr("inside the picture")))
        << bad;
  for (const char* bad : {"", "1,2,3", "1,2,3,4,5", "1,2,3,x", "1 2 3 4", "1,2,,4", "1,2,3,4 ", "1e1,2,3,4"})
    EXPECT_THAT(boxes({bad, right}), HasSubstr("expected X0,Y0,X1,Y1")) << bad;

  const auto blank =
      std::make_shared<Picture>(Picture{w, h, std::vector<uint8_t>(static_cast<size_t>(3 * w * h))});
  auto white = std::make_shared<Picture>(*blank);
  std::ranges::fill(white->rgb, uint8_t{255});
  expect_accepted([&](auto& q) { q.speaker_mask = white, q.speaker_mask_2 = blank; });
  EXPECT_THAT(refusal([&](auto& q) { q.speaker_mask = white; }), HasSubstr("`speaker_mask_2`"));
  EXPECT_THAT(refusal([&](auto& q) { q.speaker_mask_2 = white; }), HasSubstr("`speaker_mask`:"));
  EXPECT_THAT(refusal([&](auto& q) { q.speaker_mask = q.speaker_mask_2 = white; }), HasSubstr("both masks"));
  EXPECT_THAT(refusal([&](auto& q) {
                q.speaker_mask = white, q.speaker_mask_2 = blank, q.speaker_boxes = {left, right};
              }),
              HasSubstr("not both"));
  const auto small = std::make_shared<Picture>(Picture{1, 1, std::vector<uint8_t>(3)});
  EXPECT_THAT(refusal([&](auto& q) { q.speaker_mask = small, q.speaker_mask_2 = blank; }),
              AllOf(HasSubstr("`speaker_mask`"), HasSubstr(fmt::format("{}x{}", w, h))));
  EXPECT_THAT(refusal([](auto& q) { q.speech = nullptr; }), HasSubstr("`speech`"));
}

}  // namespace
}  // namespace tachy
