#include "base/os/network.h"

#include <arpa/inet.h>
#include <unistd.h>

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

}  // namespace tachy::os
