#include "base/os/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tachy::os {

std::string machine_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::optional<std::array<uint8_t, 4>> ipv4_address(const std::string& text) {
  std::array<uint8_t, 4> bytes{};
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) != 1) return std::nullopt;
  return bytes;
}

bool is_ipv6_address(const std::string& text) {
  uint8_t bytes[16];
  return ::inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

std::optional<IpAddress> ip_address(const std::string& text) {
  IpAddress out;
  if (::inet_pton(AF_INET, text.c_str(), out.bytes.data()) == 1) return out;
  out.six = true;
  if (::inet_pton(AF_INET6, text.c_str(), out.bytes.data()) == 1) return out;
  return std::nullopt;
}

std::optional<IpAddress> ip_address(const void* system_address, size_t bytes) {
  sockaddr_storage any{};
  std::memcpy(&any, system_address, std::min(bytes, sizeof any));
  IpAddress out;
  if (any.ss_family == AF_INET && bytes >= sizeof(sockaddr_in)) {
    std::memcpy(out.bytes.data(), &reinterpret_cast<const sockaddr_in&>(any).sin_addr, 4);
    return out;
  }
  if (any.ss_family != AF_INET6 || bytes < sizeof(sockaddr_in6)) return std::nullopt;
  out.six = true;
  std::memcpy(out.bytes.data(), &reinterpret_cast<const sockaddr_in6&>(any).sin6_addr, 16);
  return out;
}

std::string to_string(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(address.six ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
  return text;
}

Handle open_socket(int family, int type, int protocol) {
  const int made = ::socket(family, type | SOCK_CLOEXEC, protocol);
  return made < 0 ? kNoHandle : Handle{made};
}

bool wait_readable(Handle socket, int milliseconds) {
  struct pollfd asked {
    static_cast<int>(socket), POLLIN, 0
  };
  return ::poll(&asked, 1, milliseconds) > 0;
}

}  // namespace tachy::os
