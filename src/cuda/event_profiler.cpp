// An event's time is its distance from a base event that was read recently, because the distance is a float
// of milliseconds: over minutes it would be off by more than a short kernel takes.
#include "cuda/event_profiler.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "cuda/current_device.h"
#include "cuda/nvtx_range.h"
#include "cuda/runtime.h"

namespace tachy::cuda {
namespace {

constexpr size_t kGather = 4096;  // at this number of open or unread ranges, those that have passed are read

struct Mark {
  cudaEvent_t event = nullptr;
  double us = -1;  // time on the host's clock; set when read
};

struct Range {
  const char* name;
  ProfileKind kind;
  int64_t index;
  uint64_t host;  // the host profiler's token
  std::shared_ptr<Mark> start, stop;
};

}  // namespace

struct EventProfiler::State {
  Gpu& gpu;
  Profiler& host;
  DeviceTimes& times;
  const int rank;
  std::thread::id owner = std::this_thread::get_id();
  uint64_t count = 0;                              // tokens given to the owner's thread
  std::vector<std::pair<uint64_t, Range>> ranges;  // in the order of their beginning
  std::vector<cudaEvent_t> spare;
  std::shared_ptr<Mark> base;
  size_t gather = kGather;

  // This marks a token of another thread, which only the host profiler knows.
  static constexpr uint64_t kForeign = uint64_t{1} << 63;

  State(Gpu& g, Profiler& h, DeviceTimes& t, int r) : gpu(g), host(h), times(t), rank(r) {
    gpu.synchronize();
    base = mark();
    check(base != nullptr, ErrorCode::device, "profiler: no event can be recorded on {}", gpu.info().name);
    check_cuda(cudaEventSynchronize(base->event), "profiler");
    base->us = times.now_us();
  }
  ~State() {
    for (auto& [token, range] : ranges) give_back(range.start), give_back(range.stop);
    give_back(base);
    for (cudaEvent_t event : spare) cudaEventDestroy(event);
  }

  bool mine() const { return rank > 0 || std::this_thread::get_id() == owner; }

  void give_back(std::shared_ptr<Mark>& m) {
    if (m && m->event && m.use_count() == 1) spare.push_back(m->event);
    m.reset();
  }

  // Returns null while the stream is captured, or if CUDA has failed, because a range also ends while an
  // error passes.
  std::shared_ptr<Mark> mark() {
    const CurrentDevice here(&gpu);
    const auto stream = static_cast<cudaStream_t>(gpu.stream());
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &status);
    if (status != cudaStreamCaptureStatusNone) return nullptr;
    auto m = std::make_shared<Mark>();
    if (!spare.empty()) {
      m->event = spare.back();
      spare.pop_back();
    } else if (cudaEventCreate(&m->event) != cudaSuccess) {
      cudaGetLastError();
      return nullptr;
    }
    if (cudaEventRecord(m->event, stream) == cudaSuccess) return m;
    cudaGetLastError();
    spare.push_back(m->event);
    return nullptr;
  }

  // True when the mark's time is known.
  bool known(const std::shared_ptr<Mark>& m) {
    if (m->us >= 0) return true;
    if (cudaEventQuery(m->event) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    float ms = 0;
    if (cudaEventElapsedTime(&ms, base->event, m->event) != cudaSuccess) {
      cudaGetLastError();
      return false;
    }
    m->us = base->us + 1e3 * static_cast<double>(ms);
    return true;
  }

  // Reads the marks that have passed. A range's start is read early, so that no distance grows long.
  void gather_passed() {
    std::shared_ptr<Mark> latest = base;
    std::vector<std::pair<uint64_t, Range>> left;
    for (auto& [token, r] : ranges) {
      const bool started = r.start && known(r.start);
      const bool done = started && r.stop && known(r.stop);
      if (started && r.start->us > latest->us) latest = r.start;
      if (done && r.stop->us > latest->us) latest = r.stop;
      if (done)
        times.add_device_event(
            {r.name, r.kind, r.index, device_lane(gpu.info().index, rank), r.start->us, r.stop->us});
      else
        left.push_back({token, std::move(r)});
      if (done) give_back(r.start), give_back(r.stop);
    }
    ranges = std::move(left);
    if (latest != base) {
      give_back(base);
      base = std::move(latest);
    }
    gather = ranges.size() + kGather;
  }

  uint64_t open(const char* name, ProfileKind kind, int64_t index, std::shared_ptr<Mark> start) {
    push_range(name, index);
    const uint64_t token = count++;
    ranges.push_back({token, {name, kind, index, host.begin(name, kind, index), std::move(start), nullptr}});
    return token;
  }

  void close(uint64_t token) {
    // The range is among the last ones, because ranges are nested.
    const auto found =
        std::find_if(ranges.rbegin(), ranges.rend(), [&](const auto& r) { return r.first == token; });
    if (found == ranges.rend()) return;
    Range& r = found->second;
    host.end(r.host);
    pop_range();
    auto stop = mark();
    if (r.start && stop)
      r.stop = stop;
    else
      ranges.erase(std::next(found).base());
  }
};

EventProfiler::EventProfiler(Gpu& gpu, Profiler& host, DeviceTimes& times, int rank)
    : state_(std::make_unique<State>(gpu, host, times, rank)) {}
EventProfiler::~EventProfiler() = default;

uint64_t EventProfiler::begin(const char* name, ProfileKind kind, int64_t index) {
  State& s = *state_;
  if (!s.mine()) return s.host.begin(name, kind, index) | State::kForeign;
  if (s.ranges.size() >= s.gather) s.gather_passed();
  return s.open(name, kind, index, s.mark());
}

void EventProfiler::end(uint64_t token) {
  State& s = *state_;
  if (token & State::kForeign) return s.host.end(token & ~State::kForeign);
  s.close(token);
}

void EventProfiler::resolve() {
  state_->gpu.synchronize();
  state_->gather_passed();
}

}  // namespace tachy::cuda
