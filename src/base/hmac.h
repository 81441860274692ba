// HMAC-SHA256 (RFC 2104), which shows that a text comes from whoever has the key and is unchanged:
//   H((key ^ 0x5c…) + H((key ^ 0x36…) + text))
// Secrets are compared in a time that does not depend on where they differ, since whoever measures that time
// could otherwise guess a secret byte by byte.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tachy {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view text);
Digest hmac_sha256(std::string_view key, std::string_view text);

// Returns the bytes as a text of them, for base64 (base64.h).
inline std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Takes a time that depends on the lengths alone.
bool equal_in_constant_time(std::string_view one, std::string_view other);

}  // namespace tachy
