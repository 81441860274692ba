// What a model folder is said to hold: the defaults of generate's options.
#include "inspect/info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../pipelines/experts_model.h"

namespace tachy {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

TEST(Info, AModelOfTwoExpertsHasTwoGuidances) {
  const ModelInfo two = describe_model(test::experts_model("t2v"));
  const VideoRequest& d = ModelBundle::open(test::experts_model("t2v")).defaults;
  ASSERT_TRUE(d.guidance_2.has_value());
  EXPECT_THAT(two.defaults, Contains(Pair("guidance", fmt::format("{:g}", *d.guidance))));
  EXPECT_THAT(two.defaults, Contains(Pair("guidance-2", fmt::format("{:g}", *d.guidance_2))));
  EXPECT_THAT(describe_model(test::model_path()).defaults, Not(Contains(Key("guidance-2"))));
}

}  // namespace
}  // namespace tachy
