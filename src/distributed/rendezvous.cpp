#include "distributed/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/env.h"
#include "base/field.h"
#include "base/os/network.h"
#include "base/os/process.h"
#include "distributed/greeting.h"

namespace tachy::distributed {
namespace {

constexpr size_t kMostName = 100;

// The place where a rank listens, and its name for messages.
struct Place {
  os::Endpoint at;
  std::string name;
};

std::string place_bytes(const Place& place) {
  std::string out = number_bytes(place.at.address.six ? 1 : 0, 1);
  out.append(reinterpret_cast<const char*>(place.at.address.bytes.data()), 16);
  out += number_bytes(place.at.port, 2);
  std::string name = place.name.substr(0, kMostName);
  name.resize(kMostName);
  return out + name;
}

constexpr size_t kPlaceBytes = 1 + 16 + 2 + kMostName;

Place place_in(std::string_view bytes) {
  Place out;
  out.at.address.six = bytes[0] != 0;
  std::copy_n(bytes.data() + 1, 16, reinterpret_cast<char*>(out.at.address.bytes.data()));
  out.at.port = static_cast<uint16_t>(number_in(bytes.substr(17, 2)));
  const std::string_view name = bytes.substr(19);
  out.name = name.substr(0, name.find('\0'));
  return out;
}

os::IpAddress address_of(const std::string& interface) {
  if (const auto address = os::ip_address(interface)) return *address;
  const auto address = os::address_of_interface(interface);
  require(address.has_value(),
          "`distributed`: TACHY_RANK_INTERFACE: this machine has no interface {} with an address, but {}",
          interface, fmt::join(os::interface_names(), ", "));
  return *address;
}

class Gathering {
 public:
  Gathering(const Launch& launch, const Meeting& meeting)
      : launch_(launch),
        meeting_(meeting),
        terms_{
            .secret = meeting.secret,
            .rank = launch.rank,
            .ranks = launch.ranks,
            .until = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(meeting.seconds * 1000)),
            .cancel = meeting.cancel,
            .seconds = meeting.seconds},
        mesh_(std::make_unique<Mesh>(launch.rank, launch.ranks)),
        places_(static_cast<size_t>(launch.ranks)) {}

  std::unique_ptr<Mesh> run() try {
    const std::string name = fmt::format("{}, process {}", os::machine_name(), os::process_id());
    if (launch_.rank == 0)
      receive_all(name);
    else
      go_to_first(name);
    for (int p = 0; p < launch_.ranks; ++p) mesh_->set_name(p, places_[static_cast<size_t>(p)].name);
    return std::move(mesh_);
  } catch (const Error& e) {
    mesh_->end(e);
    throw;
  }

 private:
  // Returns until when a rank waits for what another one sends, which may be why that one gives up.
  Clock::time_point patience() const { return terms_.until + std::chrono::seconds(5); }
  os::Socket listen_at(const os::Endpoint& at) const {
    std::error_code error;
    os::Socket out = os::Socket::listening(at, error);
    check(!error, ErrorCode::device, "`distributed`: rank {} cannot wait at {} port {}: {}", launch_.rank,
          os::to_string(at.address), at.port, error.message());
    return out;
  }
  void come(int rank, os::Socket socket) { mesh_->put(rank, std::move(socket)); }

  void check_secret(bool all_here) const {
    require(
        !meeting_.secret.empty() || all_here,
        "`distributed`: TACHY_RANK_SECRET is not set: ranks of several hosts need one, the same for all, of "
        "{} characters or more",
        kLeastSecret);
  }

