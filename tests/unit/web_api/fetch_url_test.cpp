// Which addresses are public, and inputs that are fetched from a small server: hosts, redirects, sizes, times.
#include "web_api/fetch_url.h"

#include <gmock/gmock.h>

#include <chrono>
#include <fstream>

#include "base/error.h"
#include "base/sha256.h"
#include "small_server.h"
#include "temporary_folder.h"
#include "web_api/api_error.h"
#include "web_api/curl.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(PublicAddresses, OthersAreRefused) {
  const auto fine = [](const char* text) {
    const auto address = os::ip_address(std::string(text));
    EXPECT_TRUE(address) << text;
    return address && is_public_address(*address);
  };
  for (const char* text :
       {"8.8.8.8",         "1.1.1.1",         "9.255.255.255",   "11.0.0.0",    "100.63.255.255",
        "100.128.0.0",     "126.1.1.1",       "128.0.0.1",       "169.253.0.1", "169.255.0.1",
        "172.15.0.1",      "172.32.0.1",      "192.167.0.1",     "192.169.0.1", "198.17.0.1",
        "198.20.0.1",      "223.255.255.255", "2606:4700::1111", "2a00::1",     "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8"})
    EXPECT_TRUE(fine(text)) << text;
  for (const char* text : {"0.0.0.0",
                           "0.1.2.3",
                           "10.0.0.1",
                           "10.255.255.255",
                           "100.64.0.1",
                           "100.127.255.255",
                           "127.0.0.1",
                           "127.255.0.1",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.1",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.1.1",
                           "198.18.0.1",
                           "198.19.255.255",
                           "198.51.100.1",
                           "203.0.113.9",
                           "224.0.0.1",
                           "239.1.1.1",
                           "240.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::ffff:169.254.169.254",
                           "::127.0.0.1",
                           "64:ff9b::10.0.0.1",
                           "64:ff9b:1::1",
                           "fe80::1",
                           "febf::1",
                           "fc00::1",
                           "fd12::1",
                           "ff02::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:7f00:1::1",
                           "3fff::1",
                           "4000::1"})
    EXPECT_FALSE(fine(text)) << text;
}

TEST(Urls, AreReadAsTheyAreConnectedTo) {
  const auto host = [](const char* url) {
    const auto parts = url_parts(url);
    return parts ? fmt::format("{} {} {}", parts->scheme, parts->host, parts->port) : "none";
  };
  EXPECT_EQ(host("HTTP://Example.ORG/a?b"), "http example.org 80");
  EXPECT_EQ(host("https://example.org./"), "https example.org 443");
  EXPECT_EQ(host("https://[::1]:8443/"), "https ::1 8443");
  EXPECT_TRUE(url_parts("http://example.org\\@127.0.0.1/")->user);  // its host is 127.0.0.1
  EXPECT_EQ(host("http://127.0.0.1#@example.org/"), "http 127.0.0.1 80");
  EXPECT_EQ(host("http://2130706433/"), "http 127.0.0.1 80");
  EXPECT_EQ(host("http://0x7f.1/"), "http 127.0.0.1 80");
  for (const char* url : {"", "example.org", "http://", "http://a b/", "http://a:99999/"})
    EXPECT_EQ(host(url), "none") << url;
  EXPECT_TRUE(url_parts("http://user:word@example.org/")->user);
  EXPECT_FALSE(url_parts("http://example.org/@")->user);
}

class Fetching : public InTemporaryFolder {
 protected:
  std::shared_ptr<http::SpooledFile> fetch(const std::string& url) { return fetch_url(url, folder_, rules_); }
  std::string refusal(const std::string& url) {
    try {
      fetch(url);
    } catch (const ApiError& e) {
      EXPECT_EQ(e.code, "invalid_value");
      return e.message;
    }
    return "no error";
  }
  static std::string answer(const std::string& head, const std::string& body = "") {
    return "HTTP/1.1 " + head + "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  static auto any() {
    return [](const os::IpAddress&) { return true; };
  }
  void allow(const SmallServer& server) {
    rules_.hosts.push_back("127.0.0.1:" + std::to_string(server.port()));
    rules_.may_connect = any();
  }

  UrlRules rules_;
};

