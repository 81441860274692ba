#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace tachy {
namespace {

constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::block(const uint8_t* p) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] =
        uint32_t{p[4 * i]} << 24 | uint32_t{p[4 * i + 1]} << 16 | uint32_t{p[4 * i + 2]} << 8 | p[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  std::array<uint32_t, 8> s = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t one = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                         ((e & s[5]) ^ (~e & s[6])) + kRound[i] + w[i];
    const uint32_t two =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    std::copy_backward(s.begin(), s.end() - 1, s.end());
    s[4] += one;
    s[0] = one + two;
  }
  for (size_t i = 0; i < 8; ++i) state_[i] += s[i];
}

void Sha256::add(std::span<const uint8_t> bytes) {
  size_t held = total_ % 64;
  total_ += bytes.size();
  while (!bytes.empty()) {
    if (held == 0 && bytes.size() >= 64) {
      block(bytes.data());
      bytes = bytes.subspan(64);
      continue;
    }
    const size_t take = std::min(bytes.size(), 64 - held);
    std::memcpy(rest_.data() + held, bytes.data(), take);
    held += take, bytes = bytes.subspan(take);
    if (held == 64) block(rest_.data()), held = 0;
  }
}

std::array<uint8_t, 32> Sha256::digest() {
  const uint64_t bits = total_ * 8;
  const uint8_t mark = 0x80, zero = 0;
  add({&mark, 1});
  while (total_ % 64 != 56) add({&zero, 1});
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  add(length);
  std::array<uint8_t, 32> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string Sha256::hex() {
  std::string out;
  for (const uint8_t byte : digest()) out += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return out;
}

std::string sha256_hex(std::span<const uint8_t> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string sha256_of_file(const std::string& path, const std::string& input) {
  std::error_code ec;
  std::ifstream in(path, std::ios::binary);
  check(in.good() && !std::filesystem::is_directory(path, ec), ErrorCode::not_found,
        "`{}`: cannot read {}; give an existing file", input, path);
  Sha256 hash;
  std::vector<char> block(1 << 16);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    hash.add(std::string_view(block.data(), static_cast<size_t>(in.gcount())));
  }
  return hash.hex();
}

}  // namespace tachy
