#include "distributed/tcp_crew.h"

#include <fmt/format.h>

#include "distributed/greeting.h"
#include "distributed/tcp_comm.h"

namespace tachy::distributed {
namespace {

constexpr int kGlance = 100;  // milliseconds

}  // namespace

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
  return std::make_unique<TcpComm>(mesh_.get(), first, count, rank() - first);
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
      if (!ranks_too || lost_ >= 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(kGlance));
      else if (const int gone = mesh_->gone(kGlance); gone >= 0)
        lost_ = gone, stop_ = true;
    }
  });
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
  const int lost = lost_;
  const bool own = error.code() != ErrorCode::cancelled || (cancel_ && cancel_->load());
  return own || lost < 0 || !joined() ? error : mesh().reason_of(lost);
}

void TcpCrew::end(const Error& error) noexcept {
  stop_watching();
  if (joined()) mesh_->end(error);
}

}  // namespace tachy::distributed
