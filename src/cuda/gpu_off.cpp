// What a build without CUDA has in place of a GPU: there is none.
#include "base/error.h"
#include "cuda/capture_leave.h"
#include "cuda/current_device.h"
#include "cuda/event_profiler.h"
#include "cuda/gpu.h"
#include "cuda/gpu_facts.h"
#include "cuda/graph.h"
#include "cuda/peers.h"

namespace tachy::cuda {
namespace {

constexpr const char* kWhy =
    "this build has no kernels for GPUs (where nvcc is installed, make build CMAKE_FLAGS=-DTACHY_CUDA=ON "
    "makes one that has)";

}  // namespace

int gpu_count(std::string* why) {
  if (why) *why = kWhy;
  return 0;
}

std::unique_ptr<Gpu> open_gpu(int, std::optional<OutsideQueue>) { fail(ErrorCode::unsupported, "{}", kWhy); }

void prepare_peers(std::span<Gpu* const>) noexcept {}
std::shared_ptr<void> wake_peers(const std::vector<int>&) noexcept { return nullptr; }
std::unique_ptr<PeerGroup> join_peers(std::span<Gpu* const>) { fail(ErrorCode::unsupported, "{}", kWhy); }

int CurrentDevice::enter(int) noexcept { return kSame; }
int CaptureLeave::exchange(int) noexcept { return 0; }
void CurrentDevice::leave(int) noexcept {}

std::unique_ptr<Graph> capture(Gpu&, const std::function<void()>&) {
  fail(ErrorCode::unsupported, "graph: this build has no CUDA");
}

double device_us(Gpu&, const std::function<void()>&) {
  fail(ErrorCode::unsupported, "device time: this build has no CUDA");
}

std::vector<std::pair<std::string, std::string>> vendor_libraries(Gpu&) { return {}; }
std::string kernels_of_build() { return "none"; }

struct EventProfiler::State {};
EventProfiler::EventProfiler(Gpu&, Profiler&, DeviceTimes&, int) {
  fail(ErrorCode::unsupported, "profiler of a GPU: this build has no CUDA");
}
EventProfiler::~EventProfiler() = default;
uint64_t EventProfiler::begin(const char*, ProfileKind, int64_t) { return 0; }
void EventProfiler::end(uint64_t) {}
void EventProfiler::resolve() {}

}  // namespace tachy::cuda
