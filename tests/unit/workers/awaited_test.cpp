// Tests jobs that wait for the videos that they are made of: they begin when these are there, and fail with the reason
// when these never will be.
#include "workers/awaited.h"

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json_text.h"
#include "media/picture/image_reader.h"
#include "media/video/stills.h"
#include "shop_floor.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

class Awaited : public ShopFloor {
 protected:
  // Puts a join of these videos into the table, all of which it waits for.
  std::string add_join(const std::vector<std::string>& ids) {
    JobRow row{.id = queue::new_job_id(), .model = "sprites", .kind = "join"};
    json names = json::array();
    for (size_t i = 1; i <= ids.size(); ++i) names.push_back(std::to_string(i) + ".mp4");
    row.settings = json({{"join", names}}).dump(), row.awaits = queue::joined_ids(ids);
    row.request = json({{"videos", ids}, {"made_from", {{"awaited", ids}}}}).dump(), row.facts = "{}";
    row.created_ms = workers::wall_clock_ms(), row.planned_seconds = 1;
    fs::create_directories(queue::JobFolder(files_.path, row.id).inputs());
    EXPECT_EQ(table_->insert(row, "", "", 1000, 0).how, queue::Inserted::How::made);
    if (foreman_) foreman_->wake();
    return row.id;
  }
};

TEST_F(Awaited, AJoinBeginsWhenItsPartsAreThere) {
  open();
  const std::string a = add({.steps = 2}), b = add({.steps = 2, .seed = 8}), c = add_join({a, b});
  const JobRow joined = ended(c);
  ASSERT_EQ(joined.status, Status::completed) << joined.error.message;
  EXPECT_EQ(json::parse(joined.facts).at("frames"), 18);
  EXPECT_EQ(row(a).status, Status::completed);
  EXPECT_EQ(row(b).status, Status::completed);
  EXPECT_EQ(json::parse(joined.request), json({{"videos", {a, b}}})) << "it waits for nothing any more";
}

TEST_F(Awaited, ItBeginsAfterARestart) {
  open();
  foreman_->stop();
  const std::string a = put(*table_, files_.path, {.steps = 2}), b = add_join({a, a});
  close();
  open();
  EXPECT_EQ(ended(b).status, Status::completed) << row(b).error.message;
}

TEST_F(Awaited, ALostVideoEndsAllThatWaitForIt) {
  open();
  const std::string cancelled = add({.steps = 500, .frames = 65}), removed = add({}), kept = add({});
  const std::string first = add_join({kept, cancelled}), second = add_join({first, kept});
  const std::string other = add_join({removed, kept});
  table_->remove(removed);
  foreman_->wake();
  EXPECT_THAT(ended(other).error.message, HasSubstr(removed + " that this one is made from was removed"));
  EXPECT_EQ(row(first).status, Status::queued) << "what it waits for may still come";
  table_->wish(cancelled, queue::Wish::cancel, std::nullopt);
  foreman_->wake();
  EXPECT_THAT(ended(first).error.message, HasSubstr(cancelled + " that this one is made from was cancelled"));
  EXPECT_EQ(row(first).error.code, "source_failed");
  EXPECT_EQ(ended(second).error.message, row(first).error.message)
      << "the first reason is the one that helps";
  EXPECT_EQ(last_event(second), "failed");
  EXPECT_EQ(ended(kept).status, Status::completed);
}

TEST_F(Awaited, AFileThatIsGoneIsSaid) {
  open();
  const std::string a = add({.steps = 2});
  ended(a);
  fs::remove(queue::JobFolder(files_.path, a).video());
  const JobRow joined = ended(add_join({a, a}));
  EXPECT_EQ(joined.status, Status::failed);
  EXPECT_THAT(joined.error.message, HasSubstr("cannot be read"));
  EXPECT_THAT(joined.error.message, Not(HasSubstr(files_.path.string())));
}