  void receive_all(const std::string& name) {
    const auto known = os::addresses_of(launch_.host);
    os::IpAddress at;  // all of them
    if (!meeting_.interface.empty())
      at = address_of(meeting_.interface);
    else if (!known.empty() && os::is_loopback(known.front()))
      at = known.front();
    else
      at.six = !known.empty() && known.front().six;
    check_secret(os::is_loopback(at));
    const os::Socket listener = listen_at({at, launch_.port});
    let_in(listener, terms_, [this](int rank, os::Socket socket) { come(rank, std::move(socket)); });
    std::vector<std::string> texts(static_cast<size_t>(launch_.ranks));
    std::vector<Incoming> in;
    for (int p = 1; p < launch_.ranks; ++p)
      in.push_back({.from = p, .kind = FrameKind::text, .bytes = {}, .text = &texts[static_cast<size_t>(p)]});
    mesh_->transfer({}, in, terms_.cancel, patience());
    texts[0] = place_bytes({{}, name});
    std::string all;
    for (const std::string& text : texts) {
      check(text.size() == kPlaceBytes, ErrorCode::device, "`distributed`: a rank told no place");
      all += text;
    }
    std::vector<Outgoing> out;
    for (int p = 1; p < launch_.ranks; ++p) out.push_back({p, FrameKind::text, bytes_in(all)});
    mesh_->transfer(out, {}, terms_.cancel, patience());
    read_places(all);
  }

  void read_places(std::string_view all) {
    check(all.size() == kPlaceBytes * places_.size(), ErrorCode::device,
          "`distributed`: rank 0 told {} bytes of places", all.size());
    for (size_t p = 0; p < places_.size(); ++p)
      places_[p] = place_in(all.substr(p * kPlaceBytes, kPlaceBytes));
  }

  void go_to_first(const std::string& name) {
    const Addresses addresses = [this] {
      const auto out = os::addresses_of(launch_.host);
      check_secret(std::ranges::all_of(out, os::is_loopback));
      return out;
    };
    come(0, knock(addresses, launch_.port, 0, terms_, fmt::format("{} port {}", launch_.host, launch_.port)));
    os::IpAddress mine;
    if (!meeting_.interface.empty())
      mine = address_of(meeting_.interface);
    else if (const auto local = mesh_->socket_of(0).local())
      mine = local->address;
    const os::Socket listener = listen_at({mine, 0});
    const auto at = listener.local();
    check(at.has_value(), ErrorCode::device, "`distributed`: the system tells no port");
    const std::string place = place_bytes({*at, name});
    std::string all;
    const Outgoing out{0, FrameKind::text, bytes_in(place)};
    const Incoming in{.from = 0, .kind = FrameKind::text, .bytes = {}, .text = &all};
    mesh_->transfer({&out, 1}, {&in, 1}, terms_.cancel, patience());
    read_places(all);
    for (int p = 1; p < launch_.rank; ++p) {
      const os::Endpoint& there = places_[static_cast<size_t>(p)].at;
      come(p, knock([&] { return std::vector{there.address}; }, there.port, p, terms_,
                    fmt::format("{} port {}", os::to_string(there.address), there.port)));
    }
    let_in(listener, terms_, [this](int rank, os::Socket socket) { come(rank, std::move(socket)); });
  }

  const Launch& launch_;
  const Meeting& meeting_;
  const Terms terms_;
  std::unique_ptr<Mesh> mesh_;
  std::vector<Place> places_;
};

}  // namespace

Meeting meeting_of_environment() {
  Meeting out{.secret = env_string("TACHY_RANK_SECRET", ""),
              .interface = env_string("TACHY_RANK_INTERFACE", "")};
  require(out.secret.empty() || out.secret.size() >= kLeastSecret,
          "TACHY_RANK_SECRET: expected {} characters or more, got {}", kLeastSecret, out.secret.size());
  const std::string seconds = env_string("TACHY_RANK_SECONDS", "60");
  const auto [end, error] = std::from_chars(seconds.data(), seconds.data() + seconds.size(), out.seconds);
  constexpr Range kSeconds{.least = 1, .most = 3600};
  require(error == std::errc() && end == seconds.data() + seconds.size() && kSeconds.holds(out.seconds),
          "TACHY_RANK_SECONDS: expected {}, got '{}'", kSeconds.text(), seconds);
  return out;
}

std::unique_ptr<Mesh> meet(const Launch& launch, const Meeting& meeting) {
  return Gathering(launch, meeting).run();
}

}  // namespace tachy::distributed
