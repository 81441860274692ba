#include "base/random_bytes.h"

#include <cstdint>
#include <random>

namespace tachy {

std::string random_bytes(size_t count) {
  std::random_device device;  // the system's generator, not a pseudo-random one
  std::string out;
  for (uint32_t bits = 0; out.size() < count; bits >>= 8) {
    if (out.size() % 4 == 0) bits = static_cast<uint32_t>(device());
    out += static_cast<char>(bits & 0xff);
  }
  return out;
}

std::string random_hex(size_t digits) {
  std::string out;
  for (const char byte : random_bytes((digits + 1) / 2))
    out += {"0123456789abcdef"[byte >> 4 & 15], "0123456789abcdef"[byte & 15]};
  out.resize(digits);
  return out;
}

}  // namespace tachy
