// A checksum of bytes that any number of threads can add up in any order, with the same result on the host
// and on a GPU: the sum of every 32-bit word mixed with its place. It detects errors in memory and in
// transfers (bits, words, pages, pieces left out or swapped), but protects against no attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tachy {

// The contribution of word `at`.
constexpr uint64_t mixed_word(uint32_t word, uint64_t at) {
  uint64_t v = (word ^ (at << 32)) + 0x9e3779b97f4a7c15u * (at + 1);
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  return v ^ (v >> 31);
}

// Sums `bytes` bytes that begin at word `first` of a whole; the last word is filled up with zeros. Sums of
// parts add up to the sum of the whole.
inline uint64_t checksum_of(const void* data, size_t bytes, uint64_t first = 0) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes; i += 4) {
    uint32_t word = 0;
    std::memcpy(&word, at + i, bytes - i < 4 ? bytes - i : 4);
    sum += mixed_word(word, first + i / 4);
  }
  return sum;
}

}  // namespace tachy
