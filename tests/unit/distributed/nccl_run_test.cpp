// Whole runs of several processes with a device each, here as threads with simulated devices (host_device.h) and a
// library in NCCL's place: frames, latents and memory are those of one process and of its plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "../pipelines/host_device.h"
#include "../pipelines/talk_model.h"
#include "distributed/tcp_crew.h"

namespace tachy::distributed {
namespace {

namespace fs = std::filesystem;

class NcclRuns : public testing::Test {
 protected:
  NcclRuns() {
    fs::create_directories(folder_.path / "nccl/lib");
    fs::copy_file(STANDIN_NCCL, folder_.path / "nccl/lib/libnccl.so.2");
    ::setenv("TACHY_CUDA_LIBRARIES", folder_.path.c_str(), 1);
  }
  ~NcclRuns() override { ::unsetenv("TACHY_CUDA_LIBRARIES"), ::unsetenv("TACHY_RANK_DECODE"); }

  struct Film {
    std::function<ModelBundle()> open;
    std::function<VideoPlan(TextToVideo&)> plan;
    std::function<test::Result(TextToVideo&)> run;
  };
  static Film film(const VideoRequest& request) {
    return {[] { return ModelBundle::open(test::model_path()); },
            [=](TextToVideo& pipeline) { return pipeline.plan(request); },
            [=](TextToVideo& pipeline) { return test::run(pipeline, request); }};
  }

  // Makes it with so many processes, and returns what the first one hands out.
  static test::Result divided(const Film& film, int ranks, const char* parallel) {
    const uint16_t port = [] {
      std::error_code error;
      return os::Socket::listening({*os::ip_address("127.0.0.1"), 0}, error).local()->port;
    }();
    test::Result out;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto crew = std::make_shared<TcpCrew>(Launch{.rank = rank,
                                                           .ranks = ranks,
                                                           .local_rank = rank,
                                                           .local_ranks = ranks,
                                                           .host = "127.0.0.1",
                                                           .port = port,
                                                           .launcher = "torchrun"});
        try {
          crew->join({.secret = "a secret of sixteen", .seconds = 20});
          const auto device = std::make_shared<test::HostDevice>(size_t{1} << 30);
          crew->connect("a device", device.get(), nullptr);
          TextToVideo pipeline(film.open(), {.threads = 1,
                                             .parallel = parse_parallel(parallel, ranks, "distributed"),
                                             .weights = WeightMode::packed,
                                             .crew = crew,
                                             .memory = device});
          const VideoPlan plan = film.plan(pipeline);
          device->reset_peak();
          test::Result mine = film.run(pipeline);
          EXPECT_EQ(device->peak_bytes(), plan.peak_bytes) << "rank " << rank;
          if (rank == 0)
            out = std::move(mine);
          else
            EXPECT_EQ(mine.frames, 0) << "rank " << rank;
        } catch (const Error& e) {
          ADD_FAILURE() << "rank " << rank << ": " << e.message();
          crew->end(e);
        }
      });
    for (std::thread& thread : threads) thread.join();
    return out;
  }

  static void expect_bits_of_one(const Film& film, int ranks, const char* parallel = "auto") {
    TextToVideo alone(film.open(), {.threads = 2, .weights = WeightMode::packed});
    const test::Result one = film.run(alone), several = divided(film, ranks, parallel);
    EXPECT_EQ(several.latents, one.latents) << ranks << " ranks, " << parallel;
    EXPECT_EQ(several.rgb, one.rgb) << ranks << " ranks, " << parallel;
    EXPECT_GT(several.frames, 0);
  }

  const test::ScratchFolder folder_;
};

TEST_F(NcclRuns, HaveTheBitsOfOne) {
  VideoRequest request = test::short_request();
  request.guidance = 5;
  expect_bits_of_one(film(request), 2);
  expect_bits_of_one(film(request), 4);
  expect_bits_of_one(film(request), 3, "ulysses=3");
  request.guidance = 1;
  expect_bits_of_one(film(request), 5);
}

TEST_F(NcclRuns, DecodeByRows) {
  ::setenv("TACHY_RANK_DECODE", "rows", 1);
  VideoRequest request = test::short_request();
  request.guidance = 5;
  expect_bits_of_one(film(request), 2);
  expect_bits_of_one(film(request), 3, "ulysses=3");
  // This picture has fewer rows of latents than there are processes.
  expect_bits_of_one(film(request), 8);
}

TEST_F(NcclRuns, OfVideosThatAreMadeBlockByBlock) {
  VideoRequest request = test::short_request();
  request.frames = 9, request.block = 1, request.sampler = "euler", request.steps = 2, request.guidance = 1;
  expect_bits_of_one(film(request), 2);
}

TEST_F(NcclRuns, OfTalkingPhotos) {
  const VideoRequest request = test::talk_request(13);
  const auto plan = [=](TextToVideo& pipeline) {
    Resolved r = pipeline.resolved(request);
    r.speech = request.speech->samples;
    return pipeline.prepare(std::move(r)).plan;
  };
  const auto run = [=](TextToVideo& pipeline) { return test::talk(pipeline, request); };
  expect_bits_of_one({[] { return test::talk_model().open(); }, plan, run}, 2);
}

}  // namespace
}  // namespace tachy::distributed
