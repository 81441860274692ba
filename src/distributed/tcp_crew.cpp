#include "distributed/tcp_crew.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/os/network.h"
#include "base/os/process.h"
#include "cuda/current_device.h"
#include "distributed/greeting.h"
#include "distributed/nccl_comm.h"
#include "distributed/tcp_comm.h"
#include "tensor/memory.h"

namespace tachy::distributed {
namespace {

constexpr int kGlance = 100, kPatience = 1000;  // milliseconds

}  // namespace

// NVLink multicast stays off unless somebody asks for it: it can take GPUs of a shared host out of service.
void TcpCrew::join(const Meeting& meeting) {
  os::offer_variable("NCCL_NVLS_ENABLE", "0");
  if (!meeting.interface.empty() && !os::ip_address(meeting.interface))
    os::offer_variable("NCCL_SOCKET_IFNAME", "=" + meeting.interface);
  seconds_ = meeting.seconds;
  mesh_ = meet(launch_, meeting);
}

Mesh& TcpCrew::mesh() {
  check(joined(), ErrorCode::internal, "ranks: rank {} has not met the others", rank());
  return *mesh_;
}

std::string TcpCrew::share(std::string mine) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  if (leads())
    for (int p = 1; p < size(); ++p) out.push_back({p, FrameKind::text, bytes_in(mine)});
  std::string theirs;
  if (!leads()) in.push_back({.from = 0, .kind = FrameKind::text, .bytes = {}, .text = &theirs});
  mesh().transfer(out, in, cancel_);
  return leads() ? std::move(mine) : std::move(theirs);
}

// Returns all ranks' texts in rank 0, and nothing in the others.
std::vector<std::string> TcpCrew::gather(const std::string& mine) {
  std::vector<std::string> all(leads() ? static_cast<size_t>(size()) : 0);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  if (!leads()) out.push_back({0, FrameKind::text, bytes_in(mine)});
  for (int p = 1; p < static_cast<int>(all.size()); ++p)
    in.push_back({.from = p, .kind = FrameKind::text, .bytes = {}, .text = &all[static_cast<size_t>(p)]});
  mesh().transfer(out, in, cancel_);
  return all;
}

void TcpCrew::compare(const std::string& mine, const Difference& difference) {
  const std::vector<std::string> all = gather(mine);
  std::string verdict;
  for (int p = 1; p < static_cast<int>(all.size()) && verdict.empty(); ++p)
    if (const std::string text = difference(mine, all[static_cast<size_t>(p)]); !text.empty())
      verdict =
          fmt::format("`distributed`: {} is not about to do the same as rank 0: {}", mesh().name_of(p), text);
  verdict = share(verdict);
  require(verdict.empty(), "{}", verdict);
}

std::unique_ptr<runtime::Comm> TcpCrew::among(int first, int count) {
  check(first <= rank() && rank() < first + count && first + count <= size(), ErrorCode::internal,
        "ranks: {} is not among {} to {}", rank(), first, first + count - 1);
  if (nccl_.joined()) return std::make_unique<NcclComm>(nccl_, first, count, rank() - first);
  return std::make_unique<TcpComm>(mesh_.get(), first, count, rank() - first);
}

// GPUs of another capability take other kernels, whose tensors may have other types.
void TcpCrew::connect(cuda::Gpu* gpu) {
  if (!gpu || size() == 1) return;
  const cuda::CurrentDevice here(gpu);
  const size_t before = gpu->free_bytes();
  connect(fmt::format("a GPU of compute capability {}.{}", gpu->info().major, gpu->info().minor), gpu,
          gpu->stream());
  const size_t after = gpu->free_bytes();
  log_topic("ranks", "NCCL {} connects {} ranks, in {} of the GPU's memory", nccl_.version(), size(),
            human_bytes(before > after ? before - after : 0));
}

void TcpCrew::connect(const std::string& device, DeviceMemory* memory, void* queue) {
  if (nccl_.joined()) return;
  nccl_.open();
  compare(fmt::format("{} and NCCL {}", device, nccl_.version()),
          [](const std::string& first, const std::string& theirs) {
            return first == theirs ? "" : fmt::format("it has {}, and rank 0 has {}", theirs, first);
          });
  const std::string id = share(leads() ? nccl_.new_id() : "");
  const auto patience = std::chrono::milliseconds(static_cast<int64_t>(seconds_ * 1000));
  nccl_.join(id, rank(), size(), watching_ ? &stop_ : cancel_, Clock::now() + patience);
  try_connection(memory, queue);
}

