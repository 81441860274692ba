// SHA-256 (FIPS 180-4), to tell whether a file is the one that a run used, and for signatures (hmac.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace tachy {

class Sha256 {
 public:
  void add(std::span<const uint8_t> bytes);
  void add(std::string_view text) { add({reinterpret_cast<const uint8_t*>(text.data()), text.size()}); }
  // Both return the hash of everything added; call one of them, once.
  std::array<uint8_t, 32> digest();
  std::string hex();

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_{0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  std::array<uint8_t, 64> rest_{};
  uint64_t total_ = 0;  // bytes
};

std::string sha256_hex(std::span<const uint8_t> bytes);

// Returns the hash of a file's content; throws not_found, naming the input that the file is for, if it cannot be read.
std::string sha256_of_file(const std::string& path, const std::string& input);

}  // namespace tachy