// The videos of these jobs are another host's, by what the foreman is told.
TEST_F(Awaited, OthersBeginWhileAVideoIsFetched) {
  std::atomic<bool> asked = false, there = false;
  options_.files_id = "here";
  options_.fetch_video = [&](const JobRow& source) {
    for (asked = true; !there;) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return queue::JobFolder(files_.path, source.id).video();
  };
  open();
  const std::string a = add({.steps = 2});
  ended(a);
  const std::string joined = add_join({a, a});
  EXPECT_TRUE(wait([&] { return asked.load(); }));
  EXPECT_EQ(ended(add({.steps = 2, .seed = 8})).status, Status::completed);
  EXPECT_EQ(row(joined).status, Status::queued);
  there = true;
  EXPECT_EQ(ended(joined).status, Status::completed) << row(joined).error.message;
}

TEST_F(Awaited, AHostThatIsAwayForAWhileEndsNothing) {
  std::atomic<int> asked = 0;
  options_.files_id = "here";
  options_.fetch_video = [&](const JobRow& source) {
    return ++asked < 3 ? fs::path() : queue::JobFolder(files_.path, source.id).video();
  };
  open();
  const std::string a = add({.steps = 2});
  ended(a);
  const JobRow joined = ended(add_join({a, a}));
  EXPECT_EQ(joined.status, Status::completed) << joined.error.message;
  EXPECT_GE(asked, 3);
}

TEST_F(Awaited, ItsEndIsToldByTheEndOfTheVideoThatRuns) {
  open(2);  // there is a free place, at which it cannot begin
  const std::string source = add({.steps = 500, .frames = 65});
  ASSERT_TRUE(in_stage(source, "denoise", 2));
  const std::string joined = add_join({source, source});
  EXPECT_TRUE(wait([&] {
    const double left = foreman_->live(row(source)).eta_seconds,
                 end = foreman_->live(row(joined)).eta_seconds;
    return left > 5 && end > left - 2 && end < left + 5;
  })) << foreman_->live(row(joined)).eta_seconds
      << " s, and the source " << foreman_->live(row(source)).eta_seconds;
  table_->wish(source, queue::Wish::cancel, std::nullopt);
  foreman_->wake();
  ended(joined);
}

TEST_F(Awaited, AnExtensionGetsThePictureOfItsFrame) {
  open();
  const std::string source = add({.steps = 2});
  const JobRow done = ended(source);
  JobRow extension{.id = queue::new_job_id(), .model = "sprites"};
  extension.settings =
      json({{"prompt", "on"}, {"image", "/elsewhere/image-0"}, {"image_sha256", "0"}}).dump();
  const json from = {{"extension", source}, {"from_frame", 3}, {"awaited", {source}}};
  extension.request = json({{"prompt", "on"}, {"made_from", from}}).dump(), extension.awaits = source;
  const queue::JobFolder folder(files_.path, extension.id);
  const auto video_of = [&](const JobRow& row) { return queue::JobFolder(files_.path, row.id).video(); };
  const queue::Change change = workers::released(extension, folder, {done}, video_of);
  EXPECT_EQ(change.awaits, "");
  const json settings = json::parse(*change.settings), request = json::parse(*change.request);
  EXPECT_EQ(request.at("made_from"), json({{"extension", source}, {"from_frame", 3}}));
  EXPECT_EQ(request.at("input_reference"),
            json({{"file", "frame-3.png"}, {"sha256", settings.at("image_sha256")}}));
  const fs::path name = settings.at("image").get<std::string>(), picture = folder.inputs() / name;
  EXPECT_EQ(name, name.filename());
  EXPECT_EQ(read_image(picture).rgb, frame_of_video(video_of(done), 3).rgb);
  EXPECT_THROW(change.expect(done), Error) << "it was edited meanwhile";
  extension.request = json({{"made_from", {{"extension", source}, {"from_frame", 99}}}}).dump();
  EXPECT_THROW(workers::released(extension, folder, {done}, video_of), Error);
}

}  // namespace
}  // namespace tachy::test
