// How soon a GPU is idle after a run was told to hold, or to stop, in the middle of a step or of decoding. A
// second thread sets the flag and then waits for the device again and again: it is idle from the end of the
// last wait that took any time.
//
//   lab_hold_on_gpu MODEL WIDTH HEIGHT FRAMES STEPS [TIMES]
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "api/tachyscope.h"
#include "base/clock.h"

using namespace tachy;

namespace {

constexpr double kWorks = 200e-6, kQuiet = 0.15;  // seconds

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Returns the seconds from `begin` until the device had nothing to do.
double seconds_until_idle(double begin) {
  double idle = begin;
  for (double now = begin; now < idle + kQuiet;) {
    cudaDeviceSynchronize();
    const double end = monotonic_seconds();
    if (end - now > kWorks) idle = end;
    now = end;
  }
  return idle - begin;
}

struct Run {
  Engine& engine;
  const PreparedRequest& prepared;
  std::atomic<bool> hold{false}, cancel{false}, ended{false};
  std::atomic<int64_t> denoised{0}, decoded{0};
  std::thread thread;

  void start() {
    thread = std::thread([this] {
      VideoCallbacks callbacks{.hold = &hold};
      callbacks.cancel = &cancel;
      callbacks.progress = [this](const Progress& p) {
        if (p.stage == "denoise") denoised = p.done;
        if (p.stage == "decode") decoded = p.done;
      };
      try {
        engine.generate(prepared, callbacks);
      } catch (const Error& e) {
        if (e.code() != ErrorCode::cancelled) fmt::print("failed: {}\n", e.message());
      }
      ended = true;
    });
  }
  void wait(const std::atomic<int64_t>& count, int64_t least) const {
    while (count < least && !ended) sleep_for(1e-3);
  }
  void stop(const char* stage) {
    const double begin = monotonic_seconds();
    cancel = true;
    thread.join();
    fmt::print("cancel while {}: generate() returned after {:.3f} s\n", stage, monotonic_seconds() - begin);
  }
};

size_t used_bytes() {
  size_t free = 0, all = 0;
  cudaMemGetInfo(&free, &all);
  return all - free;
}

void hold_some_times(Run& run, int times, const std::atomic<int64_t>& count, const char* stage) {
  for (int i = 0; i < times && !run.ended; ++i) {
    sleep_for(0.05 + 0.13 * (i % 7));
    if (run.ended) break;
    const double begin = monotonic_seconds();
    run.hold = true;
    const double idle = seconds_until_idle(begin);
    const int64_t before = count;
    sleep_for(0.2);
    fmt::print("hold while {}: the device is idle after {:.3f} s{}\n", stage, idle,
               count == before ? "" : ", but the run went on");
    run.hold = false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return fmt::print("lab_hold_on_gpu MODEL WIDTH HEIGHT FRAMES STEPS [TIMES]\n"), 2;
  const int times = argc > 6 ? std::atoi(argv[6]) : 6;
  Engine engine(argv[1], {.keep_loaded = true, .device = "cuda"});
  VideoRequest request;
  request.prompt = "a cat", request.seed = 1, request.width = std::atoi(argv[2]),
  request.height = std::atoi(argv[3]);
  request.frames = std::atoi(argv[4]), request.steps = std::atoi(argv[5]);
  const PreparedRequest prepared = engine.prepare(request);
  const size_t before = used_bytes();
  const double begin = monotonic_seconds();
  engine.generate(prepared);
  fmt::print("planned {:.2f} GB; after one run {:.2f} GB are in use, {:.2f} before; {:.2f} s\n",
             prepared.plan().peak_bytes / 1e9, used_bytes() / 1e9, before / 1e9, monotonic_seconds() - begin);
  {
    Run run{engine, prepared};
    run.start();
    run.wait(run.denoised, 1);
    hold_some_times(run, times, run.denoised, "denoising");
    run.wait(run.decoded, 1);
    hold_some_times(run, 2, run.decoded, "decoding");
    run.thread.join();
  }
  for (const bool decoding : {false, true}) {
    Run run{engine, prepared};
    run.start();
    run.wait(decoding ? run.decoded : run.denoised, 1);
    sleep_for(0.05);
    run.stop(decoding ? "decoding" : "denoising");
  }
  fmt::print("after the cancels {:.2f} GB are in use\n", used_bytes() / 1e9);
}
