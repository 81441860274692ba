// On which device the engine of a job is opened, above all where several processes make a video together.
#include "jobs/open_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "../cli/binary.h"
#include "base/error.h"
#include "cuda/open_device.h"
#include "distributed/tcp_crew.h"

namespace tachy::jobs {
namespace {

using testing::HasSubstr;

// One of four processes of a host, which has met none of the others.
std::shared_ptr<runtime::Crew> process_at(int place) {
  return std::make_shared<distributed::TcpCrew>(distributed::Launch{.rank = place,
                                                                    .ranks = 4,
                                                                    .local_rank = place,
                                                                    .local_ranks = 4,
                                                                    .host = "127.0.0.1",
                                                                    .launcher = "torchrun"});
}

struct SilentSink : JobSink {
  void event(const nlohmann::json&, const std::string&) override {}
  void notice(const std::string& text) override { ADD_FAILURE() << text; }
  void progress(const Progress&) override {}
  void end_of_progress() override {}
  void can_go_on(const std::string&) override {}
};

class OpenEngine : public testing::Test {
 protected:
  OpenEngine() { job_.settings.model = test::model_path(); }
  ~OpenEngine() override { ::unsetenv("TACHY_DEVICE"); }

  // Returns the GPU of a process on a host with four.
  std::string gpu_of(const std::string& wish, int place) const {
    return cuda::device_of_process(device_to_open(job_, {.crew = process_at(place), .device = wish}), place,
                                   4, "");
  }

  JobSpec job_;
};

TEST_F(OpenEngine, ProcessesOfAHostTakeAGpuEach) {
  for (const char* wish : {"cuda", "auto", ""})
    for (int place = 0; place < 4; ++place)
      EXPECT_EQ(gpu_of(wish, place), "cuda:" + std::to_string(place)) << "'" << wish << "'";
  EXPECT_EQ(gpu_of("cuda:2", 1), "cuda:2");
  EXPECT_EQ(gpu_of("cpu", 1), "cpu");
}

TEST_F(OpenEngine, AProcessByItselfTakesTheFirst) {
  EXPECT_EQ(device_to_open(job_, {.device = "cuda"}), "cuda:0");
  EXPECT_EQ(device_to_open(job_, {.device = "cuda:3"}), "cuda:3");
  EXPECT_EQ(device_to_open(job_, {.device = "cpu"}), "cpu");
}

TEST_F(OpenEngine, WhatIsRepeatedStaysOnItsKindOfDevice) {
  job_.settings.device = "cpu";
  EXPECT_EQ(gpu_of("", 3), "cpu");
  EXPECT_EQ(gpu_of("cuda", 3), "cuda:3");  // somebody named another one
  job_.settings.device = "cuda", job_.from = "an earlier run";
  try {
    EXPECT_EQ(gpu_of("", 3), "cuda:3");
    EXPECT_TRUE(gpu_there(nullptr));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_THAT(e.message(), HasSubstr("an earlier run comes from a run on a GPU"));
  }
}

TEST_F(OpenEngine, AProcessOfSeveralLooksAtItsDeviceBeforeItsLimits) {
  ::setenv("TACHY_DEVICE", "cpu", 1);
  SilentSink sink;
  const OpenedEngine opened = open_engine(job_, {.threads = 1, .crew = process_at(1), .device = ""}, sink);
  EXPECT_EQ(opened.engine.device(), "cpu");
  EXPECT_FALSE(opened.first);
  try {
    open_engine(job_, {.threads = 1, .crew = process_at(1), .device = "", .max_vram = uint64_t{8} << 30},
                sink);
    ADD_FAILURE() << "a limit of a GPU's memory was taken on the CPU";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.message(), HasSubstr("`max_vram`"));
  }
}

}  // namespace
}  // namespace tachy::jobs
