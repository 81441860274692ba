#include "base/os/sockets.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/os/posix/calls.h"

namespace tachy::os {
namespace {

constexpr int kBacklog = 64;

int number(const Socket& socket) { return static_cast<int>(socket.handle()); }

struct SystemAddress {
  sockaddr_storage any{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&any); }
};

SystemAddress system_address(const Endpoint& e) {
  SystemAddress out;
  if (e.address.six) {
    auto& in = reinterpret_cast<sockaddr_in6&>(out.any);
    in.sin6_family = AF_INET6, in.sin6_port = htons(e.port), out.bytes = sizeof in;
    std::memcpy(&in.sin6_addr, e.address.bytes.data(), 16);
  } else {
    auto& in = reinterpret_cast<sockaddr_in&>(out.any);
    in.sin_family = AF_INET, in.sin_port = htons(e.port), out.bytes = sizeof in;
    std::memcpy(&in.sin_addr, e.address.bytes.data(), 4);
  }
  return out;
}

int new_socket(const Endpoint& e) {
  return static_cast<int>(
      open_socket(e.address.six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP));
}

void set(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

bool would_wait(int code) { return code == EAGAIN || code == EWOULDBLOCK || code == EINTR; }

size_t taken(ssize_t count, std::error_code& error) {
  error = {};
  if (count >= 0) return static_cast<size_t>(count);
  if (!would_wait(errno)) error = last_error();
  return 0;
}

}  // namespace

Socket Socket::listening(const Endpoint& at, std::error_code& error) {
  Socket out{new_socket(at)};
  const SystemAddress address = system_address(at);
  if (out) set(number(out), SOL_SOCKET, SO_REUSEADDR, 1);
  error = error_of(out && ::bind(number(out), address.get(), address.bytes) == 0 &&
                           ::listen(number(out), kBacklog) == 0
                       ? 0
                       : -1);
  return error ? Socket() : std::move(out);
}

Socket Socket::connecting(const Endpoint& to, std::error_code& error) {
  Socket out{new_socket(to)};
  const SystemAddress address = system_address(to);
  const bool begun =
      out && (::connect(number(out), address.get(), address.bytes) == 0 || errno == EINPROGRESS);
  error = error_of(begun ? 0 : -1);
  return error ? Socket() : std::move(out);
}

Socket Socket::accept() const {
  const int made = ::accept4(number(*this), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return made < 0 ? Socket() : Socket(Handle{made});
}

std::error_code Socket::problem() const {
  int code = 0;
  socklen_t bytes = sizeof code;
  if (::getsockopt(number(*this), SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) return last_error();
  return {code, std::generic_category()};
}

std::optional<Endpoint> Socket::local() const {
  SystemAddress at;
  at.bytes = sizeof at.any;
  if (::getsockname(number(*this), reinterpret_cast<sockaddr*>(&at.any), &at.bytes) != 0) return std::nullopt;
  const auto address = ip_address(&at.any, at.bytes);
  if (!address) return std::nullopt;
  const auto port = address->six ? reinterpret_cast<sockaddr_in6&>(at.any).sin6_port
                                 : reinterpret_cast<sockaddr_in&>(at.any).sin_port;
  return Endpoint{*address, ntohs(port)};
}

size_t Socket::send(std::span<const uint8_t> bytes, std::error_code& error) const {
  return taken(::send(number(*this), bytes.data(), bytes.size(), MSG_NOSIGNAL), error);
}

size_t Socket::receive(std::span<uint8_t> bytes, std::error_code& error) const {
  const ssize_t count = ::recv(number(*this), bytes.data(), bytes.size(), 0);
  const size_t out = taken(count, error);
  if (count == 0 && !bytes.empty()) error = std::make_error_code(std::errc::not_connected);
  return out;
}

void Socket::watch_closely() const {
  const int socket = number(*this);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 4000);
}

void Socket::end_sending() const { ::shutdown(number(*this), SHUT_WR); }

void Socket::close() {
  if (handle_ != kNoHandle) ::close(static_cast<int>(handle_));
  handle_ = kNoHandle;
}

void wait_for(std::span<Awaited> sockets, int milliseconds) {
  std::vector<struct pollfd> asked;
  for (const Awaited& s : sockets)
    asked.push_back({static_cast<int>(s.socket),
                     static_cast<short>((s.to_read ? POLLIN : 0) | (s.to_write ? POLLOUT : 0) | POLLRDHUP),
                     0});
  const bool some = ::poll(asked.data(), asked.size(), milliseconds) > 0;
  for (size_t i = 0; i < sockets.size(); ++i) {
    const int came = some ? asked[i].revents : 0;
    const bool broken = (came & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    sockets[i].gone = broken || (came & POLLRDHUP) != 0;
    sockets[i].readable = (came & POLLIN) != 0 || sockets[i].gone;
    sockets[i].writable = (came & POLLOUT) != 0 || broken;
  }
}

std::vector<IpAddress> addresses_of(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &first) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(first, ::freeaddrinfo);
  std::vector<IpAddress> out;
  for (const addrinfo* each = all.get(); each; each = each->ai_next)
    if (const auto address = ip_address(each->ai_addr, each->ai_addrlen)) out.push_back(*address);
  return out;
}

namespace {

// Calls visit(name, address) for each address of an interface that is up.
template <class Visit>
void for_interfaces(Visit&& visit) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, ::freeifaddrs);
  for (const ifaddrs* each = all.get(); each; each = each->ifa_next) {
    if (!each->ifa_addr || (each->ifa_flags & IFF_UP) == 0) continue;
    const bool six = each->ifa_addr->sa_family == AF_INET6;
    const size_t bytes = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (const auto address = ip_address(each->ifa_addr, bytes)) visit(each->ifa_name, *address);
  }
}

}  // namespace

std::optional<IpAddress> address_of_interface(const std::string& name) {
  std::optional<IpAddress> out;
  for_interfaces([&](const char* of, const IpAddress& address) {
    if (name == of && (!out || (out->six && !address.six))) out = address;
  });
  return out;
}

std::vector<std::string> interface_names() {
  std::vector<std::string> out;
  for_interfaces([&](const char* name, const IpAddress&) {
    if (std::ranges::find(out, name) == out.end()) out.emplace_back(name);
  });
  return out;
}

bool is_loopback(const IpAddress& address) {
  if (!address.six) return address.bytes[0] == 127;
  std::array<uint8_t, 16> one{};
  one[15] = 1;
  return address.bytes == one;
}

}  // namespace tachy::os
