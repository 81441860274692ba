#include "distributed/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <thread>

namespace tachy::distributed {

using std::chrono::milliseconds;

namespace {

constexpr int kTick = 100;  // milliseconds after which a transfer looks at its flag

}  // namespace

class Mesh::Transfer {
 public:
  Transfer(Mesh& mesh, std::span<const Outgoing> out, std::span<const Incoming> in)
      : mesh_(mesh), sending_(out.begin(), out.end()), receiving_(in.begin(), in.end()) {}

  void run(const std::atomic<bool>* cancel, std::optional<Clock::time_point> until) {
    while (!step()) {
      check(!cancel || !cancel->load(), ErrorCode::cancelled, "cancelled");
      check(!until || Clock::now() < *until, ErrorCode::device, "{} does not answer", slowest());
    }
  }

  // Sends the rest of frames that have begun, so that others find the next one, and notes where in a frame
  // this rank stops reading.
  void leave() noexcept {
    for (const Receiving& r : receiving_) {
      Link& link = mesh_.link(r.from());
      link.unread = r.rest().value_or(0), link.torn = !r.rest();
    }
    receiving_.clear();
    std::erase_if(sending_, [](const Sending& s) { return !s.begun(); });
    tell();
  }

  // Sends what is to be sent within a second, and passes over ranks that are gone.
  void tell() noexcept {
    leaving_ = true;
    const auto until = Clock::now() + std::chrono::seconds(1);
    try {
      while (!step() && Clock::now() < until) {
      }
    } catch (...) {  // without memory the others learn less
    }
  }

 private:
  // Waits a little for what can be done next, and does it. Returns whether all is done.
  bool step() {
    std::map<int, os::Awaited> of_rank;
    for (const Sending& s : sending_)
      if (!s.finished()) of_rank[s.to()].to_write = true;
    for (const Receiving& r : receiving_)
      if (!r.finished()) of_rank[r.from()].to_read = true;
    if (of_rank.empty()) return true;
    std::vector<os::Awaited> all;
    for (auto& [rank, awaited] : of_rank) {
      awaited.socket = mesh_.link(rank).socket.handle();
      all.push_back(awaited);
    }
    os::wait_for(all, kTick);
    size_t at = 0;
    for (auto& [rank, awaited] : of_rank) awaited = all[at++];
    for (Receiving& r : receiving_)
      if (!r.finished() && of_rank[r.from()].readable) receive(r);
    for (Sending& s : sending_)
      if (!s.finished() && of_rank[s.to()].writable) send(s);
    return false;
  }

  void receive(Receiving& r) {
    std::error_code error;
    r.step(mesh_.link(r.from()).socket, error);
    if (r.last() && r.finished()) throw error_in(r.reason(), mesh_.name_of(r.from()));
    if (error && !r.finished()) lost(r.from());
  }

  void send(Sending& s) {
    std::error_code error;
    s.step(mesh_.link(s.to()).socket, error);
    if (!error) return;
    if (!leaving_) lost(s.to());
    s.give_up();
  }

  [[noreturn]] void lost(int peer) {
    for (const Receiving& r : receiving_)
      if (r.from() == peer) mesh_.link(peer).unread = r.rest().value_or(0), mesh_.link(peer).torn = !r.rest();
    const Error reason = mesh_.reason_of(peer);
    throw reason;
  }

  std::string slowest() const {
    for (const Receiving& r : receiving_)
      if (!r.finished()) return mesh_.name_of(r.from());
    for (const Sending& s : sending_)
      if (!s.finished()) return mesh_.name_of(s.to());
    return "a rank";
  }

  Mesh& mesh_;
  std::deque<Sending> sending_;
  std::deque<Receiving> receiving_;
  bool leaving_ = false;
};

void Mesh::put(int peer, os::Socket socket) {
  socket.watch_closely();
  link(peer).socket = std::move(socket);
}

std::string Mesh::name_of(int peer) const {
  const std::string& name = links_[static_cast<size_t>(peer)].name;
  return name.empty() ? fmt::format("rank {}", peer) : fmt::format("rank {} (on {})", peer, name);
}

void Mesh::transfer(std::span<const Outgoing> out, std::span<const Incoming> in,
                    const std::atomic<bool>* cancel, std::optional<Clock::time_point> until) {
  check(!ended_, ErrorCode::internal, "ranks: rank {} has left the others", rank_);
  Transfer all(*this, out, in);
  try {
    all.run(cancel, until);
  } catch (...) {
    all.leave();
    throw;
  }
}

void Mesh::end(const Error& reason) noexcept try {
  if (std::exchange(ended_, true)) return;
  const std::string content = reason_bytes(reason);
  std::vector<Outgoing> out;
  for (int p = 0; p < size(); ++p)
    if (link(p).socket) out.push_back({p, FrameKind::last, bytes_in(content)});
  Transfer(*this, out, {}).tell();
  for (const Outgoing& o : out) link(o.to).socket.end_sending();
  // A connection that is closed before all is read is torn, and the last frame may be lost with it.
  std::array<uint8_t, 1 << 14> room{};
  const auto until = Clock::now() + milliseconds(300);
  for (const Outgoing& o : out)
    for (std::error_code error; !error && Clock::now() < until;)
      if (link(o.to).socket.receive(room, error) == 0 && !error) std::this_thread::sleep_for(milliseconds(5));
  for (Link& each : links_) each.socket.close();
} catch (...) {
}

int Mesh::gone(int milliseconds) const {
  std::vector<os::Awaited> all;
  std::vector<int> ranks;
  for (int p = 0; p < size(); ++p)
    if (const os::Socket& socket = socket_of(p))
      all.push_back({.socket = socket.handle()}), ranks.push_back(p);
  os::wait_for(all, milliseconds);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].gone) return ranks[i];
  return -1;
}

Error Mesh::reason_of(int peer) {
  Link& from = link(peer);
  const Error silent(ErrorCode::device, fmt::format("{} has ended without a word", name_of(peer)));
  // It is there already, or its end is; a busy machine may be slow to show it.
  const auto until = Clock::now() + std::chrono::seconds(2);
  std::vector<uint8_t> room(1 << 16);
  const auto read = [&](size_t most) {  // returns fewer bytes only at the end
    size_t got = 0;
    for (std::error_code error; got < most && !error && Clock::now() < until;) {
      const size_t more = from.socket.receive(std::span(room).subspan(got, most - got), error);
      if (more == 0 && !error) std::this_thread::sleep_for(milliseconds(5));
      got += more;
    }
    return std::string(reinterpret_cast<const char*>(room.data()), got);
  };
  while (!from.torn && from.socket) {
    while (from.unread > 0) {
      const size_t got = read(static_cast<size_t>(std::min<uint64_t>(room.size(), from.unread))).size();
      if (got == 0) return silent;
      from.unread -= got;
    }
    const auto header = read_header(read(kHeaderBytes));
    if (!header) return silent;
    from.unread = header->bytes;
    if (header->kind != FrameKind::last) continue;
    const std::string content = read(static_cast<size_t>(header->bytes));
    return content.size() == header->bytes ? error_in(content, name_of(peer)) : silent;
  }
  return silent;
}

}  // namespace tachy::distributed
