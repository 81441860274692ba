// SHA-256 is compared with the examples of FIPS 180-4 and with Python's hashlib, for whole texts and in
// pieces.
#include "base/sha256.h"

#include <gtest/gtest.h>

#include <vector>

namespace tachy {
namespace {

std::string of(std::string_view text) {
  return sha256_hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

TEST(Sha256, KnownValues) {
  EXPECT_EQ(of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSame) {
  std::vector<uint8_t> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + i / 64);
  const std::string want = sha256_hex(bytes);
  for (const size_t piece : {1u, 3u, 55u, 56u, 63u, 64u, 65u, 200u}) {
    Sha256 hash;
    for (size_t at = 0; at < bytes.size(); at += piece)
      hash.add({bytes.data() + at, std::min(piece, bytes.size() - at)});
    EXPECT_EQ(hash.hex(), want) << piece;
  }
}

}  // namespace
}  // namespace tachy
