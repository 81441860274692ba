// Percent signs, queries and the parts of paths.
#include "http/uri.h"

#include <gmock/gmock.h>

namespace tachy::http {
namespace {

using testing::ElementsAre;
using testing::Optional;
using testing::Pair;

TEST(UriTest, PercentSignsAreDecoded) {
  EXPECT_EQ(percent_decode("a%20b%2Fc+d"), "a b/c+d");
  EXPECT_EQ(percent_decode("a+b%2bc", true), "a b+c");
  EXPECT_EQ(percent_decode("%C3%a9"), "é");
  EXPECT_EQ(percent_decode(""), "");
  for (const char* text :
       {"%", "%4", "a%", "%zz", "%4g", "%g4", "%-1", "%C3", "%FF", "%00", "%C0%80", "%ED%A0%80"})
    EXPECT_EQ(percent_decode(text), std::nullopt) << text;
}

TEST(UriTest, AQueryIsAListOfPairs) {
  EXPECT_THAT(parse_query(""), Optional(ElementsAre()));
  EXPECT_THAT(
      parse_query("a=1&b=&c&=d&&a=2=3"),
      Optional(ElementsAre(Pair("a", "1"), Pair("b", ""), Pair("c", ""), Pair("", "d"), Pair("a", "2=3"))));
  EXPECT_THAT(parse_query("a%26b=x%3Dy+z"), Optional(ElementsAre(Pair("a&b", "x=y z"))));
  EXPECT_EQ(parse_query("a=%"), std::nullopt);
  EXPECT_EQ(parse_query("%ff=1"), std::nullopt);
  EXPECT_TRUE(parse_query("a=1&a=2", 2));
  EXPECT_EQ(parse_query("a=1&a=2&a=3", 2), std::nullopt);
}

TEST(UriTest, PartsOfAPath) {
  EXPECT_THAT(path_parts("/"), Optional(ElementsAre("")));
  EXPECT_THAT(path_parts("/v1/videos"), Optional(ElementsAre("v1", "videos")));
  EXPECT_THAT(path_parts("/v1//a/"), Optional(ElementsAre("v1", "", "a", "")));
  EXPECT_THAT(path_parts("/a%20b/..."), Optional(ElementsAre("a b", "...")));
  for (const char* path :
       {"", "a", "*", "/.", "/a/..", "/../a", "/%2e%2E/a", "/%2e", "/a%2fb", "/a%0db", "/%7f", "/%", "/\x01"})
    EXPECT_EQ(path_parts(path), std::nullopt) << path;
}

}  // namespace
}  // namespace tachy::http
