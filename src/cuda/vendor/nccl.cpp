#include "cuda/vendor/nccl.h"

#include <cstring>
#include <thread>

namespace tachy::cuda {
namespace {

constexpr auto kTakingDown = std::chrono::milliseconds(100);

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

// NCCL takes a handle down in a thread of its own and tells nobody when that is done. A process that ends meanwhile
// unloads CUDA under that thread.
NcclRanks::~NcclRanks() {
  abort();
  if (left_ != Clock::time_point{}) std::this_thread::sleep_until(left_ + kTakingDown);
}

void NcclRanks::open() {
  if (opened()) return;
  static constexpr const char *names[] = {"libnccl.so.2"}, *packages[] = {"nccl/lib", "lib"};
  std::string why;
  tachy::check(
      api_.library.open(names, packages, why), ErrorCode::unsupported,
      "`distributed`: GPUs of several processes exchange by NCCL 2.28 or later: {}; `device` cpu needs none",
      why);
  api_.library.find("ncclGetVersion", api_.version);
  int version = 0;
  const NcclResult result = api_.version(&version);
  tachy::check(result == kNcclSuccess && version >= kLeastNccl, ErrorCode::unsupported,
               "`distributed`: GPUs of several processes exchange by NCCL 2.28 or later, and {} is {}; "
               "TACHY_CUDA_LIBRARIES can name another one's folder",
               api_.library.name(), version_text(version));
  api_.find_all();
  version_ = version;
}

std::string NcclRanks::version() const { return version_text(version_); }

std::string NcclRanks::text_of(NcclResult result) const {
  std::string out = api_.error_text(result);
  const char* const more = api_.last_error(comm_);
  if (more && *more) out += fmt::format(" ({})", more);
  return out;
}

void NcclRanks::check(NcclResult result, const char* what) {
  if (result != kNcclSuccess && result != kNcclInProgress)
    fail(ErrorCode::device, "NCCL: {}: {}", what, text_of(result));
}

std::string NcclRanks::new_id() {
  NcclId id{};
  const std::lock_guard lock(mutex_);
  check(api_.new_id(&id), "an id for the ranks");
  return {id.bytes, sizeof id.bytes};
}

void NcclRanks::join(const std::string& text, int rank, int ranks, const std::atomic<bool>* cancel,
                     Clock::time_point until) {
  NcclId id{};
  tachy::check(text.size() == sizeof id.bytes, ErrorCode::internal, "NCCL: an id of {} bytes", text.size());
  std::memcpy(id.bytes, text.data(), sizeof id.bytes);
  {
    const std::lock_guard lock(mutex_);
    expect_whole();
    NcclConfig config;
    const NcclResult begun = api_.join(&made_, ranks, id, rank, &config);
    comm_ = made_;
    check(begun, "joining the ranks");
  }
  await("joining the ranks", cancel, until);
  joined_ = true;
}

void NcclRanks::exchange(std::span<const Part> out, std::span<const Part> in, void* queue,
                         const std::atomic<bool>* cancel) {
  if (out.empty() && in.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    expect_whole();
    check(api_.begin_group(), "an exchange");
    NcclResult worst = kNcclSuccess;
    const auto note = [&](NcclResult result) {
      if (result != kNcclSuccess && result != kNcclInProgress) worst = result;
    };
    for (const Part& p : out) note(api_.send(p.data, p.bytes, kNcclBytes, p.peer, comm_, queue));
    for (const Part& p : in) note(api_.receive(p.data, p.bytes, kNcclBytes, p.peer, comm_, queue));
    note(api_.end_group());
    check(worst, "an exchange");
  }
  await("an exchange", cancel, {});
}

void NcclRanks::await(const char* what, const std::atomic<bool>* cancel,
                      std::optional<Clock::time_point> until) {
  for (int looks = 0;; ++looks) {
    {
      const std::lock_guard lock(mutex_);
      expect_whole();
      NcclResult state = kNcclSuccess;
      check(api_.state(comm_, &state), what);
      check(state, what);
      if (state == kNcclSuccess) return;
    }
    tachy::check(!cancel || !cancel->load(), ErrorCode::cancelled, "cancelled");
    tachy::check(!until || Clock::now() < *until, ErrorCode::device, "NCCL: {} takes too long", what);
    if (looks < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(looks < 2000 ? 50 : 1000));
  }
}

std::string NcclRanks::failure() {
  const std::lock_guard lock(mutex_);
  if (!joined_ || !comm_) return "";
  NcclResult state = kNcclSuccess;
  const NcclResult asked = api_.state(comm_, &state);
  if (asked != kNcclSuccess) state = asked;
  return state == kNcclSuccess || state == kNcclInProgress ? "" : "NCCL: " + text_of(state);
}

// Others find the mark before what they wait for ends. NCCL waits here for its own threads, so the lock is not held.
void NcclRanks::abort() noexcept {
  NcclHandle* comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    std::swap(comm, comm_);
  }
  if (comm) api_.abort(comm), left_ = Clock::now();
}

void NcclRanks::expect_whole() const { tachy::check(!aborted_, ErrorCode::cancelled, "cancelled"); }

}  // namespace tachy::cuda
