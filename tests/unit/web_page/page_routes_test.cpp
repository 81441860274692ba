// The addresses of the server's page: who may ask, and what goes out with its files.
#include "web_page/page_routes.h"

#include <gmock/gmock.h>

#include <map>
#include <regex>
#include <set>

#include "web_page/page_files.h"

namespace tachy::web_page {
namespace {

using testing::HasSubstr;
using testing::Not;

class PageRoutes : public testing::Test {
 protected:
  PageRoutes() { add_routes(router_); }

  http::Reply get(const std::string& path) {
    const http::Router::Found found = router_.find("GET", path);
    EXPECT_NE(found.route, nullptr) << path;
    if (!found.route) return {};
    EXPECT_TRUE(found.route->open) << path << ": a visitor without a key could not even be asked for one";
    http::Request request{.method = "GET", .path = path};
    return found.route->handler(request);
  }
  static std::string text_of(const http::Reply& reply) { return std::get<std::string>(reply.body); }
  static std::string header(const http::Reply& reply, const std::string& name) {
    for (const auto& [key, value] : reply.headers)
      if (key == name) return value;
    return "";
  }

  http::Router router_;
};

TEST_F(PageRoutes, TheRootIsThePage) {
  const http::Reply reply = get("/");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(header(reply, "Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(text_of(reply), HasSubstr("<title>Tachyscope</title>"));
  EXPECT_EQ(router_.find("GET", "/page/index.html").route, nullptr);
  EXPECT_EQ(router_.find("POST", "/").route, nullptr);
  EXPECT_EQ(router_.find("GET", "/page/nothing.js").route, nullptr);
}

TEST_F(PageRoutes, EachFileHasItsTypeAndAnETagOfItsOwn) {
  const std::map<std::string, std::string> types = {{".js", "text/javascript; charset=utf-8"},
                                                    {".css", "text/css; charset=utf-8"}};
  std::set<std::string> etags;
  for (const PageFile& file : page_files()) {
    const bool root = file.name == "index.html";
    const http::Reply reply = get(root ? "/" : "/page/" + std::string(file.name));
    if (!root)
      EXPECT_EQ(header(reply, "Content-Type"), types.at(std::string(file.name.substr(file.name.rfind('.')))));
    EXPECT_EQ(text_of(reply), file.text);
    EXPECT_EQ(header(reply, "Cache-Control"), "no-cache");
    EXPECT_TRUE(etags.insert(header(reply, "ETag")).second) << file.name;
    EXPECT_EQ(header(reply, "ETag").size(), 34u);
  }
  EXPECT_GT(etags.size(), 8u);
}

TEST_F(PageRoutes, ThePolicyAllowsNothingOfElsewhereAndNothingInline) {
  const http::Reply reply = get("/");
  const std::string policy = header(reply, "Content-Security-Policy");
  for (const char* part :
       {"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'",
        "form-action 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"})
    EXPECT_THAT(policy, HasSubstr(part));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
  EXPECT_THAT(policy, Not(HasSubstr("http")));
  EXPECT_THAT(policy, Not(HasSubstr("*")));
  EXPECT_EQ(header(reply, "X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(header(reply, "Referrer-Policy"), "no-referrer");
}

// The files have nothing that the policy would make a browser refuse.
TEST_F(PageRoutes, TheFilesHaveNothingInlineAndNoOtherAddress) {
  const std::regex inline_parts(R"(\son\w+="|\sstyle="|<style|javascript:|<script>)");
  for (const PageFile& file : page_files()) {
    const std::string text(file.text);
    if (file.name.ends_with(".html")) EXPECT_FALSE(std::regex_search(text, inline_parts)) << file.name;
    for (size_t at = text.find("://"); at != text.npos; at = text.find("://", at + 1))
      EXPECT_EQ(text.substr(at, 10), "://www.w3.") << file.name << ": only a namespace may be there";
    for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
      EXPECT_THAT(text, Not(HasSubstr(word))) << file.name;
  }
}

}  // namespace
}  // namespace tachy::web_page
