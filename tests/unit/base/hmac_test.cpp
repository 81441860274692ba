// HMAC-SHA256 is compared with the examples of RFC 4231; comparisons of secrets and random bytes are tried.
#include "base/hmac.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "base/random_bytes.h"

namespace tachy {
namespace {

std::string bytes(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return out;
}

std::string hex_of(const Digest& digest) {
  std::string out;
  for (const uint8_t byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

TEST(Hmac, ExamplesOfRfc4231) {
  const std::string twenty(20, '\x0b'), long_key(131, '\xaa');
  EXPECT_EQ(hex_of(hmac_sha256(twenty, "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex_of(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_of(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(hex_of(hmac_sha256(bytes("0102030405060708090a0b0c0d0e0f10111213141516171819"),
                               std::string(50, '\xcd'))),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(hex_of(hmac_sha256(std::string(20, '\x0c'), "Test With Truncation")).substr(0, 32),
            "a3b6167473100ee06e0c796c2955552b");
  EXPECT_EQ(hex_of(hmac_sha256(long_key, "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hex_of(hmac_sha256(long_key,
                               "This is a test using a larger than block-size key and a larger than "
                               "block-size data. The key needs to be hashed before being used by the HMAC "
                               "algorithm.")),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Hmac, SecretsAreEqualOrNot) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
  EXPECT_FALSE(equal_in_constant_time("secret", "secres"));
  EXPECT_FALSE(equal_in_constant_time("secret", "tecret"));
  EXPECT_FALSE(equal_in_constant_time("secret", "secre"));
  EXPECT_FALSE(equal_in_constant_time("", "s"));
  EXPECT_FALSE(equal_in_constant_time(std::string_view("a\0b", 3), std::string_view("a\0c", 3)));
}

TEST(RandomBytes, HaveTheirLengthAndDiffer) {
  std::set<std::string> seen;
  for (size_t n = 0; n < 40; ++n) {
    EXPECT_EQ(random_bytes(n).size(), n);
    EXPECT_EQ(random_hex(n).size(), n);
    EXPECT_EQ(random_hex(n).find_first_not_of("0123456789abcdef"), std::string::npos);
    seen.insert(random_hex(32));
  }
  EXPECT_EQ(seen.size(), 40u);
  std::set<char> bytes;
  for (const char c : random_bytes(8192)) bytes.insert(c);
  EXPECT_EQ(bytes.size(), 256u);  // a byte is missing by chance once in 3e11 times
}

}  // namespace
}  // namespace tachy
