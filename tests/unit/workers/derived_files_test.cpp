// Tests the pictures of a finished job's video, and joining jobs' videos.
#include "workers/derived_files.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "../media/media_testing.h"
#include "jobs/settings.h"
#include "media/metadata.h"
#include "media/picture/image_reader.h"
#include "media/video/video_reader.h"
#include "media/video/video_writer.h"
#include "workers/after_run.h"
#include "workers/join_job.h"

namespace tachy::workers {
namespace {

using namespace tachy::testing;
using ::testing::UnorderedElementsAre;

class DerivedFiles : public MediaTest {
 protected:
  queue::JobFolder make(const std::string& id, int frames, int first) {
    const queue::JobFolder folder(folder_, id);
    fs::create_directories(folder.path);
    auto writer = VideoWriter::open(folder.video(), 64, 48, {.crf = 10});
    for (int i = 0; i < frames; ++i) writer->write(wave(64, 48, first + i).view());
    writer->finish();
    return folder;
  }
  static std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path().filename().string());
    return out;
  }
};

TEST_F(DerivedFiles, PicturesAppearBesideTheVideo) {
  const queue::JobFolder folder = make("one", 25, 0);
  make_thumbnail(folder), make_spritesheet(folder);
  make_thumbnail(folder);  // once more: it is replaced
  EXPECT_THAT(names_in(folder.path), UnorderedElementsAre("video.mp4", "thumbnail.jpg", "spritesheet.jpg"));
  EXPECT_GT(psnr(read_image(folder.thumbnail()).rgb, wave(64, 48, 8).rgb), 28);
  EXPECT_EQ(read_image(folder.spritesheet()).width, 640);
  write_frame(folder.video(), -1, folder.path / "last.png");
  EXPECT_EQ(read_image(folder.path / "last.png").rgb, read_video(folder.video()).back().rgb);
}

TEST_F(DerivedFiles, WithoutAVideoThereIsNothing) {
  const queue::JobFolder folder(folder_, "none");
  fs::create_directories(folder.path);
  EXPECT_THROW(make_thumbnail(folder), Error);
  write_bytes(folder.video(), {'n', 'o'});
  EXPECT_THROW(make_spritesheet(folder), Error);
  EXPECT_THAT(names_in(folder.path), UnorderedElementsAre("video.mp4"));
}

TEST_F(DerivedFiles, AJoinedVideoSaysWhatItIsMadeOf) {
  const std::vector<JoinPart> parts{{make("one", 10, 0).video()}, {make("two", 12, 10).video()}};
  const fs::path out = folder_ / "out.mp4";
  const JoinedVideo joined = join_videos(parts, out, CancelFlag());
  EXPECT_EQ(joined.frames, 22);
  EXPECT_TRUE(joined.copied);
  const nlohmann::json about = nlohmann::json::parse(read_comment(out));
  EXPECT_EQ(about.at("join").size(), 2u);
  EXPECT_EQ(about.at("join")[0].at("name"), "video.mp4");
  EXPECT_EQ(about.at("join")[1].at("sha256"), jobs::sha256_of(parts[1].path.string(), "join"));
  EXPECT_FALSE(about.at("join")[1].contains("last_frame"));
  EXPECT_EQ(read_comment(out).find(folder_.string()), std::string::npos) << "no path is in it";
  EXPECT_THROW(jobs::read_settings(out.string()), Error) << "it has no settings of a run";
  const std::atomic<bool> cancel{true};
  EXPECT_THROW(join_videos(parts, out, CancelFlag(&cancel)), Error);
}

TEST_F(DerivedFiles, AJobJoinsTheFramesThatItsRowNames) {
  const queue::JobFolder folder(folder_, "joined");
  fs::create_directories(folder.inputs());
  fs::copy(make("one", 10, 0).video(), folder.inputs() / "1.mp4");
  fs::copy(make("two", 12, 10).video(), folder.inputs() / "2.mp4");
  queue::JobRow row{.id = "joined"};
  row.settings = R"({"join": [{"file": "1.mp4", "last_frame": 3}, {"file": "2.mp4", "first_frame": 1}]})";
  join_job(row, folder, nullptr);
  EXPECT_EQ(nlohmann::json::parse(row.facts).at("frames"), 15);
  const auto all = read_video(folder.video());
  ASSERT_EQ(all.size(), 15u);
  EXPECT_GT(psnr(all[3].rgb, wave(64, 48, 3).rgb), 28);
  EXPECT_GT(psnr(all[4].rgb, wave(64, 48, 11).rgb), 28);
  EXPECT_EQ(nlohmann::json::parse(read_comment(folder.video())).at("join")[1].at("first_frame"), 1);
  for (const char* bad :
       {R"({"join": [{"last_frame": 3}]})", R"({"join": ["../1.mp4"]})", R"({"join": [3]})"}) {
    row.settings = bad;
    EXPECT_THROW(join_job(row, folder, nullptr), Error) << bad;
  }
}

}  // namespace
}  // namespace tachy::workers
