#include "distributed/door.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <list>
#include <set>
#include <thread>

#include "base/random_bytes.h"
#include "distributed/greeting.h"

namespace tachy::distributed {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr size_t kMostGuests = 256;  // who have not been let in yet
constexpr seconds kGuestTime{10};
constexpr int kMoment = 100;  // milliseconds

void look_at(const std::atomic<bool>* cancel) {
  check(!cancel || !cancel->load(), ErrorCode::cancelled, "cancelled");
}

// Somebody who has connected and not proved anything yet.
struct Guest {
  os::Socket socket;
  std::string number = random_bytes(kNumberBytes), said;
  Clock::time_point until = Clock::now() + kGuestTime;
};

class Door {
 public:
  Door(const os::Socket& listener, const Terms& terms, const std::function<void(int, os::Socket)>& come)
      : listener_(listener), terms_(terms), come_(come) {
    for (int rank = terms.rank + 1; rank < terms.ranks; ++rank) missing_.insert(rank);
  }

  void run() {
    while (!missing_.empty()) {
      look_at(terms_.cancel);
      check(Clock::now() < terms_.until, ErrorCode::device, "{}", who_is_missing());
      std::vector<os::Awaited> all{{.socket = listener_.handle(), .to_read = true}};
      for (const Guest& g : guests_) all.push_back({.socket = g.socket.handle(), .to_read = true});
      os::wait_for(all, kMoment);
      size_t at = 1;
      for (auto g = guests_.begin(); g != guests_.end(); ++at)
        g = (all[at].readable && !listen_to(*g)) || Clock::now() >= g->until ? guests_.erase(g) : ++g;
      if (all[0].readable) admit();
    }
  }

 private:
  void admit() {
    while (os::Socket socket = listener_.accept()) {
      if (guests_.size() >= kMostGuests) guests_.pop_front();
      Guest& guest = guests_.emplace_back();
      guest.socket = std::move(socket);
      std::error_code error;
      guest.socket.send(bytes_in(challenge(guest.number)), error);
    }
  }

  // Returns false once the guest is no more one.
  bool listen_to(Guest& guest) {
    std::array<uint8_t, kAnswerBytes> room{};
    std::error_code error;
    const size_t got = guest.socket.receive(std::span(room).first(kAnswerBytes - guest.said.size()), error);
    guest.said.append(reinterpret_cast<const char*>(room.data()), got);
    if (guest.said.size() < kAnswerBytes) return !error;
    std::optional<Judged> judged = judge(terms_.secret, guest.number, guest.said, terms_.rank, terms_.ranks);
    if (!judged) return false;
    if (judged->verdict == Verdict::welcome && !missing_.contains(judged->from))
      judged = Judged{Verdict::not_awaited, judged->from,
                      reply_to(terms_.secret, guest.number, guest.said, Verdict::not_awaited)};
    guest.socket.send(bytes_in(judged->reply), error);
    if (judged->verdict == Verdict::welcome) {
      missing_.erase(judged->from);
      come_(judged->from, std::move(guest.socket));
    } else if (judged->verdict == Verdict::wrong_secret) {
      in_vain_ = "somebody came with another TACHY_RANK_SECRET";
    } else if (judged->verdict == Verdict::other_ranks) {
      in_vain_ = "one came that counts another number of ranks";
    } else if (judged->verdict == Verdict::other_protocol) {
      in_vain_ = "one of another version of this program came";
    }
    return false;
  }

  std::string who_is_missing() const {
    const std::string text = fmt::format("`distributed`: rank {} did not come within {:g} seconds",
                                         fmt::join(missing_, ", "), terms_.seconds);
    return in_vain_.empty() ? text : text + "; " + in_vain_;
  }

  const os::Socket& listener_;
  const Terms& terms_;
  const std::function<void(int, os::Socket)>& come_;
  std::set<int> missing_;
  std::list<Guest> guests_;
  std::string in_vain_;
};

// Reads so many bytes, or fewer if the other side ends or the time is over.
std::string read_all(const os::Socket& socket, size_t bytes, const Terms& terms) {
  std::string out;
  std::vector<uint8_t> room(bytes);
  for (std::error_code error; out.size() < bytes && !error && Clock::now() < terms.until;) {
    look_at(terms.cancel);
    os::Awaited awaited{.socket = socket.handle(), .to_read = true};
    os::wait_for({&awaited, 1}, kMoment);
    if (!awaited.readable) continue;
    const size_t got = socket.receive(std::span(room).first(bytes - out.size()), error);
    out.append(reinterpret_cast<const char*>(room.data()), got);
  }
  return out;
}

[[noreturn]] void refused(Verdict verdict, int to, const Terms& terms) {
  const auto say = [&](const std::string& why) {
    fail(ErrorCode::invalid_argument, "`distributed`: rank {} does not let in rank {}: {}", to, terms.rank,
         why);
  };
  if (verdict == Verdict::wrong_secret) say("TACHY_RANK_SECRET is not the same for both");
  if (verdict == Verdict::other_protocol) say("it runs another version of this program");
  if (verdict == Verdict::other_ranks)
    say(fmt::format("it counts another number of ranks than {}", terms.ranks));
  say("a process with this rank is there already");
  std::abort();
}

// Returns an empty socket if nobody of ours answers there now.
os::Socket knock_once(const os::Endpoint& at, int to, const Terms& terms, std::string& why) {
  std::error_code error;
  os::Socket socket = os::Socket::connecting(at, error);
  os::Awaited awaited{.socket = socket.handle(), .to_write = true};
  for (int i = 0; i < 20 && !error && !awaited.writable; ++i) {
    look_at(terms.cancel);
    os::wait_for({&awaited, 1}, kMoment);
  }
  if (!error) error = awaited.writable ? socket.problem() : std::make_error_code(std::errc::timed_out);
  if (error) return why = error.message(), os::Socket();
  const std::string asked = read_all(socket, kChallengeBytes, terms);
  if (!is_challenge(asked)) return why = "what answers there is no rank of ours", os::Socket();
  const std::string said =
      answer(terms.secret, asked, random_bytes(kNumberBytes), {terms.rank, to, terms.ranks});
  socket.send(bytes_in(said), error);
  const std::string reply = read_all(socket, kVerdictBytes, terms);
  if (reply.size() < kVerdictBytes) return why = "the connection ended", os::Socket();
  const Verdict verdict = read_reply(terms.secret, asked, said, reply);
  if (verdict != Verdict::welcome) refused(verdict, to, terms);
  return socket;
}

}  // namespace

void let_in(const os::Socket& listener, const Terms& terms,
            const std::function<void(int rank, os::Socket socket)>& come) {
  Door(listener, terms, come).run();
}

os::Socket knock(const Addresses& addresses, uint16_t port, int to, const Terms& terms,
                 const std::string& where) {
  std::string why = "nobody knows this name";
  while (Clock::now() < terms.until) {
    for (const os::IpAddress& address : addresses())
      if (os::Socket socket = knock_once({address, port}, to, terms, why)) return socket;
    look_at(terms.cancel);
    std::this_thread::sleep_for(milliseconds(100));
  }
  fail(ErrorCode::device, "`distributed`: rank {} was not found at {} within {:g} seconds: {}", to, where,
       terms.seconds, why);
}

}  // namespace tachy::distributed