TEST_F(Fetching, AFileWithItsHash) {
  const std::string body = "a picture" + std::string(200'000, 'x');
  std::string seen;
  SmallServer server([&](const std::string& request) {
    seen = request;
    return answer("200 OK\r\nContent-Type: image/png\r\nSet-Cookie: a=b", body);
  });
  allow(server);
  fs::path path;
  {
    const auto file = fetch(server.url("/a.png"));
    path = file->path();
    EXPECT_EQ(file->bytes, body.size());
    EXPECT_EQ(file->type(), "image/png");
    EXPECT_EQ(file->filename(), "");
    EXPECT_EQ(file->sha256, sha256_hex({reinterpret_cast<const uint8_t*>(body.data()), body.size()}));
    EXPECT_EQ(fs::file_size(path), body.size());
    EXPECT_EQ(path.parent_path(), folder_);
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_TRUE(seen.starts_with("GET /a.png HTTP/1.1\r\n")) << seen;
  fetch(server.url("/a.png"));
  EXPECT_EQ(seen.find("Cookie"), seen.npos);
}

TEST_F(Fetching, OnlyFromHostsOnTheList) {
  SmallServer server([&](const std::string&) { return answer("200 OK", "x"); });
  EXPECT_THAT(refusal(server.url()), HasSubstr("fetches no inputs"));
  rules_.hosts = {"images.example.org"};
  rules_.may_connect = any();
  for (const std::string& url :
       {server.url(), std::string("http://images.example.org.evil/"),
        std::string("http://images.example.org:8080/"), std::string("http://evil/images.example.org")})
    EXPECT_THAT(refusal(url), HasSubstr("fetches no inputs from")) << url;
  EXPECT_THAT(refusal("http://a@images.example.org/"), HasSubstr("user"));
  for (const char* url : {"file:///etc/passwd", "ftp://images.example.org/", "gopher://images.example.org/"})
    EXPECT_THAT(refusal(url), HasSubstr("http or https")) << url;
  EXPECT_THAT(refusal("nonsense"), HasSubstr("not an address"));
  EXPECT_EQ(server.asked(), 0);
}

// A name on the list that leads into a private network gets nothing, not even a connection.
TEST_F(Fetching, NotFromAddressesThatAreNotPublic) {
  SmallServer server([&](const std::string&) { return answer("200 OK", "x"); });
  const std::string port = std::to_string(server.port());
  rules_.hosts = {"localhost:" + port, "127.0.0.1:" + port};
  EXPECT_THAT(refusal("http://localhost:" + port + "/"),
              HasSubstr("not one to which this server may connect"));
  EXPECT_THAT(refusal("http://127.0.0.1:" + port + "/"),
              HasSubstr("not one to which this server may connect"));
  EXPECT_EQ(server.asked(), 0);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Fetching, EachRedirectIsChecked) {
  SmallServer other([&](const std::string&) { return answer("200 OK", "secret"); });
  SmallServer server([&](const std::string& request) {
    if (request.starts_with("GET /good")) return answer("302 Found\r\nLocation: /there");
    if (request.starts_with("GET /there")) return answer("200 OK", "x");
    if (request.starts_with("GET /round")) return answer("301 Moved\r\nLocation: /round");
    if (request.starts_with("GET /file")) return answer("302 Found\r\nLocation: file:///etc/passwd");
    return answer("302 Found\r\nLocation: " + other.url());
  });
  allow(server);
  EXPECT_EQ(fetch(server.url("/good"))->bytes, 1u);
  EXPECT_THAT(refusal(server.url("/elsewhere")), HasSubstr("fetches no inputs from"));
  EXPECT_THAT(refusal(server.url("/file")), HasSubstr("http or https"));
  EXPECT_EQ(other.asked(), 0);
  const int before = server.asked();
  EXPECT_THAT(refusal(server.url("/round")), HasSubstr("more than 3 times"));
  EXPECT_EQ(server.asked() - before, 4);
}

TEST_F(Fetching, SizeAndTimeAreBounded) {
  std::atomic<bool> hang{false};
  SmallServer server([&](const std::string& request) {
    if (request.starts_with("GET /said")) return answer("200 OK", std::string(5000, 'x'));
    if (request.starts_with("GET /long"))
      return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(5000, 'x');
    if (request.starts_with("GET /none")) return answer("404 Not Found", "x");
    while (hang) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return std::string();
  });
  allow(server);
  rules_.most_bytes = 4000;
  EXPECT_THAT(refusal(server.url("/said")), HasSubstr("more than 4000 bytes"));
  EXPECT_THAT(refusal(server.url("/long")), HasSubstr("more than 4000 bytes"));
  EXPECT_THAT(refusal(server.url("/none")), HasSubstr("404"));
  EXPECT_THAT(refusal(server.url("/empty")), HasSubstr("cannot fetch it"));
  hang = true;
  rules_.seconds = 0.3;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(refusal(server.url("/slow")), HasSubstr("cannot fetch it"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  hang = false;
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Fetching, ProxiesOfTheEnvironmentDoNotCount) {
  SmallServer proxy([&](const std::string&) { return answer("200 OK", "by the proxy"); });
  SmallServer server([&](const std::string&) { return answer("200 OK", "x"); });
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) ::setenv(name, proxy.url().c_str(), 1);
  allow(server);
  EXPECT_EQ(fetch(server.url())->bytes, 1u);
  EXPECT_EQ(proxy.asked(), 0);
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY"}) ::unsetenv(name);
}

}  // namespace
}  // namespace tachy::web_api
