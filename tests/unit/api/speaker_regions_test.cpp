// Tests which tokens show which speaker. They must be the ones that InfiniteTalk's own code computes from
// boxes (tests/golden/infinitetalk), for boxes and for masks, however the picture is fitted to the video.
#include "api/speaker_regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tachy {
namespace {

using nlohmann::json;
using testing::HasSubstr;

VideoRequest request_of(int picture_width, int picture_height, int width, int height) {
  VideoRequest r;
  r.image = std::make_shared<Picture>(
      Picture{picture_width, picture_height,
              std::vector<uint8_t>(static_cast<size_t>(3 * picture_width * picture_height))});
  r.speech = r.speech_2 = std::make_shared<Speech>();
  r.speakers = "together";
  r.width = width, r.height = height;
  return r;
}

std::shared_ptr<const Picture> mask_of(const Picture& like, int x0, int y0, int x1, int y1) {
  Picture mask{like.width, like.height, std::vector<uint8_t>(like.rgb.size())};
  for (int y = y0; y < y1; ++y)
    for (int x = x0; x < x1; ++x)
      mask.rgb[static_cast<size_t>(3 * (y * mask.width + x) + 2)] = 1;  // barely not black
  return std::make_shared<Picture>(std::move(mask));
}

TEST(SpeakerRegions, AreThoseOfInfiniteTalk) {
  std::ifstream in(TACHY_SOURCE_DIR "/tests/golden/infinitetalk/golden.json");
  const json golden = json::parse(in);
  int compared = 0;
  for (const json& c : golden.at("regions")) {
    const auto size = c.at("picture").get<std::vector<int>>(), video = c.at("video").get<std::vector<int>>();
    VideoRequest r = request_of(size[0], size[1], video[0], video[1]);
    std::vector<std::vector<int>> boxes = c.at("boxes");
    for (const auto& b : boxes) r.speaker_boxes.push_back(fmt::format("{}", fmt::join(b, ",")));
    const int rows = video[1] / 16, columns = video[0] / 16, stored = c.at("rows");
    for (const bool crop : {false, true})
      for (const bool masked : {false, true}) {
        VideoRequest one = r;
        if (crop) one.image_fit = "crop";
        if (masked && boxes.empty()) continue;
        if (masked) {
          one.speaker_boxes.clear();
          one.speaker_mask = mask_of(*r.image, boxes[0][0], boxes[0][1], boxes[0][2], boxes[0][3]);
          one.speaker_mask_2 = mask_of(*r.image, boxes[1][0], boxes[1][1], boxes[1][2], boxes[1][3]);
        }
        const std::vector<uint8_t> got = speaker_regions(one, rows, columns);
        ASSERT_EQ(got.size(), static_cast<size_t>(3 * rows * columns));
        for (int m = 0; m < 3; ++m) {
          std::string text;
          // For a large picture the file has only some rows.
          for (int y = 0; y < rows; y += stored == rows ? 1 : 20)
            for (int x = 0; x < columns; ++x)
              text += got[static_cast<size_t>((m * rows + y) * columns + x)] ? '1' : '0';
          EXPECT_EQ(text, c.at("masks").at(static_cast<size_t>(m)).get<std::string>())
              << size[0] << "x" << size[1] << " in " << video[0] << "x" << video[1] << ", mask " << m;
          ++compared;
        }
      }
  }
  EXPECT_EQ(compared, 3 * (2 * 3 + 4 * 2));
}

// The picture is wide and cropped to a square: the parts left and right of the middle are gone, and x counts
// from the picture's own edge.
TEST(SpeakerRegions, FollowTheCrop) {
  VideoRequest r = request_of(200, 100, 160, 160);
  r.image_fit = "crop";  // keeps the picture's columns from 50 to 150
  r.speaker_boxes = {"0,0,80,100", "100,0,200,50"};
  const auto regions = speaker_regions(r, 10, 10);
  for (int row = 0; row < 10; ++row)
    for (int x = 0; x < 10; ++x) {
      const size_t t = static_cast<size_t>(10 * row + x);
      EXPECT_EQ(regions[t], x < 3);  // column 80 lies 48 of the video's pixels right of the crop's edge
      EXPECT_EQ(regions[100 + t], x >= 5 && row < 5);
      EXPECT_EQ(regions[t] + regions[100 + t] + regions[200 + t], 1);
    }
}

TEST(SpeakerRegions, ASpeakerWhomNoTokenShowsIsAnError) {
  const auto refusal = [](const VideoRequest& r) -> std::string {
    try {
      speaker_regions(r, 10, 10);
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  VideoRequest r = request_of(160, 160, 160, 160);
  r.speaker_boxes = {"1,1,9,9", "100,0,160,50"};
  EXPECT_THAT(refusal(r), testing::AllOf(HasSubstr("`speaker_boxes`"), HasSubstr("first speaker")));
  r.speaker_boxes = {"0,0,80,100", "81,0,90,100"};
  EXPECT_THAT(refusal(r), HasSubstr("second speaker"));
  r = request_of(160, 160, 160, 160);
  r.speaker_mask = mask_of(*r.image, 0, 0, 80, 80);
  r.speaker_mask_2 = mask_of(*r.image, 0, 0, 0, 0);
  EXPECT_THAT(refusal(r), HasSubstr("`speaker_mask_2`"));
}

}  // namespace
}  // namespace tachy
