// Base64 is compared with the examples of RFC 4648, and texts that no encoder writes are refused.
#include "base/base64.h"

#include <gtest/gtest.h>

#include "base/random_bytes.h"

namespace tachy {
namespace {

TEST(Base64, ExamplesOfRfc4648) {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
    const std::string bare = std::string(text).substr(0, std::string_view(text).find('='));
    EXPECT_EQ(to_base64url(bytes), bare);
    EXPECT_EQ(from_base64url(bare), bytes);
  }
}

TEST(Base64, TwoAlphabets) {
  EXPECT_EQ(to_base64("\xfb\xff\xfe"), "+//+");
  EXPECT_EQ(to_base64url("\xfb\xff\xfe"), "-__-");
  EXPECT_EQ(from_base64("-__-"), std::nullopt);
  EXPECT_EQ(from_base64url("+//+"), std::nullopt);
}

TEST(Base64, WhatNoEncoderWritesIsRefused) {
  for (const char* text : {"Zg", "Zg=", "Zg===", "Zm9v====", "=", "====", "Z===", "Zh==", "Zm9=", "Z g=",
                           "Zg==\n", " Zg=", "Zm9vZg==Zm9v", "Zm9v\xff", "Zg=a"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  for (const char* text : {"Z", "Zh", "Zg==", "Zm9", "Zm9vZ", "Zm 9"})
    EXPECT_EQ(from_base64url(text), std::nullopt) << text;
  EXPECT_EQ(from_base64(std::string_view("Zg\0=", 4)), std::nullopt);
}

TEST(Base64, AnyBytesComeBack) {
  for (size_t n = 0; n < 200; ++n) {
    const std::string bytes = random_bytes(n);
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    EXPECT_EQ(from_base64url(to_base64url(bytes)), bytes);
  }
}

}  // namespace
}  // namespace tachy
