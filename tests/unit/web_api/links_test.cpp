// Signed links count for one id and a while; tickets count once.
#include "web_api/links.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "temporary_folder.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;

struct Signed {
  std::string expires, signature;
};

Signed signed_for(const std::string& secret, const std::string& id, int64_t expires_s) {
  const std::string query = signed_query(secret, id, expires_s);
  const size_t middle = query.find("&signature=");
  EXPECT_TRUE(query.starts_with("expires="));
  return {query.substr(8, middle - 8), query.substr(middle + 11)};
}

TEST(Links, OfOneIdAndAWhile) {
  const auto [expires, signature] = signed_for("secret", "video_1", 1000);
  EXPECT_EQ(expires, "1000");
  EXPECT_TRUE(link_verified("secret", "video_1", expires, signature, 999));
  EXPECT_FALSE(link_verified("secret", "video_1", expires, signature, 1000));  // too late
  EXPECT_FALSE(link_verified("secret", "video_2", expires, signature, 999));
  EXPECT_FALSE(link_verified("other", "video_1", expires, signature, 999));
  EXPECT_FALSE(link_verified("secret", "video_1", "1001", signature, 999));
  EXPECT_FALSE(link_verified("secret", "video_1", expires, signature + "A", 999));
  EXPECT_FALSE(link_verified("secret", "video_1", expires, "", 999));
  const auto none = signed_for("", "video_1", 1000);
  EXPECT_FALSE(link_verified("", "video_1", none.expires, none.signature, 999));
}

// Whoever can have links made for ids cannot make one id's signature count for another id and time.
TEST(Links, IdAndTimeCannotRunTogether) {
  const auto one = signed_for("secret", "video_1\n1", 1000);
  EXPECT_FALSE(link_verified("secret", "video_1", "1\n1000", one.signature, 0));
  for (const char* expires : {"", "-1", "1000x", " 1000", "99999999999999999999"}) {
    const std::string signature = signed_for("secret", "video_1", 1000).signature;
    EXPECT_FALSE(link_verified("secret", "video_1", expires, signature, 0)) << expires;
  }
}

TEST(Links, PathsThatTheyMayName) {
  EXPECT_EQ(linked_id("/v1/videos/video_1/content"), "video_1");
  EXPECT_EQ(linked_id("/v1/videos/video_1/previews/7"), "video_1");
  EXPECT_EQ(linked_id("/v1/videos/video_1/inputs/input_reference"), "video_1");
  for (const char* path : {"/v1/videos/video_1", "/v1/videos/video_1/", "/v1/videos/video_1/events",
                           "/v1/videos", "/v1/videos/a/b/content", "/v1/videos/a/previews/",
                           "/v1/videos/a/previews/1/2", "/v1/videos/a/inputs/", "/v1/videos/a/inputs",
                           "/v1/videos//content", "/v2/videos/a/content", "/v1/videos/a/content/", ""})
    EXPECT_EQ(linked_id(path), "") << path;
}

using LinkSecret = InTemporaryFolder;

TEST_F(LinkSecret, IsMadeOnceAndPrivate) {
  const std::string secret = link_secret(folder_);
  EXPECT_EQ(secret.size(), 32u);
  EXPECT_EQ(link_secret(folder_), secret);
  EXPECT_EQ(fs::status(folder_ / "link-secret").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(folder_ / "link-secret", static_cast<fs::perms>(0640));
  EXPECT_THROW(link_secret(folder_), Error);
  write("link-secret", "c2hvcnQ\n");
  EXPECT_THROW(link_secret(folder_), Error);
  fs::remove(folder_ / "link-secret");
  EXPECT_NE(link_secret(folder_), secret);
  EXPECT_THROW(link_secret(folder_ / "none"), Error);
}

TEST(Ticket, CountsOnceAndForAWhile) {
  Tickets tickets(60, 2);
  const std::string one = tickets.issue({.key = "alice", .admin = true}, 100);
  const std::string two = tickets.issue({.key = "bob"}, 130);
  EXPECT_THROW(tickets.issue({}, 131), Error);  // two wait
  EXPECT_FALSE(tickets.take(one.substr(1), 131));
  EXPECT_FALSE(tickets.take("", 131));
  const auto caller = tickets.take(one, 159);
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->key, "alice");
  EXPECT_TRUE(caller->admin);
  EXPECT_FALSE(tickets.take(one, 159));
  EXPECT_FALSE(tickets.take(two, 190));                           // too late
  for (int i = 0; i < 20; ++i) tickets.issue({}, 1000 + 60 * i);  // those that expired make room
}

}  // namespace
}  // namespace tachy::web_api
