// Tests speech as the Engine takes it: a sound too short to have a loudness is refused, silence is accepted,
// and the loudness of a sound does not matter.
#include <gmock/gmock.h>

#include "../pipelines/talk_model.h"
#include "api/tachyscope.h"

namespace tachy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TalkingEngine : public testing::Test {
 protected:
  std::vector<uint8_t> frames(std::vector<float> samples) {
    VideoRequest request = test::talk_request(13);
    request.frames = 9, request.steps = 1;
    request.speech = std::make_shared<Speech>(Speech{std::move(samples)});
    test::Result out;
    engine.generate(request, test::collecting(out, {}));
    EXPECT_EQ(out.frames, 9);
    return out.rgb;
  }
  test::TalkModel model;
  Engine engine{test::image_file("i2v"),
                {.threads = 2,
                 .infinitetalk = model.parts.infinitetalk.string(),
                 .audio_encoder = model.parts.audio_encoder.string()}};
};

TEST_F(TalkingEngine, ATenthOfASecondIsRefused) {
  EXPECT_THAT(test::refusal([&] { frames(std::vector<float>(1600, 0.1f)); }, ErrorCode::invalid_argument),
              AllOf(HasSubstr("`speech`"), HasSubstr("0.4 s"), HasSubstr("1600 samples")));
}

TEST_F(TalkingEngine, SilenceIsFollowed) { frames(std::vector<float>(16000)); }

// Doubling is exact, except for the rounding of the loudness's own factor.
TEST_F(TalkingEngine, LoudnessDoesNotCount) {
  const std::vector<float> loud = test::voice(13)->samples;
  std::vector<float> soft = loud, other = loud;
  for (float& v : soft) v *= 0.25f;
  std::ranges::reverse(other);
  const auto levels_apart = [](const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
    int most = 0;
    for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  };
  const std::vector<uint8_t> want = frames(loud);
  EXPECT_LE(levels_apart(frames(soft), want), 1);
  EXPECT_GE(levels_apart(frames(other), want), 5);
}

}  // namespace
}  // namespace tachy
