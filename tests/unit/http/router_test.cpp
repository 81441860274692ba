// Which route answers a path.
#include "http/router.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace tachy::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class RouterTest : public testing::Test {
 protected:
  void add(const char* method, const char* pattern) {
    router_.add({.method = method, .pattern = pattern, .handler = {}});
  }
  std::string found(const char* method, const char* path) const {
    const auto hit = router_.find(method, path);
    return hit.route ? hit.route->method + " " + hit.route->pattern : "";
  }
  Router router_;
};

TEST_F(RouterTest, PatternsMatchWholePaths) {
  add("GET", "/");
  add("GET", "/v1/videos");
  add("GET", "/v1/videos/{id}");
  add("GET", "/v1/videos/{id}/previews/{number}");
  EXPECT_EQ(found("GET", "/"), "GET /");
  EXPECT_EQ(found("GET", "/v1/videos"), "GET /v1/videos");
  EXPECT_EQ(found("GET", "/v1/videos/video_1"), "GET /v1/videos/{id}");
  EXPECT_THAT(router_.find("GET", "/v1/videos/a%20b/previews/7").captures, ElementsAre("a b", "7"));
  for (const char* path :
       {"", "v1", "/v1", "/v1/videos/", "/v1/videos/a/", "/v1/videos//previews/7", "/V1/videos",
        "/v1/videos/%2e%2e", "/v1/videos/a%2fb", "/v1/videos/%ff", "/v1/videos/..", "/v1/./videos"})
    EXPECT_EQ(found("GET", path), "") << path;
}

TEST_F(RouterTest, FewerCapturesGoFirst) {
  add("GET", "/v1/videos/{id}");
  add("DELETE", "/v1/videos/{id}");
  add("POST", "/v1/videos/plan");
  EXPECT_EQ(found("POST", "/v1/videos/plan"), "POST /v1/videos/plan");
  EXPECT_EQ(found("DELETE", "/v1/videos/plan"), "") << "it is no video";
  EXPECT_THAT(router_.find("DELETE", "/v1/videos/plan").other_methods, ElementsAre("POST"));
}

TEST_F(RouterTest, OtherMethodsAreNamed) {
  add("GET", "/a/{id}");
  add("DELETE", "/a/{id}");
  EXPECT_THAT(router_.find("PUT", "/a/1").other_methods, UnorderedElementsAre("GET", "DELETE"));
  EXPECT_THAT(router_.find("PUT", "/b").other_methods, IsEmpty());
  EXPECT_THAT(router_.find("GET", "/a/1").other_methods, IsEmpty());
}

TEST_F(RouterTest, HeadGoesToGet) {
  add("GET", "/a");
  add("POST", "/b");
  add("HEAD", "/c");
  add("GET", "/c");
  EXPECT_EQ(found("HEAD", "/a"), "GET /a");
  EXPECT_EQ(found("HEAD", "/b"), "");
  EXPECT_EQ(found("HEAD", "/c"), "HEAD /c");
  EXPECT_EQ(found("GET", "/c"), "GET /c");
}

TEST_F(RouterTest, ARouteIsThereOnce) {
  add("GET", "/a");
  EXPECT_THROW(add("GET", "/a"), Error);
  EXPECT_THROW(add("GET", "no slash"), Error);
}

TEST_F(RouterTest, ARouteKeepsItsAddress) {
  add("GET", "/a");
  const Route* const route = router_.find("GET", "/a").route;
  for (int i = 0; i < 100; ++i) add("GET", ("/" + std::to_string(i)).c_str());
  EXPECT_EQ(router_.find("GET", "/a").route, route);
}

}  // namespace
}  // namespace tachy::http
