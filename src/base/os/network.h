// This machine's name, and the parsing of network addresses.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace tachy::os {

std::string machine_name();  // "" if it has none

std::optional<std::array<uint8_t, 4>> ipv4_address(const std::string& text);  // "127.0.0.1"
bool is_ipv6_address(const std::string& text);                                // "::1", without brackets

}  // namespace tachy::os
