#include "base/hmac.h"

#include <cstring>

#include "base/sha256.h"

namespace tachy {

Digest sha256(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.digest();
}

Digest hmac_sha256(std::string_view key, std::string_view text) {
  constexpr size_t kBlock = 64;
  char padded[kBlock] = {};
  if (key.size() > kBlock) {
    const Digest shorter = sha256(key);
    std::memcpy(padded, shorter.data(), shorter.size());
  } else if (!key.empty()) {
    std::memcpy(padded, key.data(), key.size());
  }
  const auto keyed = [&](char with, std::string_view message) {
    char block[kBlock];
    for (size_t i = 0; i < kBlock; ++i) block[i] = static_cast<char>(padded[i] ^ with);
    Sha256 hash;
    hash.add(std::string_view(block, kBlock));
    hash.add(message);
    return hash.digest();
  };
  return keyed(0x5c, bytes_of(keyed(0x36, text)));
}

bool equal_in_constant_time(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  volatile unsigned differs = 0;  // volatile, so that no compiler leaves the loop early
  for (size_t i = 0; i < one.size(); ++i)
    differs = differs | (static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]));
  return differs == 0;
}

}  // namespace tachy
