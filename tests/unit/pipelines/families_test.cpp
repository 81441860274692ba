// Tests which family a model has, by its files and config, and which course a request takes. These are the
// two tables that define a variant.
#include <gtest/gtest.h>

#include "engine/courses/course.h"
#include "experts_model.h"
#include "resolve/resolve.h"
#include "talk_model.h"

namespace tachy {
namespace {

using enum ModelFamily;

TEST(Families, ThoseOfModelFolders) {
  const auto name_of = [](const std::string& path) { return ModelBundle::open(path).family->name; };
  EXPECT_EQ(name_of(test::model_path()), text);
  EXPECT_EQ(name_of(test::model_path(true)), text);
  EXPECT_EQ(name_of(test::image_file("ti2v")), first_frame);
  EXPECT_EQ(name_of(test::image_file("i2v")), image);
  EXPECT_EQ(name_of(test::image_file("flf2v")), two_pictures);
  EXPECT_EQ(name_of(test::image_file("i2v22")), image);
  for (const bool original : {false, true}) {
    EXPECT_EQ(name_of(test::experts_model("t2v", original)), text_experts);
    EXPECT_EQ(name_of(test::experts_model("i2v", original)), image_experts);
  }
  EXPECT_EQ(test::talk_model().open().family->name, talking);
}

// These are published transformers by themselves.
TEST(Families, ThoseOfConfigs) {
  const auto of = [](const WanConfig& c) -> const Family& { return family_of({}, c); };
  EXPECT_STREQ(of({}).kind, "text-to-video");
  EXPECT_TRUE(of({}).blocks && of({}).worlds);
  EXPECT_STREQ(of({.in_channels = 48, .out_channels = 48}).kind, "text-and-image-to-video");
  WanConfig c{.in_channels = 36, .image_dim = 1280};
  EXPECT_STREQ(of(c).kind, "image-to-video");
  EXPECT_EQ(seen_pictures(c), 1);
  c.audio_dim = 768;
  EXPECT_EQ(of(c).name, talking);
  c.audio_dim = 0, c.pos_embed_seq_len = 514;
  EXPECT_STREQ(of(c).kind, "first-last-frame-to-video");
  EXPECT_EQ(seen_pictures(c), 2);
  c = {};
  c.vace.layers = {0, 5};
  EXPECT_STREQ(of(c).kind, "all-in-one (VACE)");
  EXPECT_EQ(of(c).name, text);
  EXPECT_TRUE(of(c).follows && !of(c).blocks && !of(c).worlds);
  ModelFiles two;
  two.transformer_2.weights = "low";
  EXPECT_EQ(family_of(two, c).name, text_experts);
  EXPECT_TRUE(family_of(two, c).follows);
  c = {.in_channels = 36, .image_dim = 1280};
  c.text_dim = 0, c.actions.blocks = {0};
  EXPECT_STREQ(of(c).kind, "world");
  EXPECT_NE(of(c).no_request, nullptr);
}

// InfiniteTalk's file is beside a model that it does not fit: the request is refused in the words of the
// family that the model has without the file.
TEST(Families, SpeechBesideOtherModelsMakesNoneTalk) {
  for (const WanConfig& c :
       {WanConfig{.audio_dim = 768}, WanConfig{.in_channels = 48, .out_channels = 48, .audio_dim = 768},
        WanConfig{.in_channels = 36, .image_dim = 1280, .pos_embed_seq_len = 514, .audio_dim = 768}}) {
    WanConfig below = c;
    below.audio_dim = 0;
    EXPECT_FALSE(family_of({}, c).talks);
    EXPECT_EQ(&family_of({}, c), &family_of({}, below));
  }
}

TEST(Courses, FollowFromTheRequest) {
  const ModelBundle model = ModelBundle::open(test::model_path());
  VideoRequest request = test::short_request();
  EXPECT_EQ(&course_of(resolve(model, request)), &clip_course());
  request.guidance = 1, request.block = 1;
  EXPECT_EQ(&course_of(resolve(model, request)), &blocks_course());
  const Resolved talk = resolve(test::talk_model().open(), test::talk_request(13));
  EXPECT_EQ(&course_of(talk), &talk_course());
  EXPECT_TRUE(talk_course().comes_again(talk)) << "13 frames are more than a window of 9";
}

}  // namespace
}  // namespace tachy