// The first exchange makes the connections and takes their memory, before the run looks how much is free.
void TcpCrew::try_connection(DeviceMemory* memory, void* queue) {
  const auto ranks = static_cast<size_t>(size()), bytes = sizeof(uint32_t);
  const Buffer sent(ranks * bytes, memory), got(ranks * bytes, memory);
  std::vector<uint32_t> numbers(ranks), back(ranks);
  std::vector<cuda::NcclRanks::Part> out, in;
  for (size_t p = 0; p < ranks; ++p) {
    numbers[p] = static_cast<uint32_t>(rank()) << 16 | static_cast<uint32_t>(p);
    if (p == static_cast<size_t>(rank())) continue;
    out.push_back({static_cast<int>(p), static_cast<uint8_t*>(sent.data()) + p * bytes, bytes});
    in.push_back({static_cast<int>(p), static_cast<uint8_t*>(got.data()) + p * bytes, bytes});
  }
  memory ? memory->upload(sent.data(), numbers.data(), ranks * bytes)
         : void(std::memcpy(sent.data(), numbers.data(), ranks * bytes));
  nccl_.exchange(out, in, queue, &stop_);
  memory ? memory->download(back.data(), got.data(), ranks * bytes)
         : void(std::memcpy(back.data(), got.data(), ranks * bytes));
  nccl_.expect_whole();
  for (const cuda::NcclRanks::Part& p : in)
    check(back[static_cast<size_t>(p.peer)] ==
              (static_cast<uint32_t>(p.peer) << 16 | static_cast<uint32_t>(rank())),
          ErrorCode::device, "NCCL: what {} sent did not arrive as it was", mesh().name_of(p.peer));
}

void TcpCrew::settle(Stream& stream) {
  if (!nccl_.joined()) return;
  if (stream.memory) stream.memory->synchronize();
  nccl_.expect_whole();
}

void TcpCrew::agree(uint64_t word) {
  const std::string mine = number_bytes(word, 8);
  std::vector<std::string> all(static_cast<size_t>(size()));
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (int p = 0; p < size(); ++p) {
    if (p == rank()) continue;
    out.push_back({p, FrameKind::word, bytes_in(mine)});
    in.push_back({.from = p, .kind = FrameKind::word, .bytes = {}, .text = &all[static_cast<size_t>(p)]});
  }
  mesh().transfer(out, in, cancel_);
  for (int p = 0; p < size(); ++p)
    check(p == rank() || all[static_cast<size_t>(p)] == mine, ErrorCode::internal,
          "{} is at another place of the run than rank {}, or its latents have other bits", mesh().name_of(p),
          rank());
}

std::optional<std::string> TcpCrew::next(const std::atomic<bool>* cancel) {
  cancel_ = cancel;
  std::string text = share("");
  check(text.starts_with('g') || text.starts_with('s'), ErrorCode::internal, "ranks: rank 0 begins with '{}'",
        text.substr(0, 1));
  if (text.starts_with('s')) return std::nullopt;
  return text.substr(1);
}

const std::atomic<bool>* TcpCrew::watch(const std::atomic<bool>* cancel) {
  mesh();
  stop_watching();
  cancel_ = cancel;
  start_watching(true);
  return &stop_;
}

void TcpCrew::start_watching(bool ranks_too) {
  stop_ = false, lost_ = -1, watching_ = true;
  watcher_ = std::thread([this, ranks_too] {
    while (watching_) {
      if (cancel_ && cancel_->load()) stop_ = true;
      if (!ranks_too || stop_)
        std::this_thread::sleep_for(std::chrono::milliseconds(kGlance));
      else
        look_at_ranks();
      // A device that waits for a rank that is gone would wait for ever, and so would whoever waits for the device.
      if (ranks_too && stop_) nccl_.abort();
    }
  });
}

// NCCL may notice first that a connection has ended, but TCP knows whose it was.
void TcpCrew::look_at_ranks() {
  int gone = mesh_->gone(kGlance);
  const std::string failure = gone < 0 ? nccl_.failure() : "";
  if (!failure.empty()) gone = mesh_->gone(kPatience);
  if (gone >= 0)
    lost_ = gone, stop_ = true;
  else if (!failure.empty())
    failure_ = failure, stop_ = true;
}

// A rank that has met the others here may go at once, so from here on the end of a connection means nothing.
void TcpCrew::rest() {
  agree(~uint64_t{0});
  stop_watching();
  start_watching(false);
}

void TcpCrew::stop_watching() noexcept {
  watching_ = false;
  if (watcher_.joinable()) watcher_.join();
}

Error TcpCrew::reason_for(const Error& error) {
  // NCCL tells of a rank that is gone as of an error of the device, and maybe before the watcher does.
  const bool of_device = error.code() == ErrorCode::device && nccl_.opened();
  for (int waited = 0; of_device && lost_ < 0 && watching_ && waited < 2 * kPatience; waited += kGlance)
    std::this_thread::sleep_for(std::chrono::milliseconds(kGlance));
  const bool follows = error.code() == ErrorCode::cancelled || of_device;
  if (!follows || !joined() || (cancel_ && cancel_->load())) return error;
  if (const int lost = lost_; lost >= 0) return mesh().reason_of(lost);
  const bool failed = stop_ && !failure_.empty() && error.code() == ErrorCode::cancelled;
  return failed ? Error(ErrorCode::device, failure_) : error;
}

void TcpCrew::end(const Error& error) noexcept {
  stop_watching();
  if (joined()) mesh_->end(error);
}

}  // namespace tachy::distributed
