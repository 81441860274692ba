// Plants a kernel that traps on the last of several GPUs while they make a video, and tells how long it takes until the
// run ends, and with which error. All must end within 5 s of the trap.
//
//   lab_rank_trap FOLDER [GPUS] [SIZE] [STEPS]       FOLDER is a model's; by default 2 GPUs, 64 and 50
//
// The trap is launched after the third step. A device that trapped is of no use to the process, which leaves at once.
#include <cuda_runtime.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "engine/text_to_video.h"

using namespace tachy;

namespace {

constexpr const char* kTrap =
    ".version 7.8\n.target sm_52\n.address_size 64\n.visible .entry planted() { trap; ret; }\n";

void expect(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "rank_trap: %s\n", cudaGetErrorString(status));
  std::_Exit(2);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int run(const char* folder, int gpus, int size, int steps) {
  VideoRequest request;
  request.prompt = "a red circle moves right";
  request.width = request.height = size, request.frames = 9, request.steps = steps, request.guidance = 1;
  TextToVideo::Options options{.device = "cuda:0"};
  const int cards = cuda::gpu_count();
  for (int gpu = 0; gpu < gpus; ++gpu) options.gpus.push_back(gpu % cards);
  const int last = options.gpus.back();
  cudaLibrary_t library{};
  cudaKernel_t kernel{};
  expect(cudaSetDevice(last));
  expect(cudaLibraryLoadData(&library, kTrap, nullptr, nullptr, 0, nullptr, nullptr, 0));
  expect(cudaLibraryGetKernel(&kernel, library, "planted"));
  TextToVideo pipeline(ModelBundle::open(folder), options);
  double planted = 0;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    if (p.stage != std::string_view("denoise") || p.done != 3 || planted > 0) return;
    planted = now();
    int before = 0;
    expect(cudaGetDevice(&before));
    expect(cudaSetDevice(last));
    expect(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), 1, 1, nullptr, 0, nullptr));
    cudaSetDevice(before);
  };
  try {
    pipeline.generate(request, callbacks);
    std::printf("the run went on after the trap\n");
    return 1;
  } catch (const Error& e) {
    const double seconds = now() - planted;
    std::printf("%d ranks ended %.2f s after the trap%s: %s\n", gpus, seconds,
                seconds < 5 ? "" : ", TOO LATE", e.what());
    return planted > 0 && seconds < 5 ? 0 : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || cuda::gpu_count() == 0) return 2;
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  const int code = run(argv[1], number(2, 2), number(3, 64), number(4, 50));
  std::fflush(stdout);
  std::_Exit(code);
}
