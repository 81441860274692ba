// Videos, masks and references that cannot be used are refused by the field's name, with what would work, and what
// is done to fit them is said.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/notice.h"
#include "media/picture/png_writer.h"
#include "media/video/video_writer.h"
#include "request/footage.h"
#include "vace_model.h"

namespace tachy {
namespace {

using test::vace_run;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& name, const std::function<void(VideoRequest&)>& change,
                    ErrorCode code = ErrorCode::invalid_argument) {
  test::VaceRun run = vace_run(name);
  change(run.request);
  Engine engine(run.model, {.threads = 1});
  try {
    engine.prepare(run.request);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message();
  }
  return "accepted";
}

std::shared_ptr<const Footage> of_frames(const Footage& like, int64_t frames, double fps = 0) {
  Footage out = like;
  out.frames = frames, out.fps = fps;
  return std::make_shared<Footage>(out);
}

TEST(FootageRefusals, NameTheFieldAndWhatWouldWork) {
  EXPECT_THAT(refusal("follow", [](auto& r) { r.frames = 13; }),
              AllOf(HasSubstr("`control_video`"), HasSubstr("9 frames"), HasSubstr("13 are needed"),
                    HasSubstr("`keep`")));
  EXPECT_THAT(refusal("follow", [](auto& r) { r.control_video = of_frames(*r.control_video, 1); }),
              AllOf(HasSubstr("1 frame,"), HasSubstr("`frames` 1 would work")));
  EXPECT_THAT(refusal("follow", [](auto& r) { r.control_video = of_frames(*r.control_video, 0); }),
              AllOf(HasSubstr("`control_video`"), HasSubstr("0 frames")));
  EXPECT_THAT(refusal("inpaint", [](auto& r) { r.mask_video = of_frames(*r.mask_video, 5); }),
              AllOf(HasSubstr("`mask_video`"), HasSubstr("5 frames")));
  EXPECT_THAT(refusal("inpaint", [](auto& r) { r.mask_video = r.control_video; }),
              AllOf(HasSubstr("`mask_video`"), HasSubstr("not a mask")));
  EXPECT_THAT(refusal("inpaint", [](auto& r) { r.control_video = nullptr; }),
              AllOf(HasSubstr("`mask_video`"), HasSubstr("`control_video`")));
  for (const char* keep : {"4", "a-b", "6-4", "0-9", "-3-4"})
    EXPECT_THAT(refusal("keep", [&](auto& r) { r.keep = keep; }),
                AllOf(HasSubstr("`keep`"), HasSubstr(keep)));
  for (const char* outpaint : {"1,2,3", "0,0,0,0", "20,0,20,0", "-1,0,0,0", "1,2,3,x"})
    EXPECT_THAT(refusal("outpaint", [&](auto& r) { r.outpaint = outpaint; }),
                AllOf(HasSubstr("`outpaint`"), HasSubstr(outpaint)));
  for (const char* strength : {"1,2,3", "strong", "99", ""})
    EXPECT_THAT(refusal("follow", [&](auto& r) { r.vace_strength = strength; }),
                HasSubstr("`vace_strength`"));
  EXPECT_THAT(refusal("follow", [](auto& r) { r.keep = "0-4", r.control_video = nullptr; }),
              HasSubstr("`keep`"));
  EXPECT_THAT(refusal("references", [](auto& r) { r.reference = nullptr; }), HasSubstr("`reference_2`"));
  EXPECT_THAT(refusal("references",
                      [](auto& r) {
                        r.reference_2 = std::make_shared<Picture>(Picture{7, 40, std::vector<uint8_t>(840)});
                      }),
              AllOf(HasSubstr("`reference_2`"), HasSubstr("7x40")));
  EXPECT_THAT(refusal("first_last", [](auto& r) { r.frames = 1; }), HasSubstr("`last_image`"));
  EXPECT_THAT(refusal("follow", [](auto& r) { r.strength = 0.5; }),
              AllOf(HasSubstr("`strength`"), HasSubstr("`video`")));
  EXPECT_THAT(refusal(
                  "follow", [](auto& r) { r.block = 1, r.guidance = 1; }, ErrorCode::unsupported),
              HasSubstr("`block`"));
}

// A film of 10,000 frames: its beginning is a clip, all of it needs windows, and what is too much is refused with the
// number that fits.
TEST(FootageRefusals, OfAFilmThatIsVeryLong) {
  constexpr int64_t kFrames = 10'000;
  test::VaceRun run = vace_run("follow");
  VideoRequest& r = run.request;
  r.control_video = of_frames(*r.control_video, kFrames);
  r.frames.reset(), r.steps = 1;
  Engine engine(run.model, {.threads = 1});
  std::vector<std::string> lines;
  {
    const LineScope scope([&](std::string_view line) { lines.emplace_back(line); });
    const PreparedRequest begin = engine.prepare(r, nullptr, ReadVideos::when_run);
    EXPECT_EQ(begin.request().frames, engine.defaults().frames);
  }
  EXPECT_THAT(fmt::format("{}", fmt::join(lines, "\n")),
              AllOf(HasSubstr("10000 frames"), HasSubstr("`windows` make a longer one")));
  r.windows = "static";
  EXPECT_EQ(engine.prepare(r, nullptr, ReadVideos::when_run).request().frames, 9997);
  const auto refused = [&](auto change) {
    return refusal(
        "follow",
        [&](VideoRequest& q) {
          q = r;
          change(q);
        },
        ErrorCode::unsupported);
  };
  EXPECT_THAT(
      refused([](auto& q) { q.width = 832, q.height = 480; }),
      AllOf(HasSubstr("`control_video`: 9997 frames of 832x480"), HasSubstr("at most 7169 `frames`")));
  EXPECT_THAT(refusal("follow", [&](VideoRequest& q) { q = r, q.frames = 10'001; }),
              AllOf(HasSubstr("10000 frames, but 10001 are needed"), HasSubstr("`frames` 9997 would work")));
}

// One frame is a clip of one frame, or the mask of all of them.
TEST(FootageRefusals, OfOneFrame) {
  EXPECT_THAT(refusal("v2v_unipc", [](auto& r) { r.video = of_frames(*r.video, 1); }),
              AllOf(HasSubstr("`video`"), HasSubstr("1 frame, but 9 are needed"),
                    HasSubstr("`frames` 1 would work")));
  test::VaceRun run = vace_run("v2v_unipc");
  run.request.video = of_frames(*run.request.video, 1);
  run.request.frames.reset(), run.request.steps = 2;
  Engine engine(run.model, {.threads = 1});
  EXPECT_EQ(test::run(engine, run.request).frames, 1);
}

TEST(FootageRefusals, OfModelsThatFollowNothing) {
  const auto refused = [](auto change) { return refusal("v2v_unipc", change, ErrorCode::unsupported); };
  const auto vace = vace_run("all").request;
  EXPECT_THAT(refused([&](auto& r) { r.control_video = vace.control_video; }),
              AllOf(HasSubstr("`control_video`"), HasSubstr("text-to-video"), HasSubstr("VACE")));
  EXPECT_THAT(
      refusal("v2v_unipc",
              [&](auto& r) { r.mask_video = vace.mask_video, r.video = nullptr, r.strength.reset(); }),
      AllOf(HasSubstr("`mask_video`"), HasSubstr("`video`")));
  EXPECT_THAT(refusal("v2v_unipc", [&](auto& r) { r.mask_video = of_frames(*vace.mask_video, 5); }),
              AllOf(HasSubstr("`mask_video`"), HasSubstr("5 frames")));
  EXPECT_THAT(refused([&](auto& r) { r.reference = vace.reference; }), HasSubstr("`reference`"));
  EXPECT_THAT(refused([](auto& r) { r.vace_strength = "1"; }), HasSubstr("`vace_strength`"));
  EXPECT_THAT(refused([](auto& r) { r.outpaint = "8,0,0,0"; }), HasSubstr("`outpaint`"));
  EXPECT_THAT(refusal("v2v_unipc", [](auto& r) { r.strength = 0.05; }),
              AllOf(HasSubstr("`strength`"), HasSubstr("10 steps"), HasSubstr("0.1")));
  EXPECT_THAT(refusal("v2v_unipc", [](auto& r) { r.frames = 13; }),
              AllOf(HasSubstr("`video`"), HasSubstr("9 frames")));
  EXPECT_THAT(refusal("v2v_unipc", [](auto& r) { r.init_latents.resize(1); }), HasSubstr("`init_latents`"));
}

TEST(FootageFiles, WhatIsNoVideoIsRefused) {
  const test::ScratchFolder scratch;
  const auto refused = [](const std::filesystem::path& path) {
    try {
      read_footage(path);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("accepted");
  };
  const auto empty = scratch.path / "empty.mp4", text = scratch.path / "text.mp4",
             folder = scratch.path / "folder";
  std::ofstream(empty) << "";
  std::ofstream(text) << "not a video";
  std::filesystem::create_directory(folder);
  EXPECT_THAT(refused(empty), HasSubstr("empty.mp4"));
  EXPECT_THAT(refused(text), HasSubstr("text.mp4"));
  EXPECT_THAT(refused(folder), HasSubstr("no pictures"));
  EXPECT_THAT(refused(scratch.path / "gone.mp4"), HasSubstr("gone.mp4"));
}

// A film of another size, length and rate: the clip's length follows it, and what is done is said.
TEST(FootageFiles, AFilmIsFittedAndSaid) {
  const test::ScratchFolder scratch;
  const std::string film = (scratch.path / "film.mp4").string();
  {
    VideoOptions options;
    options.fps = 32;
    const auto writer = VideoWriter::open(film, 64, 64, options);
    RgbFrame frame(64, 64);
    for (int i = 0; i < 20; ++i) {
      std::fill(frame.rgb.begin(), frame.rgb.end(), static_cast<uint8_t>(12 * i));
      writer->write(frame.view());
    }
    writer->finish();
  }
  const Footage footage = read_footage(film);
  EXPECT_EQ(footage.frames, 20);
  EXPECT_NEAR(footage.fps, 32, 0.1);
  test::VaceRun run = vace_run("follow");
  run.request.control_video = std::make_shared<Footage>(footage);
  run.request.frames.reset(), run.request.steps = 1;
  std::vector<std::string> lines;
  Engine engine(run.model, {.threads = 1});
  const LineScope scope([&](std::string_view line) { lines.emplace_back(line); });
  const PreparedRequest prepared = engine.prepare(run.request);
  EXPECT_EQ(prepared.request().frames, 9) << "20 frames at 32 a second are 10 at 16";
  const std::string said = fmt::format("{}", fmt::join(lines, "\n"));
  EXPECT_THAT(said,
              AllOf(HasSubstr("20 frames at 32 a second, which are 10 at 16; the first 9 make the clip"),
                    HasSubstr("64x64 stretched to 48x32"), HasSubstr("32 frames a second to 16")));
}

TEST(FootageFrames, AreTheNearestInTime) {
  const Footage film{.path = "", .width = 1, .height = 1, .fps = 30, .frames = 10};
  EXPECT_EQ(frames_at(film, 30), 10);
  EXPECT_EQ(frames_at(film, 30.1), 10);
  EXPECT_EQ(frames_at(film, 15), 5);
  EXPECT_EQ(frames_at(film, 60), 19);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(frame_at(film, 15, i), 2 * i);
  EXPECT_EQ(frame_at(film, 60, 3), 2);
  EXPECT_EQ(frame_at(film, 15, 99), 9);
  const Footage pictures{.path = "", .width = 1, .height = 1, .fps = 0, .frames = 7};
  EXPECT_EQ(frames_at(pictures, 16), 7);
  EXPECT_EQ(frame_at(pictures, 16, 4), 4);
  for (const double fps : {0.1, 7.0, 16.0, 23.976, 240.0}) {  // one more frame would be past the film's last
    const auto count = static_cast<double>(frames_at(film, fps));
    EXPECT_LT((count - 1) * 30 / fps + 0.5, 10) << fps;
    EXPECT_GE(count * 30 / fps + 0.5, 10) << fps;
  }
}

}  // namespace
}  // namespace tachy
