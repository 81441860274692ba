// Tests which names, origins and tokens are accepted.
#include "http/access.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace tachy::http {
namespace {

TEST(AccessTest, ThisMachineAloneAnswersToItsOwnNames) {
  const Access access("127.0.0.1", "");
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8190", "localhost", "LOCALHOST:9", "[::1]", "[::1]:8190", "127.8.0.1:80"})
    EXPECT_TRUE(access.host_allowed(host)) << host;
  for (const char* host :
       {"", ":", ":80", "evil.example", "evil.example:8190", "localhost.evil.example",
        "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0:8190", "localhost:", "localhost:123456",
        "localhost:8x", "[::1", "[::1]x", "::1", "localhost@evil.example", "127.0.0.1:80:80"})
    EXPECT_FALSE(access.host_allowed(host)) << host;
}

TEST(AccessTest, ElsewhereNamesMustBeTheMachines) {
  const Access any("0.0.0.0", "12345678"), named("world.example", "12345678");
  EXPECT_TRUE(any.host_allowed("10.0.0.1:8190"));
  EXPECT_TRUE(any.host_allowed("[fe80::1]:8190"));
  EXPECT_TRUE(any.host_allowed("localhost"));
  EXPECT_FALSE(any.host_allowed("evil.example:8190"));
  EXPECT_TRUE(named.host_allowed("World.Example:8190"));
  EXPECT_FALSE(named.host_allowed("evil.example:8190"));
}

TEST(AccessTest, AnOriginIsTheHostItself) {
  EXPECT_TRUE(Access::origin_allowed("http://localhost:8190", "localhost:8190"));
  EXPECT_TRUE(Access::origin_allowed("https://World.example", "world.example"));
  for (const char* origin :
       {"", "null", "http://localhost", "http://localhost:8191", "http://127.0.0.1:8190", "localhost:8190",
        "http://localhost:8190.evil.example", "http://evil.example/localhost:8190", "file://"})
    EXPECT_FALSE(Access::origin_allowed(origin, "localhost:8190")) << origin;
  EXPECT_FALSE(Access::origin_allowed("http://", ""));
}

TEST(AccessTest, TokensAreWholeOrNothing) {
  EXPECT_TRUE(Access("127.0.0.1", "").token_allowed(""));
  EXPECT_TRUE(Access("127.0.0.1", "").token_allowed("any"));
  const Access access("127.0.0.1", "abcdefgh");
  EXPECT_TRUE(access.token_allowed("abcdefgh"));
  for (const char* token : {"", "abcdefg", "abcdefghi", "abcdefgH", "abcdefghabcdefgh"})
    EXPECT_FALSE(access.token_allowed(token)) << token;
  for (const char* token : {"short", "with space", "a/b/c/d/e/f", "12345678\n"})
    EXPECT_THROW(Access("127.0.0.1", token), Error) << token;
  EXPECT_TRUE(is_token(random_token()));
  EXPECT_NE(random_token(), random_token());
}

TEST(AccessTest, WhatIsLoopback) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost", "LocalHost"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example", "127.0.0.1x", "128.0.0.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(AccessTest, ValuesOfAQuery) {
  EXPECT_EQ(query_value("/?token=abc", "token"), "abc");
  EXPECT_EQ(query_value("/picture?session=x&token=abc&z", "token"), "abc");
  EXPECT_EQ(query_value("/?mytoken=abc", "token"), "");
  EXPECT_EQ(query_value("/?token", "token"), "");
  EXPECT_EQ(query_value("/?token=", "token"), "");
  EXPECT_EQ(query_value("/token=abc", "token"), "");
  EXPECT_EQ(path_of("/a/b?c=d?e"), "/a/b");
  EXPECT_EQ(path_of("/"), "/");
}

}  // namespace
}  // namespace tachy::http
