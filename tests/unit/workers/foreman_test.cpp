// Jobs from the table to the finished file: what the row, the events and the folder say of them.
#include "workers/foreman.h"

#include "media/metadata.h"
#include "shop_floor.h"
#include "workers/rates.h"

namespace tachy {
namespace {

using namespace test;
using testing::Contains;
using testing::HasSubstr;

class ForemanTest : public ShopFloor {};

TEST_F(ForemanTest, AJobBecomesAVideo) {
  std::vector<json> measured;
  options_.measured = [&](const json& event) { measured.push_back(event); };
  open();
  const std::string id = add({});
  const JobRow done = ended(id);
  EXPECT_EQ(done.status, Status::completed) << done.error.message;
  EXPECT_EQ(done.progress, 100);
  EXPECT_EQ(done.worker, "local");
  const json facts = json::parse(done.facts);
  EXPECT_EQ(facts["size"], "64x64");
  EXPECT_EQ(facts["frames"], 9);
  EXPECT_EQ(facts["seed"], 7);
  EXPECT_EQ(facts["bytes"], video(id).size());
  EXPECT_EQ(facts["seconds"], fmt::format("{:.2f}", 9 / facts["fps"].get<double>()));
  EXPECT_GE(done.bytes, video(id).size());
  EXPECT_EQ(events(id).front(), "queued");
  EXPECT_EQ(last_event(id), "done");
  EXPECT_THAT(events(id), Contains("preview"));
  EXPECT_TRUE(fs::exists(queue::JobFolder(files_.path, id).preview(1)));
  EXPECT_FALSE(fs::exists(queue::JobFolder(files_.path, id).video().string() + ".resume"));
  EXPECT_TRUE(video(id) == undisturbed({}));
  close();  // the last report has come
  const auto count = [&](const char* name) {
    return std::ranges::count_if(measured, [&](const json& e) { return e["event"] == name; });
  };
  const auto steps = [&](const char* stage) {
    return std::ranges::count_if(measured, [&](const json& e) { return e.value("stage", "") == stage; });
  };
  EXPECT_EQ(steps("denoise"), 4);
  EXPECT_EQ(steps("decode"), 3) << "one for each latent frame";
  EXPECT_EQ(steps("encode"), 1);
  EXPECT_EQ(count("end"), 1);
  ASSERT_EQ(count("run"), 1);
  const json run = *std::ranges::find_if(measured, [](const json& e) { return e["event"] == "run"; });
  const double planned = run["planned_bytes"], seen = run["seen_bytes"];
  EXPECT_LE(seen, planned) << "the plan is exact or a bound";
  EXPECT_GE(seen, planned * 0.9);
}

// Later runs find the model loaded, and their tensors where the last run left them: they count as if they took them.
TEST_F(ForemanTest, WhatARunFindsInMemoryIsSeenToo) {
  std::vector<double> shares;
  options_.measured = [&](const json& e) {
    if (e["event"] == "run")
      shares.push_back(e["seen_bytes"].get<double>() / e["planned_bytes"].get<double>());
  };
  open();
  for (const Small& small : {Small{}, Small{}, Small{.width = 96}, Small{.frames = 17}, Small{}})
    ended(add(small));
  close();
  ASSERT_EQ(shares.size(), 5u);
  for (const double share : shares) EXPECT_TRUE(share > 0.9 && share <= 1) << share;
}

TEST_F(ForemanTest, OfAnEndedJobTheLastPreviewStays) {
  options_.preview_seconds = 0.1;
  open();
  std::shared_ptr<void> room = foreman_->make_room();
  const std::string id = add({});
  const queue::JobFolder folder(files_.path, id);
  for (int number = 1; number <= 3; ++number) std::ofstream(folder.preview(number)) << "of an earlier run";
  room.reset();
  ended(id);
  std::vector<int> told;  // one, or more where it takes seconds
  for (const queue::Event& e : book_->since(id, 0))
    if (e.type == "preview") told.push_back(json::parse(e.data).at("number"));
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), 4) << "the numbers go on";
  EXPECT_TRUE(wait([&] { return !fs::exists(folder.preview(3)); }, 10));
  EXPECT_FALSE(fs::exists(folder.preview(1)));
  EXPECT_TRUE(fs::exists(folder.preview(told.back())));
}

// The dispatcher tells the places, looks at the disk, and begins what waits by then.
TEST_F(ForemanTest, AJobThatComesJustBeforeItBeginsIsToldFromTheFirstEventOn) {
  std::string id;
  std::atomic<bool> there = false;
  options_.has_room = [&] {
    if (!there) id = put(*table_, files_.path, {}), there = true;
    return true;
  };
  open();
  ASSERT_TRUE(wait([&] { return there.load(); }));
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(events(id).front(), "queued");
  EXPECT_EQ(std::ranges::count(events(id), "queued"), 1);
}

TEST_F(ForemanTest, ProgressNeverGoesBackAndEachStageIsTold) {
  open();
  const std::string id = add({.steps = 20, .frames = 33});
  ended(id);
  int last = 0;
  std::vector<std::string> stages;
  for (const queue::Event& e : book_->since(id, 0)) {
    if (e.type != "progress") continue;
    const json data = json::parse(e.data);
    EXPECT_GE(data["progress"], last);
    EXPECT_LT(data["progress"], 100);
    last = data["progress"];
    if (stages.empty() || stages.back() != data["stage"]) stages.push_back(data["stage"]);
  }
  EXPECT_THAT(stages, testing::IsSupersetOf({"text", "denoise", "decode"}));
  EXPECT_GT(last, 50) << "the plan's seconds count";
}

