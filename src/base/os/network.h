// This machine's name, network addresses as text and bytes, and sockets that a library connects by itself.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/os/handle.h"

namespace tachy::os {

std::string machine_name();  // "" if it has none

std::optional<std::array<uint8_t, 4>> ipv4_address(const std::string& text);  // "127.0.0.1"
bool is_ipv6_address(const std::string& text);                                // "::1", without brackets

// An address of IPv4 (the first four bytes count) or IPv6.
struct IpAddress {
  bool six = false;
  std::array<uint8_t, 16> bytes{};
};
std::optional<IpAddress> ip_address(const std::string& text);
// Returns the address in a `struct sockaddr` of the system, or nothing if it is of another family.
std::optional<IpAddress> ip_address(const void* system_address, size_t bytes);
std::string to_string(const IpAddress& address);

// Returns a new socket of the system's family, type and protocol, or kNoHandle. Programs that this process starts
// do not get it.
Handle open_socket(int family, int type, int protocol);

// Waits until a socket can be read, or its other end is gone. Returns false if the time is over first.
bool wait_readable(Handle socket, int milliseconds);

}  // namespace tachy::os
