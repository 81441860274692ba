// Measures whether the file keeps pace with the frames: it feeds the writer that `generate` uses, and prints
// how long after the last frame the file is complete.
//
//   lab_encode_pace CLIP WIDTH HEIGHT FRAMES MS [film|clean|noise] [speed=NAME …] [threads=N …] [rounds=N]
//                   [to=FILE.mp4]
//
// CLIP is a video of the shipped model (tachyscope generate "a red circle moves right" -o clip.mp4), MS is
// the time between two frames: 3.6 for Wan 2.1's decoder in 8 bits at 480p on an H200, 8.3 at 720p, 15 for Wan
// 2.2's at 704x1280. "clean" means the frames of CLIP without grain, which are left out unless they are named.
// Every speed is run with every number of threads (0: as generate does); the rounds of each must give the same
// bytes.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "base/thread_pool.h"
#include "media/video/background_writer.h"
#include "test_frames.h"

namespace tachy::lab {
namespace {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Run {
  double waited = 0, after_last = 0, cpu = 0;  // in seconds
  std::string bytes;
};

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return double(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * double(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Run run_once(const fs::path& path, const std::vector<RgbFrame>& frames, double ms,
             const VideoOptions& options) {
  Run run;
  const double cpu = cpu_seconds();
  BackgroundWriter writer(VideoWriter::open(path, frames[0].width, frames[0].height, options));
  auto due = Clock::now();
  for (const RgbFrame& frame : frames) {
    due += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(ms));
    std::this_thread::sleep_until(due);
    const auto begin = Clock::now();
    writer.write(frame.view());
    run.waited += since(begin);
  }
  const auto last = Clock::now();
  writer.finish();
  run.after_last = since(last);
  run.cpu = cpu_seconds() - cpu;
  std::ifstream file(path, std::ios::binary);
  run.bytes.assign(std::istreambuf_iterator<char>(file), {});
  return run;
}

// The values of the words "KEY=VALUE" on the command line, or the default if there are none.
std::vector<std::string> values(int argc, char** argv, const std::string& key, const std::string& without) {
  std::vector<std::string> out;
  for (int i = 6; i < argc; ++i)
    if (std::string(argv[i]).starts_with(key + "=")) out.push_back(argv[i] + key.size() + 1);
  return out.empty() ? std::vector<std::string>{without} : out;
}

int run(int argc, char** argv) {
  const int width = std::atoi(argv[2]), height = std::atoi(argv[3]), count = std::atoi(argv[4]);
  const double ms = std::atof(argv[5]);
  const std::vector<RgbFrame> clip = read_video(argv[1]);
  const fs::path path = values(argc, argv, "to", fmt::format("/tmp/encode_pace.{}.mp4", ::getpid()))[0];
  const int rounds = std::stoi(values(argc, argv, "rounds", "3")[0]);
  bool same = true;
  const auto named = [&](const char* word) {
    return std::count(argv + 6, argv + argc, std::string(word)) > 0;
  };
  const bool any = named("film") || named("clean") || named("noise");
  for (const char* content : {"film", "clean", "noise"}) {
    if (any ? !named(content) : content[0] == 'c') continue;
    std::vector<RgbFrame> frames(static_cast<size_t>(count));
    ThreadPool(available_processors()).run(count, [&](int64_t t, int) {
      frames[size_t(t)] = content[0] == 'n'
                              ? noise_frame(width, height, int(t))
                              : film_frame(clip, width, height, int(t), content[0] == 'f' ? 4 : 0);
    });
    fmt::print("\n{}, {} frames of {}x{}, one every {} ms, {} processors\n\n", content, count, width, height,
               ms, std::thread::hardware_concurrency());
    fmt::print(
        "| speed | threads | complete after the last frame, s | frames waited, s | CPU s | MB | bytes |\n| "
        "--- | --- | --- | --- | --- | --- | --- |\n");
    for (const std::string& speed : values(argc, argv, "speed", ""))
      for (const std::string& threads : values(argc, argv, "threads", "0")) {
        std::vector<Run> runs;
        for (int round = 0; round < rounds; ++round)
          runs.push_back(run_once(path, frames, ms, {.speed = speed, .threads = std::stoi(threads)}));
        const bool equal =
            std::all_of(runs.begin(), runs.end(), [&](const Run& r) { return r.bytes == runs[0].bytes; });
        same = same && equal;
        std::sort(runs.begin(), runs.end(),
                  [](const Run& a, const Run& b) { return a.after_last < b.after_last; });
        const Run& r = runs[runs.size() / 2];
        fmt::print("| {} | {} | {:.3f} (to {:.3f}) | {:.3f} | {:.2f} | {:.2f} | {} |\n",
                   speed.empty() ? "default" : speed, threads, r.after_last, runs.back().after_last, r.waited,
                   r.cpu, double(r.bytes.size()) / 1e6, equal ? "same" : "DIFFER");
        std::fflush(stdout);
      }
  }
  fs::remove(path);
  return same ? 0 : 1;
}

}  // namespace
}  // namespace tachy::lab

int main(int argc, char** argv) {
  if (argc < 6)
    return std::fputs(
               "lab_encode_pace CLIP WIDTH HEIGHT FRAMES MS [film|clean|noise] [speed=NAME …] [threads=N …] "
               "[rounds=N] [to=FILE.mp4]\n",
               stderr),
           2;
  try {
    return tachy::lab::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "lab_encode_pace: %s\n", e.what());
    return 1;
  }
}