TEST_F(ForemanTest, TheVideoCarriesNamesAndNoPaths) {
  open();
  const std::string id = add({});
  ended(id);
  EXPECT_THAT(video(id), HasSubstr("a red circle moves right"));
  EXPECT_THAT(video(id), HasSubstr(models_->open("")->fingerprint()));
  EXPECT_THAT(video(id), testing::Not(HasSubstr(sprites().parent_path().string())));
  EXPECT_THAT(video(id), testing::Not(HasSubstr(files_.path.string())));
}

TEST_F(ForemanTest, TwoModelsAndOneThatIsNotThere) {
  served_.push_back({.name = "again", .path = sprites()});
  served_.push_back({.name = "broken", .path = files_.path});
  open();
  const std::string first = add({}), second = add({.model = "again"}), third = add({.model = "nobody"}),
                    fourth = add({.model = "broken"});
  EXPECT_EQ(ended(first).status, Status::completed);
  EXPECT_EQ(ended(second).status, Status::completed);
  EXPECT_TRUE(video(first) == video(second));
  EXPECT_EQ(ended(third).error.code, "not_found");
  EXPECT_EQ(ended(fourth).status, Status::failed);
  EXPECT_THAT(row(fourth).error.message, testing::Not(HasSubstr(files_.path.string())));
  EXPECT_EQ(last_event(fourth), "failed");
  EXPECT_TRUE(foreman_->ready());
}

// Overwrites the last weights of the transformer by NaN.
void spoil(const fs::path& model) {
  fs::copy(sprites(), model, fs::copy_options::recursive);
  for (const auto& file : fs::directory_iterator(model / "transformer")) {
    if (file.path().extension() != ".safetensors") continue;
    std::fstream out(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(-4096, std::ios::end);
    out << std::string(4096, '\xff');
  }
}

TEST_F(ForemanTest, NaNInTheWeightsHasACodeOfItsOwn) {
  spoil(files_.path / "spoilt");
  served_.push_back({.name = "spoilt", .path = files_.path / "spoilt"});
  open();
  const std::string id = add({.model = "spoilt"});
  EXPECT_EQ(ended(id).error.code, "nan") << row(id).error.message;
  EXPECT_EQ(ended(add({.steps = 1})).status, Status::completed) << "the next one runs";
}

TEST_F(ForemanTest, HigherPrioritiesAndEarlierPlacesComeFirst) {
  open();
  const auto room = foreman_->make_room();
  std::vector<std::string> ids;
  for (const int priority : {0, -1, 3, 0}) ids.push_back(add({.steps = 1, .priority = priority}));
  EXPECT_TRUE(wait([&] { return foreman_->live(row(ids[2])).position == 0; }));
  EXPECT_EQ(foreman_->live(row(ids[0])).position, 1);
  EXPECT_EQ(foreman_->live(row(ids[3])).position, 2);
  EXPECT_EQ(foreman_->live(row(ids[1])).position, 3);
  EXPECT_EQ(row(ids[2]).status, Status::queued) << "somebody has the room";
  const_cast<std::shared_ptr<void>&>(room).reset();
  for (const std::string& id : ids) EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_LT(row(ids[2]).started_ms, row(ids[0]).started_ms);
  EXPECT_LT(row(ids[0]).started_ms, row(ids[3]).started_ms);
  EXPECT_LT(row(ids[3]).started_ms, row(ids[1]).started_ms);
}

TEST_F(ForemanTest, OutdatedJobsAreRemoved) {
  options_.keep_bytes = 1;
  open();
  const std::string id = add({.steps = 1});
  ended(id);
  close();
  open();
  EXPECT_TRUE(wait([&] { return !table_->find(id); }));
  EXPECT_FALSE(fs::exists(queue::JobFolder(files_.path, id).path));
}

TEST_F(ForemanTest, JobsAreRemovedAfterTheirDays) {
  options_.keep_days = 1.0 / (24 * 60 * 60);
  open();
  const std::string id = add({.steps = 1});
  const JobRow done = ended(id);
  EXPECT_EQ(done.expires_ms, done.ended_ms + 1000);
  EXPECT_TRUE(wait([&] { return workers::wall_clock_ms() > done.expires_ms; }));
  close();
  open();  // it looks for outdated jobs at once, and later every minute
  EXPECT_TRUE(wait([&] { return !table_->find(id); }));
  EXPECT_FALSE(fs::exists(queue::JobFolder(files_.path, id).path));
}

TEST_F(ForemanTest, WhatARunTakesIsLearnt) {
  open();
  uint64_t seed = 0;
  const auto seconds_of_a_run = [&] {
    const JobRow done = ended(add({.steps = 8, .frames = 17, .seed = ++seed}));
    return (done.ended_ms - done.started_ms) / 1e3;
  };
  bool alike = false;  // in one of several tries, since the machine may be held up in any of them
  for (int tries = 0; tries < 5 && !alike; ++tries) {
    for (int i = 0; i < 3; ++i) seconds_of_a_run();
    const workers::Outlook outlook = foreman_->outlook(spec_of({.steps = 8, .frames = 17}), "", 0);
    const double seen = seconds_of_a_run();
    alike = outlook.seconds > seen / 3 && outlook.seconds < seen * 3;
  }
  EXPECT_TRUE(alike);
  EXPECT_GT(workers::Rates(files_.path / "rates.json").of("sprites@cpu").runs, 0) << "it is kept";
}

}  // namespace
}  // namespace tachy
