// After a crash, tidy() brings the folders and the table together again.
#include <fstream>

#include "api_fixture.h"
#include "web_api/job_files.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

TEST_F(ApiTest, FoldersWithoutARowAreRemoved) {
  const std::string kept = created(), lost = queue::new_job_id();
  for (const std::string& name :
       {lost, kNewFolder + queue::new_job_id(), kGoneFolder + queue::new_job_id()}) {
    fs::create_directories(folder_ / "jobs" / name / "inputs");
    std::ofstream(folder_ / "jobs" / name / "video.mp4") << "x";
  }
  tidy(*service);
  EXPECT_EQ(folders(), 1u);
  EXPECT_TRUE(fs::exists(folder_of(kept).request()));
}

TEST_F(ApiTest, WhatIsNotOursIsLeftAlone) {
  fs::create_directories(folder_ / "jobs" / "my notes");
  fs::create_directories(folder_ / "jobs" / ".git");
  tidy(*service);
  EXPECT_EQ(folders(), 2u);
}

TEST_F(ApiTest, RowsWithoutAFolder) {
  const std::string done = created(), waits = created();
  complete(done);
  fs::remove_all(folder_ / "jobs");
  tidy(*service);
  EXPECT_FALSE(table->find(done));
  EXPECT_TRUE(table->find(waits));
  EXPECT_TRUE(fs::is_directory(folder_of(waits).inputs()));
}

TEST_F(ApiTest, ManyJobsAreTidiedPageByPage) {
  std::vector<std::string> ids;
  for (int i = 0; i < 150; ++i) ids.push_back(created());
  tidy(*service);
  EXPECT_EQ(folders(), 150u);
  for (const std::string& id : ids) EXPECT_TRUE(table->find(id)) << id;
}

TEST_F(ApiTest, AFolderThatIsNotFinishedLeavesNothing) {
  {
    NewFolder folder(folder_, queue::new_job_id());
    std::ofstream(folder.inputs() / "image-1") << "x";
    EXPECT_EQ(folders(), 1u);
  }
  EXPECT_EQ(folders(), 0u);
  {
    NewFolder folder(folder_, queue::new_job_id());
    folder.finish("{}");
    EXPECT_TRUE(fs::exists(folder_ / "jobs" / folder.id() / "request.json"));
  }
  EXPECT_EQ(folders(), 0u) << "without a row it is removed, also under its own name";
}

TEST_F(ApiTest, AnInputThatTwoFieldsNameIsPlacedTwice) {
  NewFolder folder(folder_, queue::new_job_id());
  JobRequest job;
  const http::Part part = file_part("image", "a.png", "pixels");
  job.files = {part.file};
  for (const char* field : {"image", "last_image"})
    job.job.settings.inputs[field] = {part.file->path().string(), part.file->sha256};
  place_inputs(job, folder.inputs(), "/elsewhere");
  const std::string hash = part.file->sha256.substr(0, 16);
  for (const std::string field : {"image", "last_image"}) {
    EXPECT_EQ(job.job.settings.inputs.at(field).path, "/elsewhere/" + field + "-" + hash);
    EXPECT_EQ(fs::file_size(folder.inputs() / (field + "-" + hash)), 6u);
  }
}

}  // namespace
}  // namespace tachy::web_api
